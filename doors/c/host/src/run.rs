//! The functions that run a session and read its outputs.

use crate::options::HostRunOptions;
use crate::session::HostSession;
use crate::{cleared, dropped, given, null};
use bb::ir::graph::ValueType;
use bb::{ErasedExecutable, ErrorKind, Port, RunOptions, TensorData, Value};
use bb_c::abi::{Data, Failure, Items, Status, Text, status};
use bb_c::export::open::text;
use bb_c::export::tensors::host;
use bb_c::failure::{Failed, guarded};
use bb_ir::text::{sentence, shown};

/// The outputs of a run, in memory of the host.
#[derive(Debug)]
pub struct HostRun(Vec<TensorData>);

/// `bb_input`.
#[repr(C)]
#[derive(Debug)]
pub struct Input {
    name: Text,
    data: Data,
}

/// Refuses models with sequences and maps, which `bb_data` cannot represent.
fn only_tensors(executable: &dyn ErasedExecutable) -> Result<(), Failed> {
    let (inputs, outputs) = (executable.inputs(), executable.outputs());
    let elsewhere = "run the model with bb's package for Python";
    let others = format!("name other values in `bb_run_options.values`, or {elsewhere}");
    for (what, ports, advice) in [("input", inputs, elsewhere), ("output", outputs, others.as_str())] {
        let other = |port: &&Port| matches!(port.ty, ValueType::Sequence(_) | ValueType::Map(..));
        if let Some(port) = ports.iter().find(other) {
            let (name, ty) = (shown(&port.name), sentence(&port.ty));
            let text = format!("{what} `{name}` is a {ty}, but the C interface has only tensors: {advice}");
            return Err(Failed::new(ErrorKind::WrongInput, text));
        }
    }
    Ok(())
}

fn run(
    session: &HostSession,
    inputs: &[Input],
    executable: &dyn ErasedExecutable,
    ends: Option<&RunOptions>,
) -> Result<HostRun, Failed> {
    let mut named: Vec<(&str, Value)> = Vec::with_capacity(inputs.len());
    for input in inputs {
        let name = text(input.name)?;
        // SAFETY: the pointers in the structure are borrowed from the caller for the call.
        let data = unsafe { host(&input.data) }.map_err(|failed| failed.about("input", name))?;
        let value = session.backend.runtime().constant(&data).map_err(|e| session.failed(&e))?;
        named.push((name, value));
    }
    let lent: Vec<(&str, &Value)> = named.iter().map(|(name, value)| (*name, value)).collect();
    let run = || {
        let outputs = executable.run_named(&lent)?;
        let ports = executable.outputs().iter();
        ports
            .map(|port| {
                // Looks up by reference instead of removing the value, because the caller may list an output twice.
                let missing = || bb::Error::missing_output(&port.name, &outputs);
                let value = outputs.get(&port.name).ok_or_else(missing)?;
                let host = session.backend.to_host(value)?;
                host.prepare()?;
                Ok(host)
            })
            .collect::<Result<Vec<_>, bb::Error>>()
    };
    let outputs = match ends {
        Some(ends) => ends.within(run),
        None => run(),
    };
    outputs.map(HostRun).map_err(|e| session.failed(&e))
}

/// `bb_session_run`: runs the model.
///
/// # Safety
///
/// The pointers are valid as described in the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bb_session_run(
    session: *const HostSession,
    inputs: *const Input,
    count: usize,
    into: *mut *mut HostRun,
    error: *mut Failure,
) -> Status {
    // SAFETY: the caller guarantees valid pointers.
    unsafe { bb_session_run_with(session, inputs, count, std::ptr::null(), into, error) }
}

/// `bb_session_run_with`: runs the model with options.
///
/// # Safety
///
/// The pointers are valid as described in the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bb_session_run_with(
    session: *const HostSession,
    inputs: *const Input,
    count: usize,
    options: *const HostRunOptions,
    into: *mut *mut HostRun,
    error: *mut Failure,
) -> Status {
    let body = || {
        // SAFETY: the caller upholds the safety contract of this function.
        let (into, session, inputs) = unsafe {
            (cleared(into), session.as_ref(), given(Items { items: inputs, count }, "the list of inputs"))
        };
        let inputs = inputs?;
        let session = session.ok_or_else(|| null("a session"))?;
        let into = into.ok_or_else(|| null("a place for a run"))?;
        // SAFETY: as above.
        let (names, ends) = unsafe {
            let options = HostRunOptions::read(options)?;
            (options.values()?, options.ends())
        };
        let failed = |e| Failed::caused(session.backend.error_kind(&e), &e);
        let executable = session.compiled(&names).map_err(failed)?;
        only_tensors(&*executable)?;
        *into = Box::into_raw(Box::new(run(session, inputs, &*executable, ends.as_ref())?));
        Ok(())
    };
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { guarded(error, body) }
}

/// `bb_run_output_count`.
///
/// # Safety
///
/// `run` is null, or was returned by a run function and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bb_run_output_count(run: *const HostRun) -> usize {
    // SAFETY: the caller guarantees a valid pointer.
    unsafe { run.as_ref() }.map_or(0, |run| run.0.len())
}

/// `bb_run_output`: writes an output, which is valid until the run is freed.
///
/// # Safety
///
/// The pointers are null, or valid as described in the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bb_run_output(run: *const HostRun, position: usize, data: *mut Data) -> Status {
    // SAFETY: the caller upholds the safety contract of this function.
    let (run, data) = unsafe { (run.as_ref(), data.as_mut()) };
    let wrong = status::of(ErrorKind::WrongInput);
    let (Some(output), Some(data)) = (run.and_then(|run| run.0.get(position)), data) else { return wrong };
    let Ok(bytes) = output.bytes() else { return status::of(ErrorKind::Device) };
    *data = Data {
        dtype: output.dtype().to_onnx(),
        rank: output.shape().len(),
        shape: output.shape().as_ptr(),
        bytes: bytes.as_ptr(),
        length: bytes.len(),
    };
    status::OK
}

/// `bb_run_free`.
///
/// # Safety
///
/// `run` is null, or was returned by a run function and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bb_run_free(run: *mut HostRun) {
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { dropped(run) }
}
