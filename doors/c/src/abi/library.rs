//! The description of a library, and the functions of its backend.

use super::primitives::Primitives;
use super::values::{
    Devices, Done, Failure, Items, MemoryUse, Named, Parameter, Raw, RawTensor, Results, Slot, Status, Text,
};
use std::ffi::c_void;

c_structs! {
    /// An option that a backend takes.
    OptionSpec = "bb_option" {
        /// The name.
        name: Text = "bb_text name";
        /// `device`, `threads`, `memory`, which are options of bb of the same name, or the type of an option of the backend's own: `bool`,
        /// `i64`, `u64`, `f64`, `str`.
        kind: Text = "bb_text kind";
        /// The value if none is given; for an option of the backend's own.
        initial: Text = "bb_text initial";
        /// The purpose, in one line.
        about: Text = "bb_text about";
    }

    /// The library's description of its backend. All texts and lists live as long as the library is loaded, so they are static.
    Description = "bb_description" {
        /// The size of this structure. The host writes how much it knows, the backend how much it has written.
        size: usize = "size_t size";
        /// The name under which users open the backend.
        name: Text = "bb_text name";
        /// The version.
        version: Text = "bb_text version";
        /// An identifier that distinguishes backends of one name, such as the path of a type.
        path: Text = "bb_text path";
        /// The element types: bit `n` is ONNX's type `n`. 0 if they are known once the backend is open: then the library has `types`.
        types: u64 = "uint64_t types";
        /// A number that changes when results may change. Plans that were saved for another are made again.
        fingerprint: u64 = "uint64_t fingerprint";
        /// The options.
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
        /// The primitives. A backend that runs whole graphs may have only `constant`.
        primitives: *const Primitives = "const bb_primitives *primitives";
        /// Describes the backend.
        describe: Option<unsafe extern "C" fn(*mut Description, *mut Failure) -> Status>
            = "int32_t (*describe)(bb_description *description, bb_error *error)";
        /// Opens a backend.
        open: Option<unsafe extern "C" fn(Items<Named>, *mut *mut Raw, *mut Failure) -> Status>
            = "int32_t (*open)(bb_named_list options, bb_backend **backend, bb_error *error)";
        /// Closes a backend, whose tensors and programs were released before.
        close: Option<unsafe extern "C" fn(*mut Raw)>
            = "void (*close)(bb_backend *backend)";
        /// Copies a tensor to `bytes`, in the form of `bb_data`, and writes to `length` how many bytes it has. If `capacity` is less,
        /// nothing is copied.
        to_host: Option<unsafe extern "C" fn(*mut Raw, *const RawTensor, *mut u8, usize, *mut usize, *mut Failure) -> Status>
            = "int32_t (*to_host)(bb_backend *backend, const bb_tensor *x, uint8_t *bytes, size_t capacity, size_t *length, bb_error *error)";
        /// Releases a tensor.
        release: Option<unsafe extern "C" fn(*mut Raw, *mut RawTensor)>
            = "void (*release)(bb_backend *backend, bb_tensor *x)";
        /// Optional: the element types of an open backend, as in `bb_description`.
        types: Option<unsafe extern "C" fn(*mut Raw) -> u64>
            = "uint64_t (*types)(bb_backend *backend)";
        /// Optional: calls `device` with each device.
        devices: Option<unsafe extern "C" fn(Devices, *mut c_void, *mut Failure) -> Status>
            = "int32_t (*devices)(bb_device device, void *context, bb_error *error)";
        /// Optional: returns whether an open backend takes whole graphs; 0 is no. Without it, a backend that lacks a primitive does.
        whole_graphs: Option<unsafe extern "C" fn(*mut Raw) -> u8>
            = "uint8_t (*whole_graphs)(bb_backend *backend)";
        /// Optional, and then `run` and `release_program` too: compiles a whole graph of primitives, in the form of an ONNX file.
        compile: Option<unsafe extern "C" fn(*mut Raw, Items<u8>, *mut *mut c_void, *mut Failure) -> Status>
            = "int32_t (*compile)(bb_backend *backend, bb_text model, void **program, bb_error *error)";
        /// Optional: runs a graph. Inputs and results are in the order of the graph; initializers that are also inputs are not given.
        run: Option<unsafe extern "C" fn(*mut Raw, *mut c_void, Items<*const RawTensor>, Results, usize, *mut Failure) -> Status>
            = "int32_t (*run)(bb_backend *backend, void *program, bb_tensors inputs, bb_result *results, size_t count, bb_error *error)";
        /// Optional: releases a graph.
        release_program: Option<unsafe extern "C" fn(*mut Raw, *mut c_void)>
            = "void (*release_program)(bb_backend *backend, void *program)";
        /// Optional: begins to run a graph, and returns. Later `done` is called once, from any thread, with the results. The inputs stay until then.
        start: Option<unsafe extern "C" fn(*mut Raw, *mut c_void, Items<*const RawTensor>, Done, *mut c_void, *mut Failure) -> Status>
            = "int32_t (*start)(bb_backend *backend, void *program, bb_tensors inputs, bb_done done, void *context, bb_error *error)";
        /// Optional: computes an operation that `describe` lists. An operand that is not given is null. `count` is how many results fit, and
        /// then how many there are.
        native: Option<unsafe extern "C" fn(*mut Raw, Text, Items<*const RawTensor>, Items<Parameter>, *mut Slot, *mut usize, *mut Failure) -> Status>
            = "int32_t (*native)(bb_backend *backend, bb_text name, bb_tensors inputs, bb_parameters parameters, bb_result *results, size_t *count, bb_error *error)";
        /// Optional: says how much memory the backend uses.
        memory: Option<unsafe extern "C" fn(*mut Raw, *mut MemoryUse)>
            = "void (*memory)(bb_backend *backend, bb_memory *memory)";
        /// Optional: waits until the device has done all that was submitted.
        synchronize: Option<unsafe extern "C" fn(*mut Raw, *mut Failure) -> Status>
            = "int32_t (*synchronize)(bb_backend *backend, bb_error *error)";
    }
}

// SAFETY: the structure is a constant: functions, and pointers to constants that live as long as it.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}
