//! Gradients of functions over any backend, computed in reverse mode on a trace.
//!
//! A function is traced with the operands, and then the derivatives of its steps are traced in reverse order. On a
//! [`Tracer`] both become part of its trace, so that the gradient becomes part of a model and can itself be
//! differentiated. On another backend the trace runs. There are rules for the primitives (`rules.rs`) and for some
//! operations of families (`families.rs`), whose bodies would lose precision, compute NaN where the function does not,
//! or run on the host. All other operations are differentiated through their bodies.
//!
//! At points where a function has no derivative, the rules choose a value: `bb/docs/training.md` lists the choices.

mod derivatives;
mod families;
mod rules;
mod shapes;

use crate::ext::{Ops, every_operation};
use crate::prelude::families::*;
use crate::trace::{
    InputIndex, Liveness, Operation, Step, Table, TableIndex, Trace, TraceStop, TraceValue, TracedTensor,
    Tracer, ValueSource, Varies, held, host,
};
use crate::{Error, Tensor};
use bb_ir::op::Param;
use bb_ir::{DataType, Shape};
use std::any::Any;

/// The result of [`gradient`].
#[derive(Debug, Clone)]
pub struct Gradient<T> {
    /// The result of the function.
    pub value: T,
    /// The gradient by each input in `by`, with the element type and the shape of that input.
    pub gradients: Vec<T>,
}

/// Computes a function and its gradient by some of its inputs.
///
/// `function` is any Rust code over a backend, as for [`bb::trace`](crate::trace()). It returns one number, for example
/// a loss. `by` has the indices of the inputs to differentiate by. On a backend this function computes the gradient.
/// Inside a trace ([`ModelTrace`](crate::export::ModelTrace)) it records the operations of the function and of its
/// gradient, so that they become a model that any backend compiles once. Inside the function of another `gradient` it
/// yields second derivatives.
///
/// If the function does not depend on an input, or only through comparisons, roundings and integers, the gradient by it
/// is zero.
///
/// Shapes: the function's result has one element. Types: the result and the inputs to differentiate by are floats.
///
/// # Errors
///
/// [`Error::NotDifferentiable`] with the name of an operation without a derivative; [`Error::NotScalar`] if the
/// function returns more than one number; [`Error::GradientBy`] for an input that does not exist or is not a float; the
/// function's own errors.
///
/// # Examples
///
/// The slope of `x²` at 3, by a model that computes both:
///
/// ```no_run
/// use bb::export::{ExportOptions, ModelTrace};
/// use bb::{Backend, CompileOptions, DataType};
///
/// # fn main() -> Result<(), bb::Error> {
/// let trace = ModelTrace::new(&[("x", DataType::F32, &[])], |on, inputs| {
///     let operands: Vec<_> = inputs.iter().collect();
///     let result = bb::gradient(on, &operands, &[0], |on, inputs| match inputs {
///         [x] => on.mul(x, x),
///         _ => unreachable!("one input"),
///     })?;
///     Ok([vec![result.value], result.gradients].concat())
/// })?;
/// let cpu = bb::backend("cpu")?;
/// let program = cpu.compile(trace.module(&ExportOptions::default())?, &CompileOptions::default())?;
/// let results = program.run(&[Some(&cpu.tensor(&[], &[3f32])?)])?;
/// let numbers: Vec<f32> =
///     results.iter().map(|x| Ok(x.to_host(4)?.as_slice::<f32>()?[0])).collect::<Result<_, bb::Error>>()?;
/// assert_eq!(numbers, [9.0, 6.0]);
/// # Ok(())
/// # }
/// ```
pub fn gradient<B: Ops + ?Sized>(
    on: &B,
    inputs: &[&B::Tensor],
    by: &[usize],
    function: impl FnOnce(&Tracer, &[TracedTensor]) -> Result<TracedTensor, TraceStop>,
) -> Result<Gradient<B::Tensor>, B::Error> {
    compute(on, inputs, by, None, function)
}

