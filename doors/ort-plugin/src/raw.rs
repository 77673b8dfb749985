//! The declarations of ONNX Runtime's plugin interface that are needed.
//!
//! Source: `onnxruntime_c_api.h` and `onnxruntime_ep_c_api.h` of ONNX Runtime 1.23 (MIT). A function table is an array of pointers; a row
//! of `table!` begins with the index of its function. New versions only append functions, so these indices are valid in every newer
//! version.

use std::ffi::{c_char, c_int, c_void};

/// The requested version of the interface, which is the oldest with plugins that compile graphs.
pub const API_VERSION: u32 = 23;

/// Declares opaque types, which are used only behind pointers.
macro_rules! opaque {
    ($($name:ident: $about:literal;)*) => {$(
        #[doc = $about]
        #[repr(C)]
        #[derive(Debug)]
        pub struct $name {
            _opaque: [u8; 0],
        }
    )*};
}

opaque! {
    OrtStatus: "An error; null is success.";
    OrtValue: "A tensor or another value.";
    OrtTypeInfo: "The type of a value.";
    OrtTensorTypeAndShapeInfo: "The element type and the extents of a tensor.";
    OrtSessionOptions: "The options of a session.";
    OrtKeyValuePairs: "Texts by name.";
    OrtRunOptions: "The options of a run.";
    OrtLogger: "What takes messages.";
    OrtKernelContext: "The operands and results of one run.";
    OrtValueInfo: "A value of a graph.";
    OrtNode: "A node of a graph.";
    OrtGraph: "A graph.";
    OrtOpAttr: "An attribute of a node.";
    OrtHardwareDevice: "A device of the machine.";
    OrtEpDevice: "A device of the machine, as one provider uses it.";
    OrtEpGraphSupportInfo: "What a provider claims of a graph.";
    OrtNodeComputeContext: "What a claimed part is told when its state is made.";
    OrtAllocator: "What allocates memory.";
    OrtMemoryInfo: "A kind of memory.";
    OrtMemoryDevice: "The device of a kind of memory.";
    OrtDataTransferImpl: "What copies between devices.";
    OrtSyncStreamImpl: "A queue of a device.";
}

/// The result of a function: an error, or null for success.
pub type Status = *mut OrtStatus;

/// `ORTCHAR_T`, a code unit of a path.
#[cfg(windows)]
pub type PathChar = u16;
/// `ORTCHAR_T`, a code unit of a path.
#[cfg(not(windows))]
pub type PathChar = c_char;

/// `ORT_OP_ATTR_*`, the types of attributes.
pub mod attribute_types {
    use std::ffi::c_int;

    /// A list of integers.
    pub const INT: c_int = 1;
    /// Integers.
    pub const INTS: c_int = 2;
    /// A float.
    pub const FLOAT: c_int = 3;
    /// A list of floats.
    pub const FLOATS: c_int = 4;
    /// A string.
    pub const STRING: c_int = 5;
    /// A list of strings.
    pub const STRINGS: c_int = 6;
    /// A tensor.
    pub const TENSOR: c_int = 8;
}

/// Declares a function table, with rows `index name(arguments) -> result`.
macro_rules! table {
    ($(#[$doc:meta])* $table:ident[$size:literal] {
        $($position:literal $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*
    }) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Debug)]
        pub struct $table {
            functions: [*const c_void; $size],
        }

        // SAFETY: the table and the functions belong to a library that stays loaded; any thread may call the functions.
        unsafe impl Sync for $table {}
        // SAFETY: as above.
        unsafe impl Send for $table {}

        impl $table {
            /// Creates a table with one function.
            #[cfg(test)]
            #[allow(dead_code, reason = "not every table needs it")]
            pub(crate) fn with(position: usize, function: *const c_void) -> $table {
                $table { functions: std::array::from_fn(|at| if at == position { function } else { std::ptr::null() }) }
            }

            $(
                /// Calls the function.
                ///
                /// # Safety
                ///
                /// As ONNX Runtime's header requires for the function of this name.
                #[allow(clippy::too_many_arguments, reason = "the function of the header has as many")]
                pub unsafe fn $name(&self, $($argument: $type),*) $(-> $result)? {
                    const { assert!($position < $size) };
                    let pointer = self.functions[$position];
                    // SAFETY: the header declares a function of this type at this index, and function pointers have the size of data
                    // pointers on the platforms of ONNX Runtime.
                    let function = unsafe {
                        std::mem::transmute::<*const c_void, unsafe extern "system" fn($($type),*) $(-> $result)?>(pointer)
                    };
                    // SAFETY: the caller guarantees that the arguments are valid.
                    unsafe { function($($argument),*) }
                }
            )*
        }
    };
}

