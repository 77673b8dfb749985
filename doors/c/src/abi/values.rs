//! The arguments and results of functions: texts, lists, host tensors, results, errors.

use std::ffi::{c_char, c_void};

/// A backend of the library, as its `open` made it.
#[repr(C)]
#[derive(Debug)]
pub struct Raw {
    _private: [u8; 0],
}

/// A tensor of a backend.
#[repr(C)]
#[derive(Debug)]
pub struct RawTensor {
    _private: [u8; 0],
}

/// The result of a function: 0, or the number of its error.
pub type Status = i32;

/// The values of [`Status`]. All but the first two are the kinds of errors of `bb`.
pub mod status {
    use bb_ir::ErrorKind;

    /// The function succeeded.
    pub const OK: i32 = 0;
    /// The code of the backend panicked, or threw, and was stopped.
    pub const PANICKED: i32 = 100;

    /// Each kind of error with its number, and its name in C.
    pub const KINDS: [(ErrorKind, i32, &str); 8] = [
        (ErrorKind::InvalidModel, 1, "BB_INVALID_MODEL"),
        (ErrorKind::WrongInput, 2, "BB_WRONG_INPUT"),
        (ErrorKind::Configuration, 3, "BB_CONFIGURATION"),
        (ErrorKind::Unsupported, 4, "BB_UNSUPPORTED"),
        (ErrorKind::Limit, 5, "BB_LIMIT"),
        (ErrorKind::Cancelled, 6, "BB_CANCELLED"),
        (ErrorKind::Device, 7, "BB_DEVICE"),
        (ErrorKind::Internal, 8, "BB_INTERNAL"),
    ];

    /// Returns the number of a kind.
    pub fn of(kind: ErrorKind) -> i32 {
        KINDS.iter().find(|row| row.0 == kind).map_or(8, |row| row.1)
    }

    /// Returns the kind with a number. A number that the interface does not define counts as a failure of the backend.
    pub fn kind(number: i32) -> ErrorKind {
        defined(number).unwrap_or(ErrorKind::Device)
    }

    /// Returns the kind with a number; `None` if the interface does not define the number.
    pub(crate) fn defined(number: i32) -> Option<ErrorKind> {
        KINDS.iter().find(|row| row.1 == number).map(|row| row.0)
    }

    /// Adds the number to the message of a function that failed, if the interface does not define the number.
    pub(crate) fn explained(number: i32, message: String) -> String {
        if number == PANICKED || defined(number).is_some() {
            return message;
        }
        format!(
            "{message}; it returned the status {number}, which `bb.h` does not define: it counts as BB_DEVICE"
        )
    }
}

/// A list that the caller lends for the length of a call; in C, each type of item has a structure of its own name.
#[repr(C)]
#[derive(Debug)]
pub struct Items<T> {
    /// The first item; may be null if there is none.
    pub items: *const T,
    /// The number of items.
    pub count: usize,
}

impl<T> Clone for Items<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Items<T> {}

impl<T> Items<T> {
    /// Lends a slice.
    pub const fn of(items: &[T]) -> Items<T> {
        Items { items: items.as_ptr(), count: items.len() }
    }

    /// Returns the items.
    ///
    /// # Safety
    ///
    /// `items` points to `count` values of the type, or `count` is 0, and they stay as they are while the slice is used.
    pub unsafe fn slice<'a>(self) -> &'a [T] {
        if self.count == 0 || self.items.is_null() {
            return &[];
        }
        // SAFETY: the caller upholds the safety contract.
        unsafe { std::slice::from_raw_parts(self.items, self.count) }
    }
}

/// UTF-8 text, which no zero ends.
pub type Text = Items<u8>;

impl Text {
    /// Lends a text.
    pub const fn new(text: &str) -> Text {
        Items::of(text.as_bytes())
    }
}

/// Where a function that may have several results puts them.
pub type Results = *mut Slot;

/// Receives the name and a description of a device.
pub type Devices = Option<unsafe extern "C" fn(context: *mut c_void, name: Text, description: Text)>;

/// Receives the end of a run: a status, the text of an error, and the results.
pub type Done = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        status: Status,
        text: Text,
        results: *const Slot,
        count: usize,
    ),
>;

