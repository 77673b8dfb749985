//! The functions for sessions. A session is a model that is ready to run.

use crate::model::{ModelFacts, ModelSource, Told};
use crate::{cleared, dropped, ended, failed_to_load, given, null, options};
use bb::coverage::Coverage;
use bb::ir::graph::{Dim, ValueId, ValueType};
use bb::{
    BackendHandle, CompileOptions, ErasedExecutable, ErrorKind, Limits, Module, OpenOptions, Primitive,
};
use bb_c::abi::{Failure, Items, Named, Status, Text, status};
use bb_c::failure::{Failed, guarded};
use bb_ir::text::sentence;
use std::collections::HashSet;
use std::ffi::c_char;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The number of compiled variants that a session caches.
const KEPT: usize = 16;

/// A list of compiled variants with the names of their outputs.
type Others = Vec<(Vec<String>, Arc<dyn ErasedExecutable>)>;

/// A model that is compiled for a backend.
pub struct HostSession {
    pub(crate) backend: BackendHandle,
    pub(crate) told: Told,
    module: Module,
    options: CompileOptions,
    executable: Arc<dyn ErasedExecutable>,
    /// The variants that were compiled for other lists of outputs, with the most recently used last.
    others: Mutex<Others>,
    inputs: Vec<Known>,
    outputs: Vec<Known>,
    /// The values between nodes, which the first query lists.
    values: OnceLock<Vec<Known>>,
}

impl HostSession {
    /// Returns the results of nodes that are no outputs, in the order of the nodes.
    fn values(&self) -> &[Known] {
        self.values.get_or_init(|| {
            let graph = self.module.graph();
            let outputs: HashSet<ValueId> = graph.outputs.iter().copied().collect();
            let results = graph.nodes.iter().flat_map(|node| node.outputs.iter().flatten().copied());
            let named = results.filter(|value| !outputs.contains(value) && !graph.name_of(*value).is_empty());
            bb::Port::all_of(graph, &named.collect::<Vec<_>>()).iter().map(Known::of).collect()
        })
    }

    /// Returns the failure of a run. The backend determines the kind of the error.
    pub(crate) fn failed(&self, error: &bb::Error) -> Failed {
        Failed::caused(self.backend.error_kind(error), error)
    }

    /// Returns the executable that computes these values, which may be intermediate. If `names` is empty, it computes all outputs.
    ///
    /// # Errors
    ///
    /// If the model does not have a name; the backend's errors.
    pub(crate) fn compiled(&self, names: &[&str]) -> Result<Arc<dyn ErasedExecutable>, bb::Error> {
        if names.is_empty() {
            return Ok(self.executable.clone());
        }
        let kept = || self.others.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut others = kept();
            if let Some(at) = others.iter().position(|(known, _)| known == names) {
                let found = others.remove(at);
                let executable = found.1.clone();
                others.push(found);
                return Ok(executable);
            }
        }
        let module = self.module.with_outputs(names)?;
        let executable = self.backend.compile(module, &self.options)?;
        let mut others = kept();
        if others.len() >= KEPT {
            others.remove(0);
        }
        others.push((names.iter().map(|name| (*name).to_owned()).collect(), executable.clone()));
        Ok(executable)
    }
}

/// The value of `BB_UNKNOWN_RANK` and `BB_UNKNOWN_EXTENT`.
const UNKNOWN: usize = usize::MAX;

/// The name and the known type of an input, an output or a value between nodes. `shape` is `None` if the rank is unknown.
struct Known {
    name: String,
    dtype: i32,
    shape: Option<Vec<usize>>,
}

/// `bb_port`.
#[repr(C)]
#[derive(Debug)]
pub struct Port {
    name: Text,
    dtype: i32,
    rank: usize,
    shape: *const usize,
}

impl Known {
    fn of(port: &bb::Port) -> Known {
        let extent = |dim: &Dim| match dim {
            Dim::Known(extent) => *extent,
            _ => UNKNOWN,
        };
        let (dtype, shape) = match &port.ty {
            ValueType::Tensor { dtype, shape } => {
                (dtype.to_onnx(), shape.as_ref().map(|dims| dims.iter().map(extent).collect()))
            }
            _ => (0, None),
        };
        Known { name: port.name.clone(), dtype, shape }
    }
}

