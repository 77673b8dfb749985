//! Bindings: the inputs and output buffers of a session, kept for several runs.
#![expect(non_snake_case, reason = "the names of ONNX Runtime")]

use crate::allocator::{Allocator, OrtAllocator};
use crate::arguments::{OutPlace, object, text};
use crate::error::CallError;
use crate::memory::OrtMemoryInfo;
use crate::release::{quiet, releases};
use crate::run_options::OrtRunOptions;
use crate::session::{OrtSession, SessionModel};
use crate::status::{Result, functions};
use crate::value::{HeldValue, OrtValue};
use std::ffi::c_char;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// `OrtIoBinding`.
pub(crate) struct OrtIoBinding {
    session: Arc<SessionModel>,
    bound: Mutex<Bound>,
}

/// The bound inputs and outputs, in the order of binding.
#[derive(Debug, Default)]
struct Bound {
    inputs: Vec<(String, Arc<HeldValue>)>,
    /// The values that outputs are written to. `None` for an output that gets a new value in each run.
    outputs: Vec<(String, Option<Arc<HeldValue>>)>,
    /// The results of the last run. Empty before the first run.
    results: Vec<Arc<HeldValue>>,
}

impl OrtIoBinding {
    fn bound(&self) -> MutexGuard<'_, Bound> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Binds an output. Replaces an earlier binding of the same name.
    fn ask(&self, name: &str, value: Option<Arc<HeldValue>>) -> Result<()> {
        let known = self.session.outputs();
        if !known.iter().any(|port| port.name == name) {
            let known = known.iter().map(|port| port.name.clone()).collect();
            return Err(CallError::UnknownOutput { name: name.to_owned(), known });
        }
        let mut bound = self.bound();
        bound.results.clear();
        match bound.outputs.iter_mut().find(|(known, _)| known == name) {
            Some((_, place)) => *place = value,
            None => bound.outputs.push((name.to_owned(), value)),
        }
        Ok(())
    }
}

/// Returns the binding behind a pointer.
///
/// # Safety
///
/// As [`object`].
unsafe fn of<'a>(binding: *const OrtIoBinding) -> Result<&'a OrtIoBinding> {
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { object(binding, "a binding") }
}