/// The kinds of a [`Parameter`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum ParameterKind {
    /// Nothing.
    Nothing = 0,
    /// `integer`; also a truth value, an element type by ONNX's number, a rounding mode.
    Integer = 1,
    /// `number`.
    Number = 2,
    /// `items` are `count` values of `int64_t`.
    Integers = 3,
    /// `items` are `count` values of `double`.
    Numbers = 4,
    /// `items` are `count` values of `size_t`.
    Extents = 5,
    /// `items` are `count` bytes of text.
    Text = 6,
    /// `items` is a `bb_data`.
    Data = 7,
}

c_structs! {
    /// Two texts: an option and its value.
    Named = "bb_named" {
        /// The name.
        name: Text = "bb_text name";
        /// The value.
        value: Text = "bb_text value";
    }

    /// A tensor in host memory: row-major, little-endian, without gaps; types of less than a byte are packed, the first element lowest.
    /// Truth values are one byte, 0 or 1. Strings are `n + 1` offsets of 64 bits, and then the UTF-8 bytes that they divide: string `i` has the
    /// bytes from offset `i` to before offset `i + 1`, and the first byte after the offsets has the offset 0.
    Data = "bb_data" {
        /// ONNX's number of the element type.
        dtype: i32 = "int32_t dtype";
        /// The number of extents.
        rank: usize = "size_t rank";
        /// The extents, outermost first.
        shape: *const usize = "const size_t *shape";
        /// The elements, aligned for their type.
        bytes: *const u8 = "const uint8_t *bytes";
        /// The number of bytes.
        length: usize = "size_t length";
    }

    /// A place for a result. Before a primitive is called, the host writes which type and shape the result has by ONNX's rules, so that a
    /// backend need not work it out; a backend that writes something else there has failed. Elsewhere the backend writes all fields.
    Slot = "bb_result" {
        /// The result, null before the call. The host releases each tensor that is here after the call, once. So a function that fails leaves
        /// null here: if it has freed a tensor itself, it sets this to null again.
        tensor: *mut RawTensor = "bb_tensor *tensor";
        /// ONNX's number of the element type.
        dtype: i32 = "int32_t dtype";
        /// The number of extents.
        rank: usize = "size_t rank";
        /// The extents. Those that a backend writes must stay until the tensor is released.
        shape: *const usize = "const size_t *shape";
    }

    /// A place for the text of an error. A function that returns another status than `BB_OK` writes the reason, cut to `capacity`. A text
    /// that bb cuts ends with `…`. If the function returns `BB_OK`, it writes nothing here. The host gives functions of a backend at least
    /// 1024 bytes.
    Failure = "bb_error" {
        /// The size of this structure.
        size: usize = "size_t size";
        /// The memory for the text, which belongs to the caller.
        text: *mut c_char = "char *text";
        /// The number of bytes that `text` holds.
        capacity: usize = "size_t capacity";
        /// The number of bytes that the function wrote: UTF-8, without a zero.
        length: usize = "size_t length";
    }

    /// A parameter of a native operation. All parameters of the method come, in its order, as bb/docs/c.md describes: for `softmax` one
    /// `INTEGER`, the axis. The kind says which fields are valid. Lists are lent for the call.
    Parameter = "bb_parameter" {
        /// One of `BB_PARAMETER_NOTHING` and so on. `NOTHING` is an optional parameter that is not given.
        kind: i32 = "int32_t kind";
        /// The value of `INTEGER`: an integer, an axis, a truth value (0 or 1), or ONNX's number of an element type.
        integer: i64 = "int64_t integer";
        /// The value of `NUMBER`.
        number: f64 = "double number";
        /// The items of `INTEGERS` (`int64_t`), `NUMBERS` (`double`), `EXTENTS` (`size_t`) and `TEXT` (`char`), or the `bb_data` of
        /// `DATA`.
        items: *const c_void = "const void *items";
        /// The number of items; 1 for `DATA`.
        count: usize = "size_t count";
    }

    /// How much memory a backend uses, in bytes. `UINT64_MAX` is a number that is not known, or no limit.
    MemoryUse = "bb_memory" {
        /// The size of this structure.
        size: usize = "size_t size";
        /// The bytes of buffers that tensors use.
        live: u64 = "uint64_t live";
        /// The bytes of buffers that are kept for later tensors.
        pooled: u64 = "uint64_t pooled";
        /// The greatest value that `live + pooled` had.
        peak: u64 = "uint64_t peak";
        /// The greatest allowed value of `live + pooled`.
        limit: u64 = "uint64_t limit";
        /// The bytes that the device still has.
        available: u64 = "uint64_t available";
    }
}
