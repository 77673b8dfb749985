//! The function table `OrtApi`, in the order of ONNX Runtime's header.
//!
//! Source: `onnxruntime_c_api.h` of ONNX Runtime 1.31 (MIT). New versions only append functions, so the table of an older version is a
//! prefix of this one.

use crate::status::{RawStatus, absent};
use crate::{
    allocator, binding, environment, memory, metadata, options, pairs, run_options, session, status, types,
    value,
};
use std::ffi::c_void;

/// A stub of a function that is not implemented. It returns an error status or null.
type Empty = extern "system" fn() -> *const c_void;

extern "system" fn zero() -> *const c_void {
    std::ptr::null()
}

/// Defines the table. A row `NAME = module` is a function of this crate. A row `NAME: kind` is a function that is not implemented: the kind
/// `status` returns an error with the name; `zero` and `nothing` return null, because the function cannot report an error.
macro_rules! table {
    ($($name:ident $(= $($module:ident)::+)? $(: $kind:ident)?;)*) => {
        /// The names in the order of the table, and the offsets of these fields in the crate `ort-sys`.
        #[cfg(test)]
        const PLACES: &[(&str, usize)] = &[$((stringify!($name), std::mem::offset_of!(ort_sys::OrtApi, $name))),*];

        #[expect(non_snake_case, reason = "the names of ONNX Runtime")]
        mod missing {
            $( table!(@missing $name $($kind)?); )*
        }

        const FUNCTIONS: usize = [$(stringify!($name)),*].len();

        /// The function table.
        static TABLE: FunctionTable = FunctionTable([$( table!(@entry $name $(= $($module)::+)? $(: $kind)?) ),*]);
    };
    (@missing $name:ident status) => {
        pub(super) extern "system" fn $name() -> super::RawStatus {
            super::absent(stringify!($name))
        }
    };
    (@missing $($other:ident)*) => {};
    (@entry $name:ident = $($module:ident)::+) => { $($module)::+::$name as *const c_void };
    (@entry $name:ident: status) => { missing::$name as *const c_void };
    (@entry $name:ident: $kind:ident) => { zero as Empty as *const c_void };
}

// A stub declares no arguments although programs pass some. This is sound if the calling convention lets the caller remove the arguments.
// Only the convention of 32-bit Windows does not.
#[cfg(all(windows, target_arch = "x86"))]
compile_error!("this library is not for Windows on 32-bit x86");

/// The function pointers of the table.
#[repr(transparent)]
struct FunctionTable([*const c_void; FUNCTIONS]);

// SAFETY: the pointers are to functions, which any thread may call.
unsafe impl Sync for FunctionTable {}

/// Returns the table.
pub(crate) fn first() -> *const c_void {
    std::ptr::from_ref(&TABLE.0).cast()
}

/// The size of the table.
///
/// Units: bytes.
pub(crate) const SIZE: usize = std::mem::size_of::<FunctionTable>();

