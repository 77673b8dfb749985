//! The description of a library, and the functions of its backend.

use super::primitives::Primitives;
use super::values::{
    Devices, Done, Failure, Items, MemoryUse, Named, Parameter, Raw, RawTensor, Results, Slot, Status, Text,
};
use std::ffi::c_void;

c_structs! {
    /// An option that a backend takes.
    OptionSpec = "bb_option" {
        /// The name: letters, digits and `_`.
        name: Text = "bb_text name";
        /// The name again for `device`, `threads` and `memory`, which bb defines. For another option its type: `bool`,
        /// `i64`, `u64`, `f64` or `str`.
        kind: Text = "bb_text kind";
        /// The default of an option with a type, as a text of this type. `open` gets it if the user sets none.
        initial: Text = "bb_text initial";
        /// The purpose, in one line.
        about: Text = "bb_text about";
    }

    /// The library's description of its backend. All texts and lists live as long as the library is loaded, so they are static.
    Description = "bb_description" {
        /// The size of this structure. The host writes how much it knows, the backend how much it has written.
        size: usize = "size_t size";
        /// The name under which users open the backend: letters, digits, `-` and `_`.
        name: Text = "bb_text name";
        /// The version of the backend: a text like `1.0.0`, which is not empty.
        version: Text = "bb_text version";
        /// An identifier that distinguishes backends of one name, such as the path of a type.
        path: Text = "bb_text path";
        /// The element types: bit `n` is ONNX's type `n`, so that `BB_F32` is `1 << BB_F32`. `BB_F32`, `BB_BOOL`, and `BB_I32` or `BB_I64` must
        /// be among them. 0 if they are known once the backend is open: then the library has `types`.
        types: u64 = "uint64_t types";
        /// A number that changes when results may change. Plans that were saved with another number are made again.
        fingerprint: u64 = "uint64_t fingerprint";
        /// The options that `open` takes.
        options: Items<OptionSpec> = "bb_options options";
        /// The native operations by the names of their methods, e.g. `softmax`, for `native`.
        natives: Items<Text> = "bb_texts natives";
    }

    /// A backend as a library. The library exports one constant of this type, with the name `bb_backend_library`. It is read before anything
    /// is called. Functions may be called from several threads at once. One that is null is not offered; so is one beyond `size`.
    Library = "bb_library" {
        /// The size of this structure.
        size: usize = "size_t size";
        /// `BB_MAGIC`.
        magic: u64 = "uint64_t magic";
        /// `BB_VERSION`.
        version: u32 = "uint32_t version";
        /// `BB_UNLOADS`, or 0.
        flags: u32 = "uint32_t flags";
        /// `BB_PRIMITIVES`: which primitives the library was compiled with.
        fingerprint: u64 = "uint64_t fingerprint";
        /// The primitives. `constant` is needed; one that is null does not run on the backend, unless it takes whole graphs: see
        /// `runs_primitive`.
        primitives: *const Primitives = "const bb_primitives *primitives";
        /// Describes the backend. `description->size` is the number of bytes that the host has for it: write at most this number, and set
        /// `size` to the number that was written. The other fields are zero or empty before.
        describe: Option<unsafe extern "C" fn(*mut Description, *mut Failure) -> Status>
            = "int32_t (*describe)(bb_description *description, bb_error *error)";
        /// Opens a backend with options that `describe` lists, as names and values. `threads` and `memory` are decimal numbers, `memory` in
        /// bytes; one that the user does not set is not in the list. May be called several times: each call opens another backend.
        open: Option<unsafe extern "C" fn(Items<Named>, *mut *mut Raw, *mut Failure) -> Status>
            = "int32_t (*open)(bb_named_list options, bb_backend **backend, bb_error *error)";
        /// Closes a backend. The host has released its tensors and programs, and no call uses it any more.
        close: Option<unsafe extern "C" fn(*mut Raw)>
            = "void (*close)(bb_backend *backend)";
        /// Copies a tensor to `bytes`, in the form of `bb_data`, and writes to `length` how many bytes it has. If `capacity` is less,
        /// copies nothing and returns `BB_OK`, too. The host calls first with a capacity of 0 to get the length of strings; `bytes` may then be
        /// null.
        to_host: Option<unsafe extern "C" fn(*mut Raw, *const RawTensor, *mut u8, usize, *mut usize, *mut Failure) -> Status>
            = "int32_t (*to_host)(bb_backend *backend, const bb_tensor *x, uint8_t *bytes, size_t capacity, size_t *length, bb_error *error)";
        /// Releases a tensor. The host calls this once for each tensor that it got in a `bb_result`.
        release: Option<unsafe extern "C" fn(*mut Raw, *mut RawTensor)>
            = "void (*release)(bb_backend *backend, bb_tensor *x)";
        /// Optional: returns the element types of an open backend, as in `bb_description`.
        types: Option<unsafe extern "C" fn(*mut Raw) -> u64>
            = "uint64_t (*types)(bb_backend *backend)";
        /// Optional: calls `device` with each device.
        devices: Option<unsafe extern "C" fn(Devices, *mut c_void, *mut Failure) -> Status>
            = "int32_t (*devices)(bb_device device, void *context, bb_error *error)";
        /// Optional: returns whether an open backend takes whole graphs; 0 is no. Without it, a backend that has `compile` and lacks a primitive
        /// does.
        whole_graphs: Option<unsafe extern "C" fn(*mut Raw) -> u8>
            = "uint8_t (*whole_graphs)(bb_backend *backend)";
        /// Optional, and then `run` and `release_program` too: compiles a whole graph, in the form of an ONNX file. Its nodes are the operators
        /// that the primitives name as their source. Each node has a name, for example `MatMul_3`, which an error can quote; only the single node of
        /// an operation outside of a session's graph has none. Extents of inputs may be missing: `run` gets tensors that have them. The section
        /// "Whole graphs" of bb/docs/writing-a-backend.md describes these graphs.
        compile: Option<unsafe extern "C" fn(*mut Raw, Items<u8>, *mut *mut c_void, *mut Failure) -> Status>
            = "int32_t (*compile)(bb_backend *backend, bb_text model, void **program, bb_error *error)";
        /// Optional: runs a graph. Inputs and results are in the order of the graph; initializers that are also inputs are not given. `results`
        /// has `count` empty places: write all fields of each.
        run: Option<unsafe extern "C" fn(*mut Raw, *mut c_void, Items<*const RawTensor>, Results, usize, *mut Failure) -> Status>
            = "int32_t (*run)(bb_backend *backend, void *program, bb_tensors inputs, bb_result *results, size_t count, bb_error *error)";
        /// Optional: releases a graph.
        release_program: Option<unsafe extern "C" fn(*mut Raw, *mut c_void)>
            = "void (*release_program)(bb_backend *backend, void *program)";
        /// Optional: begins to run a graph, and returns. Later call `done` once, from any thread, with `context` and the results; the inputs
        /// and the program stay until then. If this returns another status than `BB_OK`, do not call `done`.
        start: Option<unsafe extern "C" fn(*mut Raw, *mut c_void, Items<*const RawTensor>, Done, *mut c_void, *mut Failure) -> Status>
            = "int32_t (*start)(bb_backend *backend, void *program, bb_tensors inputs, bb_done done, void *context, bb_error *error)";
        /// Optional: computes an operation that `describe` lists. An operand that is not given is null. `count` is the number of places for
        /// results, and is set to the number of results. Write all fields of each. `BB_UNSUPPORTED` declines the call: the host then computes the
        /// operation by its primitives.
        native: Option<unsafe extern "C" fn(*mut Raw, Text, Items<*const RawTensor>, Items<Parameter>, *mut Slot, *mut usize, *mut Failure) -> Status>
            = "int32_t (*native)(bb_backend *backend, bb_text name, bb_tensors inputs, bb_parameters parameters, bb_result *results, size_t *count, bb_error *error)";
        /// Optional: writes how much memory the backend uses. `memory->size` is set; do not write beyond it.
        memory: Option<unsafe extern "C" fn(*mut Raw, *mut MemoryUse)>
            = "void (*memory)(bb_backend *backend, bb_memory *memory)";
        /// Optional: waits until the device has done all submitted work.
        synchronize: Option<unsafe extern "C" fn(*mut Raw, *mut Failure) -> Status>
            = "int32_t (*synchronize)(bb_backend *backend, bb_error *error)";
        /// Optional: returns whether an open backend runs a primitive, by the name of its function in `bb_primitives`, e.g. `exp`; 0 is no. The
        /// host asks once for each primitive when it has opened the backend. Without it, a backend runs the primitives that are not null, and
        /// one that takes whole graphs runs all.
        runs_primitive: Option<unsafe extern "C" fn(*mut Raw, Text) -> u8>
            = "uint8_t (*runs_primitive)(bb_backend *backend, bb_text name)";
    }
}

// SAFETY: the structure is a constant: functions, and pointers to constants that live as long as it.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}