/// Loads the libraries of `BB_BACKEND_PATH` at the first call. If one cannot be loaded, no session can be opened.
fn obey_the_environment() -> Result<(), Failed> {
    static OBEYED: OnceLock<Result<(), Failed>> = OnceLock::new();
    let obey = || match std::env::var_os(bb_c::PATH_VARIABLE) {
        Some(list) => {
            let failed = |error| failed_to_load(error).about("the variable", bb_c::PATH_VARIABLE);
            bb_c::load_path(&list).map(drop).map_err(failed)
        }
        None => Ok(()),
    };
    OBEYED.get_or_init(obey).clone()
}

/// Refuses a model with nodes that need a primitive that the backend lacks, or a primitive that fails when it is tried. `name` is the name
/// under which the backend was opened.
///
/// A backend with all primitives and all element types is not tried, because trials take time.
fn runs_all(module: &Module, backend: &BackendHandle, name: &str) -> Result<(), Failed> {
    let runtime = backend.runtime();
    let has_all = Primitive::ALL.iter().all(|op| runtime.runs_primitive(*op));
    if has_all && runtime.capabilities().types.is_all() {
        return Ok(());
    }
    let coverage = Coverage::of(module, runtime);
    let missing = coverage.missing();
    if let Some((node, call)) = missing.0.iter().find_map(|of| Some((&of.node, of.failed_call()?))) {
        let reason = sentence(&call.reason);
        let text = format!("{node}: {call} failed when it was tried on one or two elements: {reason}");
        return Err(Failed::new(call.kind, text));
    }
    let before = match missing.0.len() {
        0 => return Ok(()),
        1 => "; ",
        _ => "\n  ",
    };
    let advice = coverage.advice(name).map_or(String::new(), |advice| format!("{before}{advice}"));
    let text = format!("{}{advice}", bb::Error::Unsupported { missing });
    Err(Failed::new(ErrorKind::Unsupported, text))
}

fn open(
    source: &ModelSource<'_>,
    backend: &str,
    (options, limits): (&OpenOptions, &Limits),
) -> Result<HostSession, Failed> {
    let (module, facts) = source.load(limits).map_err(|e| Failed::of(&e))?;
    let name = backend;
    let backend = bb::backend_with(name, options).map_err(|e| Failed::of(&e))?;
    runs_all(&module, &backend, name)?;
    let options = CompileOptions::default().within(limits);
    let executable = backend.compile(module.clone(), &options);
    let executable = executable.map_err(|e| Failed::caused(backend.error_kind(&e), &e))?;
    let inputs = executable.inputs().iter().map(Known::of).collect();
    let outputs = executable.outputs().iter().map(Known::of).collect();
    let (told, others, values) = (Told::new(facts), Mutex::default(), OnceLock::new());
    Ok(HostSession { backend, told, module, options, executable, others, inputs, outputs, values })
}

/// Opens a session and writes it to the caller's pointer.
///
/// # Safety
///
/// The pointers are valid as described in the header.
unsafe fn give<'a>(
    source: impl FnOnce() -> Result<ModelSource<'a>, Failed>,
    backend: *const c_char,
    pairs: Items<Named>,
    session: *mut *mut HostSession,
    error: *mut Failure,
) -> Status {
    let body = || {
        crate::speak();
        // SAFETY: the caller upholds the safety contract of this function.
        let (session, name) = unsafe { (cleared(session), ended(backend, "the name of a backend")?) };
        let session = session.ok_or_else(|| null("a place for a session"))?;
        obey_the_environment()?;
        // SAFETY: as above.
        let (options, limits) = options::of_session(unsafe { given(pairs, "the list of options") }?)?;
        let opened = open(&source()?, name, (&options, &limits))?;
        *session = Box::into_raw(Box::new(opened));
        Ok(())
    };
    // SAFETY: as above.
    unsafe { guarded(error, body) }
}

