//! Tests tables and descriptions with false values.

use super::{good, kept, linked};
use bb::{DataType, ErrorKind, LoadError, OpenOptions};
use bb_c::abi::{
    Description, Failure, Items, Library, MAGIC, Named, OptionSpec, Primitives, Raw, Status, Text, VERSION,
};
use std::ptr::null_mut;

fn message(table: Library, primitives: Primitives) -> String {
    linked(table, primitives).unwrap_err().to_string()
}

#[test]
fn what_a_table_says_first_is_compared() {
    let (table, primitives) = good();
    assert!(linked(table, primitives).is_ok());
    for (wrong, expected) in [
        (
            Library { size: 0, ..table },
            "a `bb_library` of at least 80 bytes, at most 65536, in units of 8, got 0 bytes: write `.size = sizeof(bb_library)`",
        ),
        (
            Library { size: 72, ..table },
            "a `bb_library` of at least 80 bytes, at most 65536, in units of 8, got 72 bytes: write `.size = sizeof(bb_library)`",
        ),
        (Library { size: 105, ..table }, "got 105 bytes"),
        (Library { size: usize::MAX, ..table }, "in units of 8, got 18446744073709551615 bytes"),
        (Library { magic: 1, ..table }, "got 0x1: write `.magic = BB_MAGIC`"),
        (
            Library { version: VERSION + 1, ..table },
            "wrong version of the interface: expected 1, got 2: write `.version = BB_VERSION`",
        ),
        (
            Library { version: 0, ..table },
            "wrong version of the interface: expected 1, got 0: write `.version = BB_VERSION`",
        ),
        (Library { fingerprint: 7, ..table }, ": write `.fingerprint = BB_PRIMITIVES`"),
        (Library { flags: 6, ..table }, "wrong set of flags: expected `BB_UNLOADS`, or 0, got 0x6"),
    ] {
        let message = message(wrong, primitives);
        assert!(message.contains(expected), "{message}");
        assert!(message.starts_with("the library `wrong` has a wrong "), "{message}");
    }
    assert_eq!(MAGIC, table.magic);
}

#[test]
fn functions_that_are_missing_are_named() {
    let (table, primitives) = good();
    let message = message(
        Library { describe: None, release: None, ..table },
        Primitives { add: None, constant: None, ..primitives },
    );
    assert_eq!(
        message,
        "the library `wrong` lacks `describe`, `release`, the primitive `constant`: write it, and name it in `bb_backend_library`"
    );
    let short = Primitives { size: 8, ..primitives };
    let of_none = Library { fingerprint: bb_ir::op::primitives_fingerprint(0), ..table };
    assert!(linked(of_none, short).unwrap_err().to_string().contains("the primitive `add`, "));
    let none = linked(table, Primitives::NONE).unwrap_err().to_string();
    assert!(none.contains(" lacks the primitive `add`, the primitive `sub`, "), "{none}");
    let cut = linked(table, Primitives { size: 16, ..primitives }).unwrap_err().to_string();
    // The table begins with its size, and each function is a pointer.
    let size = 8 * (bb::Primitive::ALL.len() + 1);
    assert_eq!(
        cut,
        format!(
            "the library `wrong` has a wrong size of the table of primitives: expected {size} bytes by its fingerprint, got \
             16 bytes: write `.size = sizeof(bb_primitives)`"
        )
    );
    let long = Primitives { size: size + 72, ..primitives };
    assert!(matches!(linked(table, long), Err(LoadError::Mismatch { .. })));
    // An older library lacks the last functions of the table.
    let old = Library { size: std::mem::offset_of!(Library, types), ..table };
    assert!(linked(old, primitives).unwrap().open(&OpenOptions::default()).is_ok());
}

#[test]
fn a_table_of_primitives_that_is_null() {
    let (table, _) = good();
    let table = kept(Library { primitives: std::ptr::null(), ..table });
    // SAFETY: the table stays alive, and its null pointer is detected.
    let error = unsafe { bb::BackendLibrary::linked(table, "wrong") }.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the library `wrong` lacks `primitives`: write it, and name it in `bb_backend_library`"
    );
    // SAFETY: the null pointer is detected.
    assert!(unsafe { bb::BackendLibrary::linked(std::ptr::null(), "wrong") }.is_err());
}

