//! The table, with as little around it as a test can do with.

use ort_sys::*;
use std::ffi::{CStr, CString, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Returns the table, as a program in C gets it.
pub(crate) fn api() -> &'static OrtApi {
    let base = bb_onnxruntime::OrtGetApiBase().cast::<OrtApiBase>();
    // SAFETY: the library has the two functions, and its table lives as long as the process.
    unsafe { &*((*base).GetApi)(ORT_API_VERSION) }
}

/// Returns the number and the message of a status, and releases it; `None` for success.
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

/// Panics unless a call failed with this number and a message that has this text.
#[track_caller]
pub(crate) fn fails(status: OrtStatusPtr, code: OrtErrorCode, text: &str) {
    let (got, message) = error(status).expect("the call succeeded");
    assert!(got == code && message.contains(text), "{got:?}: {message}");
}

/// The environment of all tests, which stays.
pub(crate) fn environment() -> *mut OrtEnv {
    static ENVIRONMENT: AtomicPtr<OrtEnv> = AtomicPtr::new(null_mut());
    static MADE: Once = Once::new();
    MADE.call_once(|| {
        let mut env = null_mut();
        let level = OrtLoggingLevel::ORT_LOGGING_LEVEL_WARNING;
        // SAFETY: the arguments are those of the header.
        ok(unsafe { (api().CreateEnv)(level, c"test".as_ptr(), &mut env) });
        ENVIRONMENT.store(env, Ordering::Release);
    });
    ENVIRONMENT.load(Ordering::Acquire)
}

/// A session that is released at the end.
#[derive(Debug)]
pub(crate) struct Opened(pub(crate) *mut OrtSession);

// SAFETY: threads may share sessions.
unsafe impl Sync for Opened {}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: nobody else releases it.
        unsafe { (api().ReleaseSession)(self.0) };
    }
}

impl Opened {
    pub(crate) fn of_file(path: &Path) -> Opened {
        let (mut session, path) = (null_mut(), CString::new(path.to_str().unwrap()).unwrap());
        // SAFETY: the arguments are those of the header.
        ok(unsafe { (api().CreateSession)(environment(), path.as_ptr(), null(), &mut session) });
        Opened(session)
    }

    pub(crate) fn of_bytes(model: &[u8]) -> Result<Opened, (OrtErrorCode, String)> {
        let mut session = null_mut();
        let (first, length) = (model.as_ptr().cast(), model.len());
        // SAFETY: the arguments are those of the header.
        let status =
            unsafe { (api().CreateSessionFromArray)(environment(), first, length, null(), &mut session) };
        error(status).map_or(Ok(Opened(session)), Err)
    }
}

/// A value that is released at the end.
#[derive(Debug)]
pub(crate) struct OwnedValue(pub(crate) *mut OrtValue);

impl Drop for OwnedValue {
    fn drop(&mut self) {
        // SAFETY: nobody else releases it.
        unsafe { (api().ReleaseValue)(self.0) };
    }
}

/// Returns a description of the host's memory; the caller releases it.
pub(crate) fn host() -> *mut OrtMemoryInfo {
    let mut info = null_mut();
    let (arena, memory) = (OrtAllocatorType::OrtDeviceAllocator, OrtMemType::OrtMemTypeDefault);
    // SAFETY: the arguments are those of the header.
    ok(unsafe { (api().CreateCpuMemoryInfo)(arena, memory, &mut info) });
    info
}

pub(crate) fn allocator() -> *mut OrtAllocator {
    let mut allocator = null_mut();
    // SAFETY: the arguments are those of the header.
    ok(unsafe { (api().GetAllocatorWithDefaultOptions)(&mut allocator) });
    allocator
}

/// A tensor over memory of the test, which lives longer.
pub(crate) fn over<T>(elements: &mut [T], shape: &[i64], ty: ONNXTensorElementDataType) -> OwnedValue {
    let mut value = null_mut();
    let (first, bytes) = (elements.as_mut_ptr().cast::<c_void>(), size_of_val(elements));
    // SAFETY: the arguments are those of the header.
    unsafe {
        let info = host();
        let create = api().CreateTensorWithDataAsOrtValue;
        ok(create(info, first, bytes, shape.as_ptr(), shape.len(), ty, &mut value));
        (api().ReleaseMemoryInfo)(info);
    }
    OwnedValue(value)
}

/// A tensor in memory of the library.
pub(crate) fn made(shape: &[i64], ty: ONNXTensorElementDataType) -> OwnedValue {
    let mut value = null_mut();
    // SAFETY: the arguments are those of the header.
    ok(unsafe { (api().CreateTensorAsOrtValue)(allocator(), shape.as_ptr(), shape.len(), ty, &mut value) });
    OwnedValue(value)
}

/// The elements of a tensor.
pub(crate) fn elements<T>(value: &OwnedValue) -> &[T] {
    let (mut first, mut info, mut count) = (null_mut(), null_mut(), 0);
    // SAFETY: the arguments are those of the header, and the tensor has as many elements.
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
    // SAFETY: the arguments are those of the header.
    let status = unsafe {
        let (names, values, outputs) = (names.as_ptr(), values.as_ptr(), outputs.as_ptr());
        (api().Run)(session.0, options, names, values, 1, outputs, 1, results.as_mut_ptr())
    };
    error(status).map_or(Ok(OwnedValue(results[0])), Err)
}