/// `bb_session_open`: opens a model file.
///
/// # Safety
///
/// The pointers are valid as described in the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bb_session_open(
    path: *const c_char,
    backend: *const c_char,
    options: Items<Named>,
    session: *mut *mut HostSession,
    error: *mut Failure,
) -> Status {
    // SAFETY: the caller upholds the safety contract of this function.
    let source = || unsafe { ended(path, "a path") }.map(|path| ModelSource::File(Path::new(path)));
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { give(source, backend, options, session, error) }
}

/// `bb_session_open_bytes`: opens a model in memory.
///
/// # Safety
///
/// The pointers are valid as described in the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bb_session_open_bytes(
    model: Text,
    backend: *const c_char,
    options: Items<Named>,
    session: *mut *mut HostSession,
    error: *mut Failure,
) -> Status {
    // SAFETY: the caller upholds the safety contract of this function.
    let source = || Ok(ModelSource::Bytes(unsafe { given(model, "the model") }?));
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { give(source, backend, options, session, error) }
}

/// `bb_session_close`.
///
/// # Safety
///
/// `session` is null, or was opened and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bb_session_close(session: *mut HostSession) {
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { dropped(session) }
}

/// `bb_session_input_count`.
///
/// # Safety
///
/// `session` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bb_session_input_count(session: *const HostSession) -> usize {
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { session.as_ref() }.map_or(0, |session| session.inputs.len())
}

/// `bb_session_output_count`.
///
/// # Safety
///
/// `session` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bb_session_output_count(session: *const HostSession) -> usize {
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { session.as_ref() }.map_or(0, |session| session.outputs.len())
}

/// `bb_session_value_count`.
///
/// # Safety
///
/// `session` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bb_session_value_count(session: *const HostSession) -> usize {
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { session.as_ref() }.map_or(0, |session| session.values().len())
}

fn write(known: Option<&Known>, port: Option<&mut Port>) -> Status {
    let (Some(known), Some(port)) = (known, port) else { return status::of(bb::ErrorKind::WrongInput) };
    let Known { name, dtype, shape } = known;
    let (rank, shape) =
        shape.as_ref().map_or((UNKNOWN, std::ptr::null()), |shape| (shape.len(), shape.as_ptr()));
    *port = Port { name: Text::new(name), dtype: *dtype, rank, shape };
    status::OK
}

/// `bb_session_input`.
///
/// # Safety
///
/// The pointers are null, or valid as described in the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bb_session_input(
    session: *const HostSession,
    position: usize,
    port: *mut Port,
) -> Status {
    // SAFETY: the caller upholds the safety contract of this function.
    let (session, port) = unsafe { (session.as_ref(), port.as_mut()) };
    write(session.and_then(|session| session.inputs.get(position)), port)
}

/// `bb_session_output`.
///
/// # Safety
///
/// The pointers are null, or valid as described in the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bb_session_output(
    session: *const HostSession,
    position: usize,
    port: *mut Port,
) -> Status {
    // SAFETY: the caller upholds the safety contract of this function.
    let (session, port) = unsafe { (session.as_ref(), port.as_mut()) };
    write(session.and_then(|session| session.outputs.get(position)), port)
}

/// `bb_session_value`.
///
/// # Safety
///
/// The pointers are null, or valid as described in the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bb_session_value(
    session: *const HostSession,
    position: usize,
    port: *mut Port,
) -> Status {
    // SAFETY: the caller upholds the safety contract of this function.
    let (session, port) = unsafe { (session.as_ref(), port.as_mut()) };
    write(session.and_then(|session| session.values().get(position)), port)
}

/// `bb_session_model`: writes the model's metadata.
///
/// # Safety
///
/// The pointers are null, or valid as described in the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bb_session_model(session: *const HostSession, model: *mut ModelFacts) -> Status {
    // SAFETY: the caller guarantees valid pointers.
    let Some(session) = (unsafe { session.as_ref() }) else { return status::of(ErrorKind::WrongInput) };
    // SAFETY: as above.
    unsafe { session.told.write(model) }
}
