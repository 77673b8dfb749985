//! Calls of ONNX Runtime's C interface that `ort` does not make: `ort` panics if a result is an absent optional, copies the
//! tensors of a sequence, and does not report which provider runs a node.
#![expect(unsafe_code, reason = "calls functions of a C interface")]

use ort::AsPointer;
use ort::memory::Allocator;
use ort::session::{Session, SessionInputValue};
use ort::sys::{ONNXType, OrtStatusPtr, OrtValue};
use ort::value::DynValue;
use std::ffi::{CStr, CString, c_char};
use std::ptr::{NonNull, null, null_mut};

/// Names as C strings.
struct Names(Vec<CString>);

impl Names {
    fn new<'n>(names: impl Iterator<Item = &'n str>) -> Result<Names, ort::Error> {
        Ok(Names(names.map(CString::new).collect::<Result<_, _>>().map_err(ort::Error::wrap)?))
    }

    fn pointers(&self) -> Vec<*const c_char> {
        self.0.iter().map(|name| name.as_ptr()).collect()
    }
}

/// Runs a session. Returns `None` for each output that is an absent optional.
pub(crate) fn run(
    session: &mut Session,
    inputs: &[(&str, SessionInputValue<'_>)],
    outputs: &[&str],
) -> Result<Vec<Option<DynValue>>, ort::Error> {
    let input_names = Names::new(inputs.iter().map(|(name, _)| *name))?;
    let output_names = Names::new(outputs.iter().copied())?;
    let (input_pointers, output_pointers) = (input_names.pointers(), output_names.pointers());
    let values: Vec<*const OrtValue> = inputs.iter().map(|(_, value)| value.ptr()).collect();
    let mut results: Vec<*mut OrtValue> = vec![null_mut(); outputs.len()];
    // SAFETY: the session, the names and the values live until the call returns, because they are borrowed or owned here. Each
    // length is the length of its list. The exclusive reference to the session excludes other runs.
    let status = unsafe {
        (ort::api().Run)(
            session.ptr().cast_mut(),
            null(),
            input_pointers.as_ptr(),
            values.as_ptr(),
            values.len(),
            output_pointers.as_ptr(),
            output_pointers.len(),
            results.as_mut_ptr(),
        )
    };
    checked(status)?;
    results.into_iter().map(present).collect()
}

/// Creates a sequence of at least one value. The sequence borrows the elements of the values.
pub(crate) fn sequence(items: Vec<SessionInputValue<'_>>) -> Result<SessionInputValue<'_>, ort::Error> {
    let pointers: Vec<*const OrtValue> = items.iter().map(|item| item.ptr()).collect();
    let mut value = null_mut();
    // SAFETY: the values live until the call returns, and the length is the length of their list. The result shares ownership
    // of the values; its lifetime is the lifetime of the elements that they borrow.
    let status = unsafe {
        (ort::api().CreateValue)(
            pointers.as_ptr(),
            pointers.len(),
            ONNXType::ONNX_TYPE_SEQUENCE,
            &raw mut value,
        )
    };
    checked(status)?;
    match present(value)? {
        Some(value) => Ok(value.into()),
        None => Err(ort::Error::new("ONNX Runtime created no sequence")),
    }
}

/// Takes ownership of a value that ONNX Runtime created. Returns `None` for an absent optional.
fn present(value: *mut OrtValue) -> Result<Option<DynValue>, ort::Error> {
    let Some(value) = NonNull::new(value) else { return Ok(None) };
    let mut has_value = 0;
    // SAFETY: ONNX Runtime returned the value, and nothing else owns it.
    checked(unsafe { (ort::api().HasValue)(value.as_ptr(), &raw mut has_value) })?;
    if has_value == 0 {
        // SAFETY: as above; the value is not used again.
        unsafe { (ort::api().ReleaseValue)(value.as_ptr()) };
        return Ok(None);
    }
    // SAFETY: as above. Results are in host memory, which the default allocator describes.
    Ok(Some(unsafe { DynValue::from_ptr(value, Some(&Allocator::default())) }))
}

/// Converts a status to a result.
fn checked(status: OrtStatusPtr) -> Result<(), ort::Error> {
    // SAFETY: the status comes from a function of ONNX Runtime, and is used only here.
    unsafe { ort::Error::result_from_status(status) }
}

/// Returns the nodes of a session that ONNX Runtime runs on its built-in CPU provider, as `name (operator)`. The session has the
/// option [`RECORD`].
pub(crate) fn nodes_on_cpu(session: &Session) -> Result<Vec<String>, ort::Error> {
    let api = ort::api();
    // SAFETY: the session lives until the end of this function, and so do the lists and texts, which belong to it. Each function
    // writes a list and its length, or a zero-terminated text.
    unsafe {
        let parts = list(|parts, count| (api.Session_GetEpGraphAssignmentInfo)(session.ptr(), parts, count))?;
        let mut nodes = Vec::new();
        for &part in parts {
            if text(|name| (api.EpAssignedSubgraph_GetEpName)(part, name))? != CPU {
                continue;
            }
            for &node in list(|nodes, count| (api.EpAssignedSubgraph_GetNodes)(part, nodes, count))? {
                let name = text(|name| (api.EpAssignedNode_GetName)(node, name))?;
                let operator = text(|operator| (api.EpAssignedNode_GetOperatorType)(node, operator))?;
                nodes.push(if name.is_empty() { operator } else { format!("`{name}` ({operator})") });
            }
        }
        Ok(nodes)
    }
}

/// The option of a session that [`nodes_on_cpu`] requires.
pub(crate) const RECORD: &str = "session.record_ep_graph_assignment_info";

/// The name of ONNX Runtime's built-in CPU provider.
const CPU: &str = "CPUExecutionProvider";

/// Returns the list that a function writes.
///
/// # Safety
///
/// If the function succeeds, it writes a list that lives for `'a`, and the list's length.
unsafe fn list<'a, T>(
    call: impl FnOnce(*mut *const *const T, *mut usize) -> OrtStatusPtr,
) -> Result<&'a [*const T], ort::Error> {
    let (mut items, mut count) = (null(), 0);
    checked(call(&raw mut items, &raw mut count))?;
    if items.is_null() {
        return Ok(&[]);
    }
    // SAFETY: the caller guarantees the length and the lifetime.
    Ok(unsafe { std::slice::from_raw_parts(items, count) })
}

/// Copies the text that a function writes.
///
/// # Safety
///
/// If the function succeeds, it writes null or a zero-terminated text.
unsafe fn text(call: impl FnOnce(*mut *const c_char) -> OrtStatusPtr) -> Result<String, ort::Error> {
    let mut text = null();
    checked(call(&raw mut text))?;
    if text.is_null() {
        return Ok(String::new());
    }
    // SAFETY: the caller guarantees a zero-terminated text.
    Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}