/// Writes a modified description of the backend written in C.
unsafe fn described(into: *mut Description, change: impl FnOnce(&mut Description)) -> Status {
    let describe = good().0.describe.unwrap();
    // SAFETY: the host passes a valid structure.
    unsafe {
        describe(into, null_mut());
        change(&mut *into);
    }
    0
}

/// Defines functions that describe the backend, each with one change.
macro_rules! descriptions {
    ($($name:ident: |$d:ident| $change:expr;)*) => { $(
        unsafe extern "C" fn $name(into: *mut Description, _: *mut Failure) -> Status {
            // SAFETY: the host passes a valid structure.
            unsafe { described(into, |$d| $change) }
        }
    )* };
}

const NOT_UTF8: &[u8] = &[b'a', 0xff];
const fn option(name: &'static str, kind: &'static str, initial: &'static str) -> OptionSpec {
    OptionSpec {
        name: Text::new(name),
        kind: Text::new(kind),
        initial: Text::new(initial),
        about: Text::new(""),
    }
}

const ODD_OPTION: &[OptionSpec] = &[option("tile", "u128", "1")];
const NO_DEFAULT: &[OptionSpec] = &[option("tile", "u64", "many")];
const OWN_THREADS: &[OptionSpec] = &[option("threads", "u64", "1")];
const TILED: &[OptionSpec] = &[option("tile", "u64", "1"), option("threads", "threads", "")];
const TWICE: &[OptionSpec] = &[option("tile", "u64", "1"), option("tile", "bool", "true")];
const NATIVES: &[Text] = &[Text::new("sofmax")];

descriptions! {
    no_name: |d| d.name = Text::new("");
    odd_name: |d| d.name = Text::new("a+b(c)");
    no_utf8: |d| d.name = Items::of(NOT_UTF8);
    null_name: |d| d.name = Items { items: std::ptr::null(), count: 5 };
    no_version: |d| d.version = Text::new("");
    long_version: |d| d.version = Items { items: d.version.items, count: usize::MAX };
    odd_types: |d| d.types = 1 << 63;
    no_types: |d| d.types = 0;
    few_types: |d| d.types = 1 << DataType::F32.to_onnx();
    odd_option: |d| d.options = Items::of(ODD_OPTION);
    no_default: |d| d.options = Items::of(NO_DEFAULT);
    own_threads: |d| d.options = Items::of(OWN_THREADS);
    twice: |d| d.options = Items::of(TWICE);
    many_options: |d| d.options = Items { items: ODD_OPTION.as_ptr(), count: usize::MAX };
    natives: |d| d.natives = Items::of(NATIVES);
    tiled: |d| d.options = Items::of(TILED);
    no_size: |d| d.size = 0;
    null_options: |d| d.options = Items { items: std::ptr::null(), count: 5 };
    null_natives: |d| d.natives = Items { items: std::ptr::null(), count: 5 };
}

/// Returns the received options as the message of an error.
unsafe extern "C" fn repeats(pairs: Items<Named>, _: *mut *mut Raw, error: *mut Failure) -> Status {
    // SAFETY: the host passes valid pointers, and the message has room for 1024 bytes.
    unsafe {
        let text = |text: Text| String::from_utf8_lossy(text.slice()).into_owned();
        let pairs = pairs.slice().iter().map(|pair| format!("{}={};", text(pair.name), text(pair.value)));
        let all: String = pairs.collect();
        std::ptr::copy_nonoverlapping(all.as_ptr(), (*error).text.cast(), all.len());
        (*error).length = all.len();
    }
    3
}

#[test]
fn an_option_that_is_not_given_comes_with_its_default() {
    let (table, primitives) = good();
    let table = Library { describe: Some(tiled), open: Some(repeats), ..table };
    let library = linked(table, primitives).unwrap();
    let said = |options: OpenOptions| library.open(&options).unwrap_err().to_string();
    let failed = "`open` of the library `wrong` failed: ";
    assert_eq!(said(OpenOptions::default()), format!("{failed}tile=1;"));
    assert_eq!(said(OpenOptions::default().with_own("tile", 4)), format!("{failed}tile=4;"));
}