/// Does the same as [`gradient`] for a function whose result is a tensor. Computes the gradient of the scalar product
/// of the result and `seed`.
///
/// Shapes: `seed` has the shape and the element type of the function's result.
///
/// # Errors
///
/// The errors of [`gradient`]; [`bb_ir::Error::Shapes`] and [`bb_ir::Error::DataType`] if the seed does not match the
/// result.
pub fn gradient_with_seed<B: Ops + ?Sized>(
    on: &B,
    inputs: &[&B::Tensor],
    by: &[usize],
    seed: &B::Tensor,
    function: impl FnOnce(&Tracer, &[TracedTensor]) -> Result<TracedTensor, TraceStop>,
) -> Result<Gradient<B::Tensor>, B::Error> {
    compute(on, inputs, by, Some(seed), function)
}

fn compute<B: Ops + ?Sized>(
    on: &B,
    inputs: &[&B::Tensor],
    by: &[usize],
    seed: Option<&B::Tensor>,
    function: impl FnOnce(&Tracer, &[TracedTensor]) -> Result<TracedTensor, TraceStop>,
) -> Result<Gradient<B::Tensor>, B::Error> {
    if let Some(tracer) = on.tracer() {
        // The backend is a tracer, so its tensors are `TracedTensor`s and its errors are `TraceStop`s.
        let traced: Option<Vec<&TracedTensor>> = inputs.iter().map(|x| same(*x)).collect();
        let traced = traced.ok_or_else(|| Error::excluded("a tracer with tensors of its own"))?;
        let found = on_tracer(tracer, &traced, by, seed.and_then(same), function);
        let found = found.map_err(|stop| -> B::Error {
            match stop {
                TraceStop::Error(error) => error.into(),
                needs => into_same(needs)
                    .unwrap_or_else(|| Error::excluded("a tracer with errors of its own").into()),
            }
        })?;
        let own = |x| into_same(x).ok_or_else(|| Error::excluded("a tracer with tensors of its own"));
        let gradients = found.gradients.into_iter().map(own).collect::<Result<_, Error>>()?;
        return Ok(Gradient { value: own(found.value)?, gradients });
    }
    // All operations of families are recorded as single steps, so that the backend's native kernels run.
    let tracer = Tracer::new(every_operation(), usize::MAX).with_types(on.types());
    let input = |(at, x): (usize, &&B::Tensor)| {
        tracer.input(InputIndex::at(at), "", x.dtype(), x.shape(), &Varies::Nothing, None)
    };
    let given: Vec<&B::Tensor> = inputs.iter().copied().chain(seed).collect();
    let traced: Vec<TracedTensor> = given.iter().enumerate().map(input).collect();
    let (of_inputs, of_seed) = traced.split_at(inputs.len());
    let of_inputs: Vec<&TracedTensor> = of_inputs.iter().collect();
    let found = on_tracer(&tracer, &of_inputs, by, of_seed.first(), function).map_err(Error::from)?;
    let outputs = std::iter::once(&found.value).chain(&found.gradients).map(TracedTensor::read).collect();
    let recorded = tracer.finish(outputs);
    let given: Vec<Option<&B::Tensor>> = given.into_iter().map(Some).collect();
    let call = |operation, operands: &[Option<&B::Tensor>], params: &[Param<'_>]| match operation {
        Operation::Row(spec) => crate::ext::call(on, spec, operands, params),
        Operation::Host(kernel) => host::run(on, kernel, operands, params),
    };
    let results = recorded.run(&recorded.live_steps()?, &given, &|x| on.constant(x), &call)?;
    let mut results = results.into_iter();
    let value = results.next().ok_or_else(|| Error::excluded("a trace with outputs"))?;
    Ok(Gradient { value, gradients: results.collect() })
}

/// Casts a reference to another type parameter that is the same type; `None` if the types differ.
fn same<A: Any, B: Any>(x: &A) -> Option<&B> {
    (x as &dyn Any).downcast_ref()
}

/// Casts a value to another type parameter that is the same type; `None` if the types differ.
fn into_same<A: Any, B: Any>(x: A) -> Option<B> {
    let mut x = Some(x);
    (&mut x as &mut dyn Any).downcast_mut::<Option<B>>().and_then(Option::take)
}