table! {
    /// `OrtApi`.
    OrtApi[390] {
        0 create_status(code: c_int, message: *const c_char) -> Status;
        2 error_message(status: *const OrtStatus) -> *const c_char;
        39 create_run_options(options: *mut *mut OrtRunOptions) -> Status;
        46 set_terminate(options: *mut OrtRunOptions) -> Status;
        47 unset_terminate(options: *mut OrtRunOptions) -> Status;
        51 tensor_mutable_data(value: *mut OrtValue, data: *mut *mut c_void) -> Status;
        53 string_tensor_length(value: *const OrtValue, bytes: *mut usize) -> Status;
        54 string_tensor_content(value: *const OrtValue, bytes: *mut c_void, length: usize, offsets: *mut usize, count: usize) -> Status;
        55 cast_to_tensor_info(info: *const OrtTypeInfo, tensor: *mut *const OrtTensorTypeAndShapeInfo) -> Status;
        60 element_type(info: *const OrtTensorTypeAndShapeInfo, element: *mut c_int) -> Status;
        61 dimensions_count(info: *const OrtTensorTypeAndShapeInfo, rank: *mut usize) -> Status;
        62 dimensions(info: *const OrtTensorTypeAndShapeInfo, extents: *mut i64, rank: usize) -> Status;
        63 symbolic_dimensions(info: *const OrtTensorTypeAndShapeInfo, names: *mut *const c_char, rank: usize) -> Status;
        65 tensor_type_and_shape(value: *const OrtValue, info: *mut *mut OrtTensorTypeAndShapeInfo) -> Status;
        67 value_type(value: *const OrtValue, kind: *mut c_int) -> Status;
        90 context_input(context: *const OrtKernelContext, index: usize, value: *mut *const OrtValue) -> Status;
        91 context_output(context: *mut OrtKernelContext, index: usize, extents: *const i64, rank: usize, value: *mut *mut OrtValue) -> Status;
        93 release_status(status: Status);
        96 release_value(value: *mut OrtValue);
        97 release_run_options(options: *mut OrtRunOptions);
        99 release_tensor_info(info: *mut OrtTensorTypeAndShapeInfo);
        252 string_room(value: *mut OrtValue, index: usize, length: usize, room: *mut *mut c_char) -> Status;
        272 read_attribute(attribute: *const OrtOpAttr, kind: c_int, data: *mut c_void, length: usize, needed: *mut usize) -> Status;
        289 value_name(value: *const OrtValueInfo, name: *mut *const c_char) -> Status;
        290 value_type_info(value: *const OrtValueInfo, info: *mut *const OrtTypeInfo) -> Status;
        295 create_key_value_pairs(made: *mut *mut OrtKeyValuePairs);
        296 add_key_value_pair(pairs: *mut OrtKeyValuePairs, key: *const c_char, value: *const c_char);
        298 key_value_pairs(pairs: *const OrtKeyValuePairs, keys: *mut *const *const c_char, values: *mut *const *const c_char, count: *mut usize);
        300 release_key_value_pairs(pairs: *mut OrtKeyValuePairs);
        307 hardware_device_type(device: *const OrtHardwareDevice) -> c_int;
        317 ep_api() -> *const OrtEpApi;
        326 initializer_value(value: *const OrtValueInfo, initializer: *mut *const OrtValue) -> Status;
        331 is_constant_initializer(value: *const OrtValueInfo, is_constant: *mut bool) -> Status;
        332 is_from_outer_scope(value: *const OrtValueInfo, is_outer: *mut bool) -> Status;
        334 model_path(graph: *const OrtGraph, path: *mut *const PathChar) -> Status;
        336 operator_set_count(graph: *const OrtGraph, count: *mut usize) -> Status;
        337 operator_sets(graph: *const OrtGraph, domains: *mut *const c_char, versions: *mut i64, count: usize) -> Status;
        338 graph_input_count(graph: *const OrtGraph, count: *mut usize) -> Status;
        339 graph_inputs(graph: *const OrtGraph, inputs: *mut *const OrtValueInfo, count: usize) -> Status;
        340 graph_output_count(graph: *const OrtGraph, count: *mut usize) -> Status;
        341 graph_outputs(graph: *const OrtGraph, outputs: *mut *const OrtValueInfo, count: usize) -> Status;
        342 graph_initializer_count(graph: *const OrtGraph, count: *mut usize) -> Status;
        343 graph_initializers(graph: *const OrtGraph, initializers: *mut *const OrtValueInfo, count: usize) -> Status;
        344 graph_node_count(graph: *const OrtGraph, count: *mut usize) -> Status;
        345 graph_nodes(graph: *const OrtGraph, nodes: *mut *const OrtNode, count: usize) -> Status;
        346 graph_parent_node(graph: *const OrtGraph, node: *mut *const OrtNode) -> Status;
        349 node_name(node: *const OrtNode, name: *mut *const c_char) -> Status;
        350 node_operator(node: *const OrtNode, operator: *mut *const c_char) -> Status;
        351 node_domain(node: *const OrtNode, domain: *mut *const c_char) -> Status;
        353 node_input_count(node: *const OrtNode, count: *mut usize) -> Status;
        354 node_inputs(node: *const OrtNode, inputs: *mut *const OrtValueInfo, count: usize) -> Status;
        355 node_output_count(node: *const OrtNode, count: *mut usize) -> Status;
        356 node_outputs(node: *const OrtNode, outputs: *mut *const OrtValueInfo, count: usize) -> Status;
        357 node_implicit_input_count(node: *const OrtNode, count: *mut usize) -> Status;
        358 node_implicit_inputs(node: *const OrtNode, inputs: *mut *const OrtValueInfo, count: usize) -> Status;
        359 node_attribute_count(node: *const OrtNode, count: *mut usize) -> Status;
        360 node_attributes(node: *const OrtNode, attributes: *mut *const OrtOpAttr, count: usize) -> Status;
        362 attribute_tensor(attribute: *const OrtOpAttr, tensor: *mut *mut OrtValue) -> Status;
        363 attribute_type(attribute: *const OrtOpAttr, kind: *mut c_int) -> Status;
        364 attribute_name(attribute: *const OrtOpAttr, name: *mut *const c_char) -> Status;
        365 node_subgraph_count(node: *const OrtNode, count: *mut usize) -> Status;
        366 node_subgraphs(node: *const OrtNode, graphs: *mut *const OrtGraph, count: usize, attributes: *mut *const c_char) -> Status;
        378 tensor_data(value: *const OrtValue, data: *mut *const c_void) -> Status;
        379 config_entries(options: *const OrtSessionOptions, entries: *mut *mut OrtKeyValuePairs) -> Status;
    }
}

