//! The functions that run sessions.
#![expect(non_snake_case, reason = "the names of ONNX Runtime")]

use super::{OrtSession, SessionModel};
use crate::arguments::{list, object, text};
use crate::error::CallError;
use crate::run_options::OrtRunOptions;
use crate::status::{OrtStatus, RawStatus, Result, functions, guarded};
use crate::value::result::{failed, of};
use crate::value::{HeldValue, OperandElements, OrtValue};
use bb::ir::graph::ValueType;
use bb::onnx::OnnxValue;
use bb::{RunOptions, TensorData, Value};
use bb_cpu::Cpu;
use bb_ort_plugin::lending::Lending;
use std::ffi::{c_char, c_void};
use std::sync::Arc;

/// The name of a requested output, and the program's value for it if there is one.
pub(crate) type Wanted<'a> = (&'a str, Option<Arc<HeldValue>>);

impl SessionModel {
    /// Runs the model on named inputs, and returns the values of the outputs. If the program passed a value for an output, the result is
    /// written into it.
    ///
    /// # Errors
    ///
    /// [`CallError::Run`]; [`CallError::UnknownOutput`]; [`CallError::Output`] if a result does not fit the program's value for it.
    pub(crate) fn run(
        &self,
        inputs: &[(&str, Arc<HeldValue>)],
        outputs: &[Wanted<'_>],
        options: Option<&OrtRunOptions>,
    ) -> Result<Vec<Arc<HeldValue>>> {
        let options = match options {
            Some(options) => RunOptions::default().with_cancel(&options.token()),
            None => RunOptions::default(),
        };
        let lending = Lending::default();
        options.within(|| self.run_lending(inputs, outputs, &lending))
    }

    /// Runs with borrowed operands. The caller drops `lending` before it drops the operands.
    fn run_lending(
        &self,
        inputs: &[(&str, Arc<HeldValue>)],
        outputs: &[Wanted<'_>],
        lending: &Lending,
    ) -> Result<Vec<Arc<HeldValue>>> {
        let names: Vec<&str> = outputs.iter().map(|(name, _)| *name).collect();
        let compiled = self.compiled(&names)?;
        let executable = &compiled.executable;
        let failed = failed(&self.on);
        let operands = self.operands(executable.inputs(), inputs, outputs, lending)?;
        let put = |x: &Option<OnnxValue<TensorData>>| match x {
            Some(x) => x.try_map(&mut |x| self.on.runtime().constant(x)).map(Some),
            None => Ok(None),
        };
        let values = operands.iter().map(put).collect::<std::result::Result<Vec<_>, bb::Error>>();
        let values: Vec<Option<OnnxValue<Value>>> = values.map_err(&failed)?;
        drop(operands);
        let results = if compiled.tensors && !values.iter().flatten().any(|value| value.tensor().is_none()) {
            let tensors: Vec<Option<&Value>> =
                values.iter().map(|value| value.as_ref().and_then(OnnxValue::tensor)).collect();
            executable.run(&tensors).map(|results| results.into_iter().map(OnnxValue::Tensor).collect())
        } else {
            executable.run_items(&values)
        };
        let results: Vec<OnnxValue<Value>> = results.map_err(&failed)?;
        drop(values);
        self.give(executable.outputs(), results, outputs)
    }

    /// Converts the inputs to operands, in the order of the ports.
    fn operands(
        &self,
        ports: &[bb::Port],
        inputs: &[(&str, Arc<HeldValue>)],
        outputs: &[Wanted<'_>],
        lending: &Lending,
    ) -> Result<Vec<Option<OnnxValue<TensorData>>>> {
        let run = |source| CallError::Run { kind: self.on.error_kind(&source), source };
        let known =
            |name: &str| self.inputs().iter().chain(self.initializers()).any(|port| port.name == name);
        for (at, (name, _)) in inputs.iter().enumerate() {
            if !known(name) {
                let expected = ports.iter().map(|port| port.name.clone()).collect();
                return Err(run(bb::Error::UnknownInput { name: (*name).to_owned(), expected }));
            }
            if inputs.iter().take(at).any(|(other, _)| other == name) {
                return Err(run(bb::Error::RepeatedInput { name: (*name).to_owned() }));
            }
        }
        // Only the CPU backend borrows operands. Other backends may keep operands longer than the run.
        let lends = self.on.typed::<Cpu>().is_some();
        // An input is not borrowed if it overlaps an output value, because results are copied into that value while they may still refer to
        // the input.
        let written = |value: &HeldValue| {
            let tensors = outputs.iter().filter_map(|(_, into)| into.as_ref()?.tensor().ok());
            tensors.into_iter().any(|tensor| value.overlaps(tensor))
        };
        let operand = |port: &bb::Port| {
            let Some((_, value)) = inputs.iter().find(|(name, _)| *name == port.name) else {
                return Ok(None);
            };
            let lent = lends && !written(value);
            let elements = if lent { OperandElements::Lent(lending) } else { OperandElements::Copied };
            value.data(elements).and_then(|value| scalar(port, value)).map(Some)
        };
        ports.iter().map(operand).collect()
    }

    /// Creates values from results, or writes the results into the program's values.
    fn give(
        &self,
        ports: &[bb::Port],
        results: Vec<OnnxValue<Value>>,
        outputs: &[Wanted<'_>],
    ) -> Result<Vec<Arc<HeldValue>>> {
        let mut results: Vec<Option<OnnxValue<Value>>> = results.into_iter().map(Some).collect();
        let mut values = Vec::with_capacity(outputs.len());
        for (at, (name, into)) in outputs.iter().enumerate() {
            let missing = || CallError::UnknownOutput { name: (*name).to_owned(), known: Vec::new() };
            let (port, place) =
                ports.iter().zip(&mut results).find(|(port, _)| port.name == *name).ok_or_else(missing)?;
            let again = outputs.iter().skip(at + 1).any(|(other, _)| other == name);
            let result = if again { place.clone() } else { place.take() }.ok_or_else(missing)?;
            values.push(match into {
                Some(into) => {
                    self.write(name, &result, into)?;
                    into.clone()
                }
                None => of(&self.on, result, &port.ty)?,
            });
        }
        Ok(values)
    }

    /// Writes a result into a value of the program.
    fn write(&self, name: &str, result: &OnnxValue<Value>, into: &HeldValue) -> Result<()> {
        let unfit = |result: String| CallError::Output {
            name: name.to_owned(),
            result,
            given: into.ty().to_string(),
        };
        let (Some(x), Ok(tensor)) = (result.tensor(), into.tensor()) else {
            return Err(unfit(result.kind().to_owned()));
        };
        if (x.dtype(), x.shape()) != (tensor.dtype(), tensor.shape()) {
            return Err(unfit(format!("{}{:?}", x.dtype(), x.shape())));
        }
        tensor.fill(&self.on.to_host(x).map_err(failed(&self.on))?)
    }
}

/// Removes the dimensions of an operand with one element if the model declares a scalar. ONNX Runtime does not check the rank of these
/// inputs, and programs rely on it.
fn scalar(port: &bb::Port, value: OnnxValue<TensorData>) -> Result<OnnxValue<TensorData>> {
    let is_declared = matches!(&port.ty, ValueType::Tensor { shape: Some(dims), .. } if dims.is_empty());
    match value {
        OnnxValue::Tensor(x) if is_declared && x.len() == 1 && !x.shape().is_empty() => {
            Ok(OnnxValue::Tensor(x.reshaped(&[])?))
        }
        other => Ok(other),
    }
}

/// Reads the arguments of a run, runs the model, and writes the outputs.
///
/// # Safety
///
/// The pointers are null or conform to the header.
unsafe fn run(call: &RunArguments) -> Result<()> {
    // SAFETY: the caller upholds the safety contract of this function.
    let (session, options, names, inputs) = unsafe {
        (
            object(call.session, "a session")?,
            call.options.as_ref(),
            list(call.input_names, call.input_count, "names of inputs")?,
            list(call.inputs, call.input_count, "inputs")?,
        )
    };
    // SAFETY: the caller upholds the safety contract of this function.
    let (output_names, outputs) = unsafe {
        (
            list(call.output_names, call.output_count, "names of outputs")?,
            list(call.outputs.cast_const(), call.output_count, "places for outputs")?,
        )
    };
    if output_names.is_empty() {
        return Err(CallError::Count { what: "outputs at least", expected: 1, got: 0 });
    }
    let input = |(name, value): (&*const c_char, &*const OrtValue)| {
        // SAFETY: the caller upholds the safety contract of this function.
        unsafe { Ok((text(*name, "the name of an input")?, object(*value, "an input")?.held.clone())) }
    };
    let inputs = names.iter().zip(inputs).map(input).collect::<Result<Vec<_>>>()?;
    let output = |(name, value): (&*const c_char, &*mut OrtValue)| {
        // SAFETY: the caller upholds the safety contract of this function.
        let (name, value) = unsafe { (text(*name, "the name of an output")?, value.as_ref()) };
        Ok((name, value.map(|value| value.held.clone())))
    };
    let wanted = output_names.iter().zip(outputs).map(output).collect::<Result<Vec<_>>>()?;
    let results = session.shared.run(&inputs, &wanted, options)?;
    for (index, (held, (_, given))) in results.into_iter().zip(&wanted).enumerate() {
        if given.is_none() {
            // SAFETY: the caller guarantees that the list of outputs has the length of the list of names.
            unsafe { call.outputs.add(index).write(Box::into_raw(Box::new(OrtValue { held }))) };
        }
    }
    Ok(())
}

/// The arguments of a run.
struct RunArguments {
    session: *const OrtSession,
    options: *const OrtRunOptions,
    input_names: *const *const c_char,
    inputs: *const *const OrtValue,
    input_count: usize,
    output_names: *const *const c_char,
    output_count: usize,
    outputs: *mut *mut OrtValue,
}

/// `RunAsyncCallbackFn`.
type Callback = unsafe extern "system" fn(*mut c_void, *mut *mut OrtValue, usize, *mut OrtStatus);

/// A run in another thread, and the callback that is called when it ends.
struct LaterCall {
    call: RunArguments,
    callback: Callback,
    data: *mut c_void,
}

// SAFETY: the header requires that all memory behind the arguments lives until the callback is called, and that threads may share it.
unsafe impl Send for LaterCall {}

impl LaterCall {
    /// Runs the model, and calls the program's callback.
    fn run(self) {
        // SAFETY: the header requires that the arguments are valid.
        let status: RawStatus = guarded(|| unsafe { run(&self.call) });
        // SAFETY: the program passed the callback for these arguments. The callback releases the status.
        unsafe { (self.callback)(self.data, self.call.outputs, self.call.output_count, status) };
    }
}

functions! {
    /// Runs a model on named inputs. If the pointer to an output value is null, a new value is created; otherwise the result is written
    /// into the value.
    Run(
        session: *mut OrtSession, options: *const OrtRunOptions, input_names: *const *const c_char,
        inputs: *const *const OrtValue, input_count: usize, output_names: *const *const c_char, output_count: usize,
        outputs: *mut *mut OrtValue,
    ) {
        let session = session.cast_const();
        run(&RunArguments { session, options, input_names, inputs, input_count, output_names, output_count, outputs })
    }

    /// Runs a model in a separate thread, which then calls the program's callback.
    RunAsync(
        session: *mut OrtSession, options: *const OrtRunOptions, input_names: *const *const c_char,
        inputs: *const *const OrtValue, input_count: usize, output_names: *const *const c_char, output_count: usize,
        outputs: *mut *mut OrtValue, callback: Option<Callback>, data: *mut c_void,
    ) {
        object(session, "a session")?;
        let session = session.cast_const();
        let callback = callback.ok_or(CallError::Null { what: "a function to call when the run has ended" })?;
        let call = RunArguments { session, options, input_names, inputs, input_count, output_names, output_count, outputs };
        let later = LaterCall { call, callback, data };
        let started = std::thread::Builder::new().name("bb-run".into()).spawn(move || later.run());
        started.map(drop).map_err(CallError::Thread)
    }
}