#[test]
fn descriptions_are_compared() {
    let (table, primitives) = good();
    type Describe = unsafe extern "C" fn(*mut Description, *mut Failure) -> Status;
    let cases: [(Describe, &str); 17] = [
        (
            no_name,
            "wrong name: expected letters, digits, `-` and `_`, got ``: write `.name = BB_TEXT(\"mine\")`",
        ),
        (odd_name, "wrong name: expected letters, digits, `-` and `_`, got `a+b(c)`"),
        (no_utf8, "wrong name: expected UTF-8"),
        (null_name, "wrong name: expected a pointer to 5 bytes, got null"),
        (
            no_version,
            "wrong version: expected a text such as `1.0.0`, got an empty text: write `.version = BB_TEXT(\"1.0.0\")`",
        ),
        (long_version, "wrong version: expected a text of at most 4096 bytes"),
        (
            few_types,
            "wrong set of element types: expected float32, bool, and int32 or int64 among them, got f32: write `1ull",
        ),
        (odd_types, ": write `1ull << BB_F32 | 1ull << BB_I32 | 1ull << BB_BOOL`"),
        (no_size, "wrong size of the description: expected the number of bytes that `describe` wrote, got 0"),
        (null_options, "wrong list of options: expected a pointer to 5 items, got null"),
        (null_natives, "wrong list of native operations: expected a pointer to 5 items, got null"),
        (odd_option, "`bool`, `i64`, `u64`, `f64` or `str`, got `u128` of the option `tile`"),
        (no_default, "expected a whole number, at least 0, got `many` of the option `tile`"),
        (own_threads, "got `u64` of the option `threads`"),
        (twice, "wrong list of options: expected each name once, got `tile` twice"),
        (many_options, "wrong number of options: expected at most 65536"),
        (
            natives,
            "wrong function `native`: expected one that computes the operations of `natives`, got null",
        ),
    ];
    for (describe, expected) in cases {
        let message = message(Library { describe: Some(describe), ..table }, primitives);
        assert!(message.contains(expected), "{message}");
    }
    let library = linked(Library { describe: Some(no_types), ..table }, primitives).unwrap();
    let message = library.open(&OpenOptions::default()).unwrap_err().to_string();
    let expected = "wrong set of element types: expected bits of ONNX's element types, at least one, got 0x0";
    assert!(message.contains(expected), "{message}");
}

unsafe extern "C" fn failing(_: *mut Description, error: *mut Failure) -> Status {
    // SAFETY: the host passes a valid structure. The length is false on purpose.
    unsafe {
        (*error).text.cast::<u8>().write(b'!');
        (*error).length = usize::MAX;
    }
    5
}

unsafe extern "C" fn silent(_: Items<Named>, _: *mut *mut Raw, _: *mut Failure) -> Status {
    -77
}

unsafe extern "C" fn nothing(_: Items<Named>, _: *mut *mut Raw, _: *mut Failure) -> Status {
    0
}

#[test]
fn functions_that_fail_say_why() {
    let (table, primitives) = good();
    let error = linked(Library { describe: Some(failing), ..table }, primitives).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.to_string().ends_with("`describe` of the library `wrong` failed: !"), "{error}");
    let open = |open: unsafe extern "C" fn(Items<Named>, *mut *mut Raw, *mut Failure) -> Status| {
        let library = linked(Library { open: Some(open), ..table }, primitives).unwrap();
        library.open(&OpenOptions::default()).unwrap_err()
    };
    let error = open(silent);
    assert_eq!(error.kind(), ErrorKind::Device);
    let expected = "failed: it does not say why; it returned the status -77, which `bb.h` does not define: it counts as BB_DEVICE";
    assert!(error.to_string().ends_with(expected), "{error}");
    let error = open(nothing).to_string();
    assert_eq!(error, "the library `wrong` has a wrong result of `open`: expected a backend, got null");
}