table! {
    /// `OrtEpApi`.
    OrtEpApi[5] {
        0 create_ep_device(factory: *mut OrtEpFactory, device: *const OrtHardwareDevice, metadata: *const OrtKeyValuePairs, options: *const OrtKeyValuePairs, made: *mut *mut OrtEpDevice) -> Status;
        2 add_nodes_to_fuse(info: *mut OrtEpGraphSupportInfo, nodes: *const *const OrtNode, count: usize, options: *const OrtNodeFusionOptions) -> Status;
    }
}

/// `OrtApiBase`.
#[repr(C)]
#[derive(Debug)]
pub struct OrtApiBase {
    /// Returns the function table of a version of the interface, or null if the library is older.
    pub get_api: unsafe extern "system" fn(version: u32) -> *const OrtApi,
    /// Returns the version of the library.
    pub get_version_string: unsafe extern "system" fn() -> *const c_char,
}

/// `OrtNodeFusionOptions`.
#[repr(C)]
#[derive(Debug)]
pub struct OrtNodeFusionOptions {
    /// [`API_VERSION`].
    pub version: u32,
    /// Whether constants are not passed to the claimed part as operands, because it has copied them.
    pub drop_constant_initializers: bool,
}

/// `OrtNodeComputeInfo`.
#[repr(C)]
#[derive(Debug)]
pub struct OrtNodeComputeInfo {
    /// [`API_VERSION`].
    pub version: u32,
    /// Creates the state of a claimed part in a session.
    pub create_state: unsafe extern "system" fn(
        *mut OrtNodeComputeInfo,
        *mut OrtNodeComputeContext,
        *mut *mut c_void,
    ) -> Status,
    /// Runs a claimed part.
    pub compute:
        unsafe extern "system" fn(*mut OrtNodeComputeInfo, *mut c_void, *mut OrtKernelContext) -> Status,
    /// Releases a state.
    pub release_state: unsafe extern "system" fn(*mut OrtNodeComputeInfo, *mut c_void),
}