functions! {
    /// Creates a binding.
    CreateIoBinding(session: *mut OrtSession, out: *mut *mut OrtIoBinding) {
        let session = object(session, "a session")?.shared.clone();
        OutPlace::at(out, "a place for a binding")?.give(OrtIoBinding { session, bound: Mutex::default() });
        Ok(())
    }

    /// Binds an input to a value. The binding shares the value's tensor.
    BindInput(binding: *mut OrtIoBinding, name: *const c_char, value: *const OrtValue) {
        let (binding, name) = (of(binding)?, text(name, "the name of an input")?);
        let value = object(value, "a value")?.held.clone();
        let session = &binding.session;
        if !session.inputs().iter().chain(session.initializers()).any(|port| port.name == name) {
            let expected = session.inputs().iter().map(|port| port.name.clone()).collect();
            let source = bb::Error::UnknownInput { name: name.to_owned(), expected };
            return Err(CallError::Run { kind: source.kind(), source });
        }
        let mut bound = binding.bound();
        match bound.inputs.iter_mut().find(|(known, _)| known == name) {
            Some((_, place)) => *place = value,
            None => bound.inputs.push((name.to_owned(), value)),
        }
        Ok(())
    }

    /// Binds an output to a value, which each run overwrites.
    BindOutput(binding: *mut OrtIoBinding, name: *const c_char, value: *const OrtValue) {
        let value = object(value, "a value")?.held.clone();
        of(binding)?.ask(text(name, "the name of an output")?, Some(value))
    }

    /// Binds an output that gets a new value in each run.
    BindOutputToDevice(binding: *mut OrtIoBinding, name: *const c_char, info: *const OrtMemoryInfo) {
        object(info, "a kind of memory")?.check_host()?;
        of(binding)?.ask(text(name, "the name of an output")?, None)
    }

    /// Runs the model of a session on the bound values.
    RunWithBinding(session: *mut OrtSession, options: *const OrtRunOptions, binding: *const OrtIoBinding) {
        let (session, binding) = (object(session, "a session")?, of(binding)?);
        if !Arc::ptr_eq(&session.shared, &binding.session) {
            return Err(CallError::Kind { expected: "a binding of the session", got: "one of another session" });
        }
        let (inputs, outputs) = {
            let bound = binding.bound();
            (bound.inputs.clone(), bound.outputs.clone())
        };
        if outputs.is_empty() {
            return Err(CallError::Count { what: "bound outputs at least", expected: 1, got: 0 });
        }
        let inputs: Vec<_> = inputs.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        let wanted: Vec<_> = outputs.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        let results = session.shared.run(&inputs, &wanted, options.as_ref())?;
        binding.bound().results = results;
        Ok(())
    }

    /// Returns the names of the bound outputs, concatenated, and their lengths.
    GetBoundOutputNames(
        binding: *const OrtIoBinding, allocator: *mut OrtAllocator, names: *mut *mut c_char, lengths: *mut *mut usize,
        count: *mut usize,
    ) {
        let (binding, allocator) = (of(binding)?, Allocator::of(allocator)?);
        let (names, lengths) = (OutPlace::at(names, "a place for names")?, OutPlace::at(lengths, "a place for lengths")?);
        let count = OutPlace::at(count, "a place for a count")?;
        let bound = binding.bound();
        if bound.outputs.is_empty() {
            names.put(null_mut());
            lengths.put(null_mut());
            count.put(0);
            return Ok(());
        }
        let text: String = bound.outputs.iter().map(|(name, _)| name.as_str()).collect();
        let each: Vec<usize> = bound.outputs.iter().map(|(name, _)| name.len()).collect();
        names.put(allocator.list(text.as_bytes())?.cast());
        lengths.put(allocator.list(&each)?);
        count.put(each.len());
        Ok(())
    }

    /// Returns the results of the last run, in the order of binding.
    GetBoundOutputValues(
        binding: *const OrtIoBinding, allocator: *mut OrtAllocator, values: *mut *mut *mut OrtValue, count: *mut usize,
    ) {
        let (binding, allocator) = (of(binding)?, Allocator::of(allocator)?);
        let (values, count) = (OutPlace::at(values, "a place for values")?, OutPlace::at(count, "a place for a count")?);
        let bound = binding.bound();
        if bound.results.is_empty() {
            values.put(null_mut());
            count.put(0);
            return Ok(());
        }
        // The list is allocated before the values are created, so that no value leaks if the allocation fails.
        let room = allocator.list(&vec![null_mut::<OrtValue>(); bound.results.len()])?;
        for (index, held) in bound.results.iter().enumerate() {
            room.add(index).write(Box::into_raw(Box::new(OrtValue { held: held.clone() })));
        }
        values.put(room);
        count.put(bound.results.len());
        Ok(())
    }

    /// Does nothing, because inputs are in the host's memory.
    SynchronizeBoundInputs(binding: *mut OrtIoBinding) {
        of(binding).map(drop)
    }

    /// Does nothing, because a run has completed when it returns.
    SynchronizeBoundOutputs(binding: *mut OrtIoBinding) {
        of(binding).map(drop)
    }
}

/// Removes all bound inputs.
///
/// # Safety
///
/// The pointer is null or points to a binding.
pub(crate) unsafe extern "system" fn ClearBoundInputs(binding: *mut OrtIoBinding) {
    // SAFETY: the caller upholds the safety contract of this function.
    if let Some(binding) = unsafe { binding.as_ref() } {
        quiet((), || binding.bound().inputs.clear());
    }
}

/// Removes all bound outputs and the results.
///
/// # Safety
///
/// The pointer is null or points to a binding.
pub(crate) unsafe extern "system" fn ClearBoundOutputs(binding: *mut OrtIoBinding) {
    // SAFETY: the caller upholds the safety contract of this function.
    if let Some(binding) = unsafe { binding.as_ref() } {
        quiet((), || {
            let mut bound = binding.bound();
            bound.outputs.clear();
            bound.results.clear();
        });
    }
}

releases! {
    ReleaseIoBinding(OrtIoBinding);
}