table! {
    CreateStatus = status;
    GetErrorCode = status;
    GetErrorMessage = status;
    CreateEnv = environment;
    CreateEnvWithCustomLogger = environment;
    EnableTelemetryEvents = environment;
    DisableTelemetryEvents = environment;
    CreateSession = session::open;
    CreateSessionFromArray = session::open;
    Run = session::run;
    CreateSessionOptions = options;
    SetOptimizedModelFilePath = options;
    CloneSessionOptions = options;
    SetSessionExecutionMode = options;
    EnableProfiling = options;
    DisableProfiling = options;
    EnableMemPattern = options;
    DisableMemPattern = options;
    EnableCpuMemArena = options;
    DisableCpuMemArena = options;
    SetSessionLogId = options;
    SetSessionLogVerbosityLevel = options;
    SetSessionLogSeverityLevel = options;
    SetSessionGraphOptimizationLevel = options;
    SetIntraOpNumThreads = options;
    SetInterOpNumThreads = options;
    CreateCustomOpDomain: status;
    CustomOpDomain_Add: status;
    AddCustomOpDomain: status;
    RegisterCustomOpsLibrary: status;
    SessionGetInputCount = session::ports;
    SessionGetOutputCount = session::ports;
    SessionGetOverridableInitializerCount = session::ports;
    SessionGetInputTypeInfo = session::ports;
    SessionGetOutputTypeInfo = session::ports;
    SessionGetOverridableInitializerTypeInfo = session::ports;
    SessionGetInputName = session::ports;
    SessionGetOutputName = session::ports;
    SessionGetOverridableInitializerName = session::ports;
    CreateRunOptions = run_options;
    RunOptionsSetRunLogVerbosityLevel = run_options;
    RunOptionsSetRunLogSeverityLevel = run_options;
    RunOptionsSetRunTag = run_options;
    RunOptionsGetRunLogVerbosityLevel = run_options;
    RunOptionsGetRunLogSeverityLevel = run_options;
    RunOptionsGetRunTag = run_options;
    RunOptionsSetTerminate = run_options;
    RunOptionsUnsetTerminate = run_options;
    CreateTensorAsOrtValue = value::tensors;
    CreateTensorWithDataAsOrtValue = value::tensors;
    IsTensor = value::containers;
    GetTensorMutableData = value::tensors;
    FillStringTensor = value::strings;
    GetStringTensorDataLength = value::strings;
    GetStringTensorContent = value::strings;
    CastTypeInfoToTensorInfo = types;
    GetOnnxTypeFromTypeInfo = types;
    CreateTensorTypeAndShapeInfo = types;
    SetTensorElementType = types;
    SetDimensions = types;
    GetTensorElementType = types;
    GetDimensionsCount = types;
    GetDimensions = types;
    GetSymbolicDimensions = types;
    GetTensorShapeElementCount = types;
    GetTensorTypeAndShape = value::tensors;
    GetTypeInfo = value::containers;
    GetValueType = value::containers;
    CreateMemoryInfo = memory;
    CreateCpuMemoryInfo = memory;
    CompareMemoryInfo = memory;
    MemoryInfoGetName = memory;
    MemoryInfoGetId = memory;
    MemoryInfoGetMemType = memory;
    MemoryInfoGetType = memory;
    AllocatorAlloc = allocator;
    AllocatorFree = allocator;
    AllocatorGetInfo = allocator;
    GetAllocatorWithDefaultOptions = allocator;
    AddFreeDimensionOverride = options;
    GetValue = value::containers;
    GetValueCount = value::containers;
    CreateValue = value::containers;
    CreateOpaqueValue: status;
    GetOpaqueValue: status;
    KernelInfoGetAttribute_float: status;
    KernelInfoGetAttribute_int64: status;
    KernelInfoGetAttribute_string: status;
    KernelContext_GetInputCount: status;
    KernelContext_GetOutputCount: status;
    KernelContext_GetInput: status;
    KernelContext_GetOutput: status;
    ReleaseEnv = environment;
    ReleaseStatus = status;
    ReleaseMemoryInfo = memory;
    ReleaseSession = session::open;
    ReleaseValue = value::containers;
    ReleaseRunOptions = run_options;
    ReleaseTypeInfo = types;
    ReleaseTensorTypeAndShapeInfo = types;
    ReleaseSessionOptions = options;
    ReleaseCustomOpDomain: nothing;
    GetDenotationFromTypeInfo = types;
    CastTypeInfoToMapTypeInfo = types;
    CastTypeInfoToSequenceTypeInfo = types;
    GetMapKeyType = types;
    GetMapValueType = types;
    GetSequenceElementType = types;
    ReleaseMapTypeInfo = types;
    ReleaseSequenceTypeInfo = types;
    SessionEndProfiling: status;
    SessionGetModelMetadata = session::ports;
    ModelMetadataGetProducerName = metadata;
    ModelMetadataGetGraphName = metadata;
    ModelMetadataGetDomain = metadata;
    ModelMetadataGetDescription = metadata;
    ModelMetadataLookupCustomMetadataMap = metadata;
    ModelMetadataGetVersion = metadata;
    ReleaseModelMetadata = metadata;
    CreateEnvWithGlobalThreadPools = environment;
    DisablePerSessionThreads = options;
    CreateThreadingOptions = environment;
    ReleaseThreadingOptions = environment;
    ModelMetadataGetCustomMetadataMapKeys = metadata;
    AddFreeDimensionOverrideByName = options;
    GetAvailableProviders = environment;
    ReleaseAvailableProviders = environment;
    GetStringTensorElementLength = value::strings;
    GetStringTensorElement = value::strings;
    FillStringTensorElement = value::strings;
    AddSessionConfigEntry = options;
    CreateAllocator = session::ports;
    ReleaseAllocator = allocator;
    RunWithBinding = binding;
    CreateIoBinding = binding;
    ReleaseIoBinding = binding;
    BindInput = binding;
    BindOutput = binding;
    BindOutputToDevice = binding;
    GetBoundOutputNames = binding;
    GetBoundOutputValues = binding;
    ClearBoundInputs = binding;
    ClearBoundOutputs = binding;
    TensorAt = value::tensors;
    CreateAndRegisterAllocator = environment;
    SetLanguageProjection = environment;
    SessionGetProfilingStartTimeNs = session::ports;
    SetGlobalIntraOpNumThreads = environment;
    SetGlobalInterOpNumThreads = environment;
    SetGlobalSpinControl = environment;
    AddInitializer = options;
    CreateEnvWithCustomLoggerAndGlobalThreadPools = environment;
    SessionOptionsAppendExecutionProvider_CUDA: status;
    SessionOptionsAppendExecutionProvider_ROCM: status;
    SessionOptionsAppendExecutionProvider_OpenVINO: status;
    SetGlobalDenormalAsZero: status;
    CreateArenaCfg = environment;
    ReleaseArenaCfg = environment;
    ModelMetadataGetGraphDescription = metadata;
    SessionOptionsAppendExecutionProvider_TensorRT: status;
    SetCurrentGpuDeviceId: status;
    GetCurrentGpuDeviceId: status;
    KernelInfoGetAttributeArray_float: status;
    KernelInfoGetAttributeArray_int64: status;
    CreateArenaCfgV2 = environment;
    AddRunConfigEntry = run_options;
    CreatePrepackedWeightsContainer = session::open;
    ReleasePrepackedWeightsContainer = session::open;
    CreateSessionWithPrepackedWeightsContainer = session::open;
    CreateSessionFromArrayWithPrepackedWeightsContainer = session::open;
    SessionOptionsAppendExecutionProvider_TensorRT_V2: status;
    CreateTensorRTProviderOptions: status;
    UpdateTensorRTProviderOptions: status;
    GetTensorRTProviderOptionsAsString: status;
    ReleaseTensorRTProviderOptions: nothing;
    EnableOrtCustomOps: status;
    RegisterAllocator: status;
    UnregisterAllocator: status;
    IsSparseTensor = value::containers;
    CreateSparseTensorAsOrtValue: status;
    FillSparseTensorCoo: status;
    FillSparseTensorCsr: status;
    FillSparseTensorBlockSparse: status;
    CreateSparseTensorWithValuesAsOrtValue: status;
    UseCooIndices: status;
    UseCsrIndices: status;
    UseBlockSparseIndices: status;
    GetSparseTensorFormat: status;
    GetSparseTensorValuesTypeAndShape: status;
    GetSparseTensorValues: status;
    GetSparseTensorIndicesTypeShape: status;
    GetSparseTensorIndices: status;
    HasValue = value::containers;
    KernelContext_GetGPUComputeStream: status;
    GetTensorMemoryInfo = value::tensors;
    GetExecutionProviderApi: status;
    SessionOptionsSetCustomCreateThreadFn = options;
    SessionOptionsSetCustomThreadCreationOptions = options;
    SessionOptionsSetCustomJoinThreadFn = options;
    SetGlobalCustomCreateThreadFn = environment;
    SetGlobalCustomThreadCreationOptions = environment;
    SetGlobalCustomJoinThreadFn = environment;
    SynchronizeBoundInputs = binding;
    SynchronizeBoundOutputs = binding;
    SessionOptionsAppendExecutionProvider_CUDA_V2: status;
    CreateCUDAProviderOptions: status;
    UpdateCUDAProviderOptions: status;
    GetCUDAProviderOptionsAsString: status;
    ReleaseCUDAProviderOptions: nothing;
    SessionOptionsAppendExecutionProvider_MIGraphX: status;
    AddExternalInitializers = options;
    CreateOpAttr: status;
    ReleaseOpAttr: nothing;
    CreateOp: status;
    InvokeOp: status;
    ReleaseOp: nothing;
    SessionOptionsAppendExecutionProvider = options;
    CopyKernelInfo: status;
    ReleaseKernelInfo: nothing;
    GetTrainingApi: zero;
    SessionOptionsAppendExecutionProvider_CANN: status;
    CreateCANNProviderOptions: status;
    UpdateCANNProviderOptions: status;
    GetCANNProviderOptionsAsString: status;
    ReleaseCANNProviderOptions: nothing;
    MemoryInfoGetDeviceType = memory;
    UpdateEnvWithCustomLogLevel = environment;
    SetGlobalIntraOpThreadAffinity: status;
    RegisterCustomOpsLibrary_V2: status;
    RegisterCustomOpsUsingFunction: status;
    KernelInfo_GetInputCount: status;
    KernelInfo_GetOutputCount: status;
    KernelInfo_GetInputName: status;
    KernelInfo_GetOutputName: status;
    KernelInfo_GetInputTypeInfo: status;
    KernelInfo_GetOutputTypeInfo: status;
    KernelInfoGetAttribute_tensor: status;
    HasSessionConfigEntry = options;
    GetSessionConfigEntry = options;
    SessionOptionsAppendExecutionProvider_Dnnl: status;
    CreateDnnlProviderOptions: status;
    UpdateDnnlProviderOptions: status;
    GetDnnlProviderOptionsAsString: status;
    ReleaseDnnlProviderOptions: nothing;
    KernelInfo_GetNodeName: status;
    KernelInfo_GetLogger: status;
    KernelContext_GetLogger: status;
    Logger_LogMessage: status;
    Logger_GetLoggingSeverityLevel: status;
    KernelInfoGetConstantInput_tensor: status;
    CastTypeInfoToOptionalTypeInfo = types;
    GetOptionalContainedTypeInfo = types;
    GetResizedStringTensorElementBuffer = value::strings;
    KernelContext_GetAllocator: status;
    GetBuildInfoString = environment;
    CreateROCMProviderOptions: status;
    UpdateROCMProviderOptions: status;
    GetROCMProviderOptionsAsString: status;
    ReleaseROCMProviderOptions: nothing;
    CreateAndRegisterAllocatorV2: status;
    RunAsync = session::run;
    UpdateTensorRTProviderOptionsWithValue: status;
    GetTensorRTProviderOptionsByName: status;
    UpdateCUDAProviderOptionsWithValue: status;
    GetCUDAProviderOptionsByName: status;
    KernelContext_GetResource: status;
    SetUserLoggingFunction = options;
    ShapeInferContext_GetInputCount: status;
    ShapeInferContext_GetInputTypeShape: status;
    ShapeInferContext_GetAttribute: status;
    ShapeInferContext_SetOutputTypeShape: status;
    SetSymbolicDimensions = types;
    ReadOpAttr: status;
    SetDeterministicCompute = options;
    KernelContext_ParallelFor: status;
    SessionOptionsAppendExecutionProvider_OpenVINO_V2: status;
    SessionOptionsAppendExecutionProvider_VitisAI: status;
    KernelContext_GetScratchBuffer: status;
    KernelInfoGetAllocator: status;
    AddExternalInitializersFromMemory = options;
    CreateLoraAdapter: status;
    CreateLoraAdapterFromArray: status;
    ReleaseLoraAdapter: nothing;
    RunOptionsAddActiveLoraAdapter: status;
    SetEpDynamicOptions: status;
    ReleaseValueInfo: nothing;
    ReleaseNode: nothing;
    ReleaseGraph: nothing;
    ReleaseModel: nothing;
    GetValueInfoName: status;
    GetValueInfoTypeInfo: status;
    GetModelEditorApi: zero;
    CreateTensorWithDataAndDeleterAsOrtValue = value::tensors;
    SessionOptionsSetLoadCancellationFlag = options;
    GetCompileApi: zero;
    CreateKeyValuePairs = pairs;
    AddKeyValuePair = pairs;
    GetKeyValue = pairs;
    GetKeyValuePairs = pairs;
    RemoveKeyValuePair = pairs;
    ReleaseKeyValuePairs = pairs;
    RegisterExecutionProviderLibrary: status;
    UnregisterExecutionProviderLibrary: status;
    GetEpDevices: status;
    SessionOptionsAppendExecutionProvider_V2: status;
    SessionOptionsSetEpSelectionPolicy = options;
    SessionOptionsSetEpSelectionPolicyDelegate: status;
    HardwareDevice_Type: zero;
    HardwareDevice_VendorId: zero;
    HardwareDevice_Vendor: zero;
    HardwareDevice_DeviceId: zero;
    HardwareDevice_Metadata: zero;
    EpDevice_EpName: zero;
    EpDevice_EpVendor: zero;
    EpDevice_EpMetadata: zero;
    EpDevice_EpOptions: zero;
    EpDevice_Device: zero;
    GetEpApi: zero;
    GetTensorSizeInBytes = value::tensors;
    AllocatorGetStats: status;
    CreateMemoryInfo_V2 = memory;
    MemoryInfoGetDeviceMemType = memory;
    MemoryInfoGetVendorId = memory;
    ValueInfo_GetValueProducer: status;
    ValueInfo_GetValueNumConsumers: status;
    ValueInfo_GetValueConsumers: status;
    ValueInfo_GetInitializerValue: status;
    ValueInfo_GetExternalInitializerInfo: status;
    ValueInfo_IsRequiredGraphInput: status;
    ValueInfo_IsOptionalGraphInput: status;
    ValueInfo_IsGraphOutput: status;
    ValueInfo_IsConstantInitializer: status;
    ValueInfo_IsFromOuterScope: status;
    Graph_GetName: status;
    Graph_GetModelPath: status;
    Graph_GetOnnxIRVersion: status;
    Graph_GetNumOperatorSets: status;
    Graph_GetOperatorSets: status;
    Graph_GetNumInputs: status;
    Graph_GetInputs: status;
    Graph_GetNumOutputs: status;
    Graph_GetOutputs: status;
    Graph_GetNumInitializers: status;
    Graph_GetInitializers: status;
    Graph_GetNumNodes: status;
    Graph_GetNodes: status;
    Graph_GetParentNode: status;
    Graph_GetGraphView: status;
    Node_GetId: status;
    Node_GetName: status;
    Node_GetOperatorType: status;
    Node_GetDomain: status;
    Node_GetSinceVersion: status;
    Node_GetNumInputs: status;
    Node_GetInputs: status;
    Node_GetNumOutputs: status;
    Node_GetOutputs: status;
    Node_GetNumImplicitInputs: status;
    Node_GetImplicitInputs: status;
    Node_GetNumAttributes: status;
    Node_GetAttributes: status;
    Node_GetAttributeByName: status;
    OpAttr_GetTensorAttributeAsOrtValue: status;
    OpAttr_GetType: status;
    OpAttr_GetName: status;
    Node_GetNumSubgraphs: status;
    Node_GetSubgraphs: status;
    Node_GetGraph: status;
    Node_GetEpName: status;
    ReleaseExternalInitializerInfo: nothing;
    ExternalInitializerInfo_GetFilePath: zero;
    ExternalInitializerInfo_GetFileOffset: zero;
    ExternalInitializerInfo_GetByteSize: zero;
    GetRunConfigEntry = run_options;
    EpDevice_MemoryInfo: zero;
    CreateSharedAllocator: status;
    GetSharedAllocator: status;
    ReleaseSharedAllocator: status;
    GetTensorData = value::tensors;
    GetSessionOptionsConfigEntries = options;
    SessionGetMemoryInfoForInputs = session::ports;
    SessionGetMemoryInfoForOutputs = session::ports;
    SessionGetEpDeviceForInputs: status;
    CreateSyncStreamForEpDevice: status;
    SyncStream_GetHandle: zero;
    ReleaseSyncStream: nothing;
    CopyTensors = value::tensors;
    Graph_GetModelMetadata: status;
    GetModelCompatibilityForEpDevices: status;
    CreateExternalInitializerInfo: status;
    TensorTypeAndShape_HasShape = types;
    KernelInfo_GetConfigEntries: status;
    KernelInfo_GetOperatorDomain: status;
    KernelInfo_GetOperatorType: status;
    KernelInfo_GetOperatorSinceVersion: status;
    GetInteropApi: zero;
    SessionGetEpDeviceForOutputs: status;
    GetNumHardwareDevices: status;
    GetHardwareDevices: status;
    GetHardwareDeviceEpIncompatibilityDetails: status;
    DeviceEpIncompatibilityDetails_GetReasonsBitmask: status;
    DeviceEpIncompatibilityDetails_GetNotes: status;
    DeviceEpIncompatibilityDetails_GetErrorCode: status;
    ReleaseDeviceEpIncompatibilityDetails: nothing;
    GetCompatibilityInfoFromModel: status;
    GetCompatibilityInfoFromModelBytes: status;
    CreateEnvWithOptions = environment;
    Session_GetEpGraphAssignmentInfo: status;
    EpAssignedSubgraph_GetEpName: status;
    EpAssignedSubgraph_GetNodes: status;
    EpAssignedNode_GetName: status;
    EpAssignedNode_GetDomain: status;
    EpAssignedNode_GetOperatorType: status;
    RunOptionsSetSyncStream: nothing;
    GetTensorElementTypeAndShapeDataReference = value::tensors;
    RunOptionsEnableProfiling: status;
    RunOptionsDisableProfiling = run_options;
    KernelInfoGetAttributeArray_string: status;
    SetPerSessionThreadPoolCallbacks: status;
    GetMemPatternEnabled = options;
    GetSessionExecutionMode = options;
    SessionReleaseCapturedGraph: status;
    GetExperimentalFunction: zero;
    KernelContext_GetSyncStream: status;
    SessionOptionsSetWeightlessSourceModelBuffer: status;
    KernelContext_GetPreallocatedOutput: status;
    SessionOptionsSetEpContextDataReadFunc: status;
    GetModelPackageApi: zero;
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn each_function_is_where_the_crate_ort_has_it() {
        for (at, (name, place)) in PLACES.iter().enumerate() {
            assert_eq!(at * size_of::<*const c_void>(), *place, "{name}");
        }
        assert_eq!(SIZE, size_of::<ort_sys::OrtApi>());
    }

    #[test]
    fn no_place_is_empty() {
        let place = |name: &str| PLACES.iter().position(|(known, _)| *known == name);
        assert!(TABLE.0.iter().all(|function| !function.is_null()));
        let absent = place("CreateCustomOpDomain").map(|at| TABLE.0[at]);
        assert!(absent != place("CreateOp").map(|at| TABLE.0[at]), "each has a name of its own");
    }
}