/// Traces a function and its gradient, and checks their types.
fn on_tracer(
    on: &Tracer,
    inputs: &[&TracedTensor],
    by: &[usize],
    seed: Option<&TracedTensor>,
    function: impl FnOnce(&Tracer, &[TracedTensor]) -> Result<TracedTensor, TraceStop>,
) -> Result<Gradient<TracedTensor>, TraceStop> {
    let mut wanted = vec![false; inputs.len()];
    for &index in by {
        let dtype = inputs.get(index).map(|x| x.dtype());
        match wanted.get_mut(index) {
            Some(slot) if dtype.is_some_and(DataType::is_float) => *slot = true,
            _ => return Err(Error::GradientBy { index, count: inputs.len(), dtype }.into()),
        }
    }
    let scalar = seed.is_none();
    let (value, found) = differentiate(on, inputs, &wanted, seed, |tracer, traced| {
        let y = function(tracer, traced)?;
        if !y.dtype().is_float() || (scalar && bb_ir::element_count(y.shape()) != Some(1)) {
            return Err(Error::NotScalar { dtype: y.dtype(), shape: y.shape().into() }.into());
        }
        Ok(y)
    })?;
    let mut gradients = Vec::with_capacity(by.len());
    for &index in by {
        gradients.push(match (found.get(index), inputs.get(index)) {
            (Some(Some(gradient)), _) => gradient.clone(),
            (_, Some(x)) => on.zeros(x.shape(), x.dtype())?,
            _ => return Err(Error::GradientBy { index, count: inputs.len(), dtype: None }.into()),
        });
    }
    Ok(Gradient { value, gradients })
}

/// A function's value, and its gradient by each input. The gradient is `None` if it was not requested or is zero.
type Differentiated = (TracedTensor, Vec<Option<TracedTensor>>);

/// Traces a function, and its gradient by the selected inputs (one flag each). If there is no seed, ones are used.
///
/// # Errors
///
/// The errors of [`gradient`].
pub fn differentiate(
    on: &Tracer,
    inputs: &[&TracedTensor],
    wanted: &[bool],
    seed: Option<&TracedTensor>,
    function: impl FnOnce(&Tracer, &[TracedTensor]) -> Result<TracedTensor, TraceStop>,
) -> Result<Differentiated, TraceStop> {
    let tracer = Tracer::new(families::with_rules(), bb_ir::Limits::default().value_bytes);
    let traced: Vec<TracedTensor> = inputs
        .iter()
        .enumerate()
        .map(|(at, x)| tracer.input(InputIndex::at(at), "", x.dtype(), x.shape(), &Varies::Nothing, None))
        .collect();
    let y = function(&tracer, &traced)?.value();
    let mut tape = Tape { on, wanted, recorded: tracer.finish(vec![y]), values: Table::default() };
    tape.run(inputs)?;
    let value = tape.value(y)?.clone();
    let seed = match seed {
        Some(seed) if seed.dtype() != value.dtype() => {
            let (expected, got) = (value.dtype(), seed.dtype());
            return crate::ext::fail(bb_ir::Error::DataType { expected, got });
        }
        Some(seed) if seed.shape() != value.shape() => {
            let (left, right) = (value.shape().into(), seed.shape().into());
            return crate::ext::fail(bb_ir::Error::Shapes { op: "gradient", left, right });
        }
        Some(seed) => seed.clone(),
        None => on.ones(value.shape(), value.dtype())?,
    };
    let gradients = tape.backwards(y, seed, inputs.len())?;
    Ok((value, gradients))
}

/// A trace of the function, and the tensors of its values on the tracer.
struct Tape<'a> {
    on: &'a Tracer,
    /// The inputs to differentiate by.
    wanted: &'a [bool],
    recorded: Trace,
    values: Table<TraceValue, Option<TracedTensor>>,
}

