//! Thin wrappers of the function table, for tests.

use ort_sys::*;
use std::ffi::{CStr, CString, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Returns the function table, like a C program gets it.
pub(crate) fn api() -> &'static OrtApi {
    let base = bb_onnxruntime::OrtGetApiBase().cast::<OrtApiBase>();
    // SAFETY: the base table has both functions, and the function table lives as long as the process.
    unsafe { &*((*base).GetApi)(ORT_API_VERSION) }
}

/// Returns the code and the message of a status, and releases it. Returns `None` for success.
pub(crate) fn error(status: OrtStatusPtr) -> Option<(OrtErrorCode, String)> {
    if status.0.is_null() {
        return None;
    }
    // SAFETY: the status was just returned.
    unsafe {
        let code = (api().GetErrorCode)(status.0);
        let message = CStr::from_ptr((api().GetErrorMessage)(status.0)).to_str().unwrap().to_owned();
        (api().ReleaseStatus)(status.0);
        Some((code, message))
    }
}

/// Panics unless a call succeeded.
#[track_caller]
pub(crate) fn ok(status: OrtStatusPtr) {
    assert_eq!(error(status), None);
}

/// Panics unless a call failed with this code and a message that contains this text.
#[track_caller]
pub(crate) fn fails(status: OrtStatusPtr, code: OrtErrorCode, text: &str) {
    let (got, message) = error(status).expect("the call succeeded");
    assert!(got == code && message.contains(text), "{got:?}: {message}");
}

/// Returns the environment of all tests, which is never released.
pub(crate) fn environment() -> *mut OrtEnv {
    static ENVIRONMENT: AtomicPtr<OrtEnv> = AtomicPtr::new(null_mut());
    static MADE: Once = Once::new();
    MADE.call_once(|| {
        let mut env = null_mut();
        let level = OrtLoggingLevel::ORT_LOGGING_LEVEL_WARNING;
        // SAFETY: the arguments conform to the header.
        ok(unsafe { (api().CreateEnv)(level, c"test".as_ptr(), &mut env) });
        ENVIRONMENT.store(env, Ordering::Release);
    });
    ENVIRONMENT.load(Ordering::Acquire)
}

/// A session that is released when this is dropped.
#[derive(Debug)]
pub(crate) struct Opened(pub(crate) *mut OrtSession);

// SAFETY: threads may share sessions.
unsafe impl Sync for Opened {}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: this is the only release.
        unsafe { (api().ReleaseSession)(self.0) };
    }
}

impl Opened {
    pub(crate) fn of_file(path: &Path) -> Opened {
        let (mut session, path) = (null_mut(), CString::new(path.to_str().unwrap()).unwrap());
        // SAFETY: the arguments conform to the header.
        ok(unsafe { (api().CreateSession)(environment(), path.as_ptr(), null(), &mut session) });
        Opened(session)
    }

    pub(crate) fn of_bytes(model: &[u8]) -> Result<Opened, (OrtErrorCode, String)> {
        let mut session = null_mut();
        let (first, length) = (model.as_ptr().cast(), model.len());
        // SAFETY: the arguments conform to the header.
        let status =
            unsafe { (api().CreateSessionFromArray)(environment(), first, length, null(), &mut session) };
        error(status).map_or(Ok(Opened(session)), Err)
    }
}

/// A value that is released when this is dropped.
#[derive(Debug)]
pub(crate) struct OwnedValue(pub(crate) *mut OrtValue);

impl Drop for OwnedValue {
    fn drop(&mut self) {
        // SAFETY: this is the only release.
        unsafe { (api().ReleaseValue)(self.0) };
    }
}

/// Returns the memory type of the host. The caller releases it.
pub(crate) fn host() -> *mut OrtMemoryInfo {
    let mut info = null_mut();
    let (arena, memory) = (OrtAllocatorType::OrtDeviceAllocator, OrtMemType::OrtMemTypeDefault);
    // SAFETY: the arguments conform to the header.
    ok(unsafe { (api().CreateCpuMemoryInfo)(arena, memory, &mut info) });
    info
}

pub(crate) fn allocator() -> *mut OrtAllocator {
    let mut allocator = null_mut();
    // SAFETY: the arguments conform to the header.
    ok(unsafe { (api().GetAllocatorWithDefaultOptions)(&mut allocator) });
    allocator
}

/// Creates a tensor over memory of the test, which outlives the tensor.
pub(crate) fn over<T>(elements: &mut [T], shape: &[i64], ty: ONNXTensorElementDataType) -> OwnedValue {
    let mut value = null_mut();
    let (first, bytes) = (elements.as_mut_ptr().cast::<c_void>(), size_of_val(elements));
    // SAFETY: the arguments conform to the header.
    unsafe {
        let info = host();
        let create = api().CreateTensorWithDataAsOrtValue;
        ok(create(info, first, bytes, shape.as_ptr(), shape.len(), ty, &mut value));
        (api().ReleaseMemoryInfo)(info);
    }
    OwnedValue(value)
}

/// Creates a tensor in memory of the library.
pub(crate) fn made(shape: &[i64], ty: ONNXTensorElementDataType) -> OwnedValue {
    let mut value = null_mut();
    // SAFETY: the arguments conform to the header.
    ok(unsafe { (api().CreateTensorAsOrtValue)(allocator(), shape.as_ptr(), shape.len(), ty, &mut value) });
    OwnedValue(value)
}

/// Returns the elements of a tensor.
pub(crate) fn elements<T>(value: &OwnedValue) -> &[T] {
    let (mut first, mut info, mut count) = (null_mut(), null_mut(), 0);
    // SAFETY: the arguments conform to the header, and the tensor has `count` elements.
    unsafe {
        ok((api().GetTensorMutableData)(value.0, &mut first));
        ok((api().GetTensorTypeAndShape)(value.0, &mut info));
        ok((api().GetTensorShapeElementCount)(info, &mut count));
        (api().ReleaseTensorTypeAndShapeInfo)(info);
        std::slice::from_raw_parts(first.cast::<T>(), count)
    }
}

/// Runs a session with one input and one output.
pub(crate) fn run(
    session: &Opened,
    (input, value): (&CStr, &OwnedValue),
    output: &CStr,
    options: *const OrtRunOptions,
) -> Result<OwnedValue, (OrtErrorCode, String)> {
    let (names, values, outputs) = ([input.as_ptr()], [value.0.cast_const()], [output.as_ptr()]);
    let mut results = [null_mut()];
    // SAFETY: the arguments conform to the header.
    let status = unsafe {
        let (names, values, outputs) = (names.as_ptr(), values.as_ptr(), outputs.as_ptr());
        (api().Run)(session.0, options, names, values, 1, outputs, 1, results.as_mut_ptr())
    };
    error(status).map_or(Ok(OwnedValue(results[0])), Err)
}