/// `OrtEp`. Functions of type `Option` are optional.
#[repr(C)]
#[derive(Debug)]
pub struct OrtEp {
    /// [`API_VERSION`].
    pub version: u32,
    /// Returns the name of the provider.
    pub name: unsafe extern "system" fn(*const OrtEp) -> *const c_char,
    /// Claims parts of a graph.
    pub capability:
        unsafe extern "system" fn(*mut OrtEp, *const OrtGraph, *mut OrtEpGraphSupportInfo) -> Status,
    /// Compiles claimed parts.
    pub compile: unsafe extern "system" fn(
        *mut OrtEp,
        *mut *const OrtGraph,
        *mut *const OrtNode,
        usize,
        *mut *mut OrtNodeComputeInfo,
        *mut *mut OrtNode,
    ) -> Status,
    /// Releases the parts that `compile` returned.
    pub release_compute_infos: unsafe extern "system" fn(*mut OrtEp, *mut *mut OrtNodeComputeInfo, usize),
    /// The optional functions `GetPreferredDataLayout`, `ShouldConvertDataLayoutForOp` and `SetDynamicOptions`.
    pub optional: [Option<unsafe extern "system" fn()>; 3],
    /// Called at the start of a run, on the thread of the run.
    pub run_begins: unsafe extern "system" fn(*mut OrtEp, *const OrtRunOptions) -> Status,
    /// Called at the end of a run. The flag says whether to wait for the device.
    pub run_ended: unsafe extern "system" fn(*mut OrtEp, *const OrtRunOptions, bool) -> Status,
    /// The optional functions `CreateAllocator`, `CreateSyncStreamForDevice` and `GetCompiledModelCompatibilityInfo`.
    pub more: [Option<unsafe extern "system" fn()>; 3],
}

/// `OrtEpFactory`.
#[repr(C)]
#[derive(Debug)]
pub struct OrtEpFactory {
    /// [`API_VERSION`].
    pub version: u32,
    /// Returns the name of the providers that the factory creates.
    pub name: unsafe extern "system" fn(*const OrtEpFactory) -> *const c_char,
    /// Returns the vendor of the library.
    pub vendor: unsafe extern "system" fn(*const OrtEpFactory) -> *const c_char,
    /// Selects devices of the machine.
    pub supported_devices: unsafe extern "system" fn(
        *mut OrtEpFactory,
        *const *const OrtHardwareDevice,
        usize,
        *mut *mut OrtEpDevice,
        usize,
        *mut usize,
    ) -> Status,
    /// Creates a provider for a session.
    pub create_ep: unsafe extern "system" fn(
        *mut OrtEpFactory,
        *const *const OrtHardwareDevice,
        *const *const OrtKeyValuePairs,
        usize,
        *const OrtSessionOptions,
        *const OrtLogger,
        *mut *mut OrtEp,
    ) -> Status,
    /// Releases a provider.
    pub release_ep: unsafe extern "system" fn(*mut OrtEpFactory, *mut OrtEp),
    /// Returns the id of the vendor.
    pub vendor_id: unsafe extern "system" fn(*const OrtEpFactory) -> u32,
    /// Returns the version of the provider.
    pub provider_version: unsafe extern "system" fn(*const OrtEpFactory) -> *const c_char,
    /// Reports whether a compiled model is compatible with the provider.
    pub validate_compiled: unsafe extern "system" fn(
        *mut OrtEpFactory,
        *const *const OrtHardwareDevice,
        usize,
        *const c_char,
        *mut c_int,
    ) -> Status,
    /// Creates an allocator. Null means the CPU allocator.
    pub create_allocator: unsafe extern "system" fn(
        *mut OrtEpFactory,
        *const OrtMemoryInfo,
        *const OrtKeyValuePairs,
        *mut *mut OrtAllocator,
    ) -> Status,
    /// Releases an allocator.
    pub release_allocator: unsafe extern "system" fn(*mut OrtEpFactory, *mut OrtAllocator),
    /// Creates an object that copies data between devices. Null means that none is needed.
    pub create_data_transfer:
        unsafe extern "system" fn(*mut OrtEpFactory, *mut *mut OrtDataTransferImpl) -> Status,
    /// Returns whether the provider has streams.
    pub is_stream_aware: unsafe extern "system" fn(*const OrtEpFactory) -> bool,
    /// Creates a stream. Null means that there are none.
    pub create_sync_stream: unsafe extern "system" fn(
        *mut OrtEpFactory,
        *const OrtMemoryDevice,
        *const OrtKeyValuePairs,
        *mut *mut OrtSyncStreamImpl,
    ) -> Status,
}