impl Tape<'_> {
    fn value(&self, value: TraceValue) -> Result<&TracedTensor, Error> {
        held(self.values.get(value)?.as_ref(), value)
    }

    /// Runs the steps that the result depends on.
    fn run(&mut self, inputs: &[&TracedTensor]) -> Result<(), TraceStop> {
        let on = self.on;
        for info in self.recorded.values.entries() {
            self.values.push(match info.source {
                ValueSource::Input(index) => inputs.get(index.position()).map(|x| (*x).clone()),
                ValueSource::Constant(index) => Some(on.constant(self.recorded.constants.get(index)?)?),
                ValueSource::Weight(_) | ValueSource::Step => None,
            });
        }
        let live = Liveness::of(&self.recorded)?;
        for (id, step) in self.recorded.steps.iter() {
            if !live.is_live(id)? {
                continue;
            }
            let mut operands: Vec<Option<&TracedTensor>> = Vec::with_capacity(step.inputs.len());
            for input in &step.inputs {
                operands.push(input.map(|value| self.value(value)).transpose()?);
            }
            let results = match step.operation {
                Operation::Row(spec) => crate::ext::call(on, spec, &operands, &step.params)?,
                Operation::Host(body) => {
                    let mut types: Vec<(DataType, Shape)> = Vec::with_capacity(step.outputs.len());
                    for output in &step.outputs {
                        let info = self.recorded.values.get(*output)?;
                        types.push((info.dtype, info.shape.clone()));
                    }
                    on.on_host(body, &operands, &step.params, &types)?
                }
            };
            for (value, result) in step.outputs.iter().zip(results) {
                self.values.set(*value, Some(result))?;
            }
        }
        Ok(())
    }

    /// Finds the float values that depend on the inputs to differentiate by.
    fn depends(&self) -> Result<Table<TraceValue, bool>, Error> {
        let recorded = &self.recorded;
        let of = |source| matches!(source, ValueSource::Input(index) if self.wanted.get(index.position()) == Some(&true));
        let mut depends: Table<TraceValue, bool> =
            recorded.values.entries().map(|info| of(info.source) && info.dtype.is_float()).collect();
        for step in recorded.steps.entries() {
            let mut any = false;
            for value in step.reads() {
                any |= *depends.get(value)?;
            }
            for value in step.outputs.iter().filter(|_| any) {
                depends.set(*value, recorded.values.get(*value)?.dtype.is_float())?;
            }
        }
        Ok(depends)
    }

    /// Returns the gradients of `y` by each of `count` inputs, multiplied by `seed`.
    fn backwards(
        &self,
        y: TraceValue,
        seed: TracedTensor,
        count: usize,
    ) -> Result<Vec<Option<TracedTensor>>, TraceStop> {
        let on = self.on;
        let depends = self.depends()?;
        let mut gradients: Table<TraceValue, Option<TracedTensor>> = Table::with(self.values.len(), || None);
        gradients.set(y, Some(seed))?;
        for step in self.recorded.steps.entries().rev() {
            let mut of_results: Vec<Option<TracedTensor>> = Vec::with_capacity(step.outputs.len());
            for output in &step.outputs {
                // An integer result has a zero derivative, so its gradient is dropped.
                let slopes = self.recorded.values.get(*output)?.dtype.is_float();
                of_results.push(gradients.get(*output)?.clone().filter(|_| slopes));
            }
            let mut needs: Vec<bool> = Vec::with_capacity(step.inputs.len());
            for value in step.reads() {
                needs.push(*depends.get(value)?);
            }
            if !needs.contains(&true) || of_results.iter().all(Option::is_none) {
                continue;
            }
            let of_operands = self.of_step(step, &needs, &of_results)?;
            for ((value, needed), gradient) in step.reads().zip(needs).zip(of_operands) {
                let Some(gradient) = gradient.filter(|_| needed) else { continue };
                let slot = gradients.get_mut(value)?;
                *slot = Some(match slot.take() {
                    Some(sum) => on.add(&sum, &gradient)?,
                    None => gradient,
                });
            }
        }
        let mut found: Vec<Option<TracedTensor>> = vec![None; count];
        for (value, info) in self.recorded.values.iter() {
            if let ValueSource::Input(index) = info.source
                && let Some(place) = found.get_mut(index.position())
                && *depends.get(value)?
            {
                *place = gradients.get(value)?.clone();
            }
        }
        Ok(found)
    }

    /// Computes the gradients of a step's operands from the gradients of its results.
    fn of_step(
        &self,
        step: &Step,
        needs: &[bool],
        by_results: &[Option<TracedTensor>],
    ) -> Result<rules::Gradients, TraceStop> {
        let operands = step.reads().map(|value| self.value(value)).collect::<Result<Vec<_>, _>>()?;
        let results = step.outputs.iter().map(|v| self.value(*v)).collect::<Result<Vec<_>, _>>()?;
        let at = rules::At {
            on: self.on,
            operands: &operands,
            results: &results,
            params: &step.params,
            by_results,
            needs,
        };
        match step.operation {
            Operation::Row(spec) => families::rule(&at, spec),
            Operation::Host(body) => {
                let reason = "the host computes it";
                Err(Error::NotDifferentiable { op: body.name, reason }.into())
            }
        }
    }
}
