//! Gradients of functions over any backend, in reverse mode on a trace.
//!
//! A function is traced at the operands. The steps run, and then their rules run backwards, on any backend; on a [`Tracer`] they are
//! recorded, so that a gradient becomes part of a model, and has a gradient itself. There are rules for the primitives (`rules.rs`) and for
//! some operations of families (`families.rs`), whose bodies would lose digits, compute NaN where the function does not, or run on the
//! host. All other operations are differentiated through their bodies.
//!
//! Where a function has no derivative, the rules choose one: `bb/docs/training.md` lists the choices.

mod derivatives;
mod families;
mod rules;
mod shapes;

use crate::ext::Ops;
use crate::trace::{
    InputIndex, Liveness, Operation, Step, Table, TableIndex, Trace, TraceStop, TraceValue, TracedTensor,
    Tracer, ValueSource, Varies, held,
};
use crate::{Error, Tensor};
use bb_ir::{DataType, Shape};

/// The result of [`gradient`].
#[derive(Debug, Clone)]
pub struct Gradient<T> {
    /// The result of the function.
    pub value: T,
    /// The gradient by each input that was named, with the element type and the shape of that input.
    pub gradients: Vec<T>,
}

/// Computes a function and its gradient by some of its inputs.
///
/// `function` is any Rust code over a backend, as [`bb::trace`](crate::trace()) takes it; it returns one number, such as
/// a loss. `by` has the positions of the inputs to differentiate by. On a backend this computes. Inside a trace
/// ([`ModelTrace`](crate::export::ModelTrace)) it records the operations of the function and of its gradient, which makes a
/// model that any backend compiles once. Inside the function of another `gradient` it gives second derivatives.
///
/// An input that the function does not depend on, or depends on only through comparisons, roundings and integers, has a gradient of zeros.
///
/// Shapes: the function's result has one element. Types: the result and the inputs to differentiate by are floats.
///
/// # Errors
///
/// [`Error::NotDifferentiable`] for an operation without a derivative, which it names; [`Error::NotScalar`] if the
/// function returns more than a number; [`Error::GradientBy`] for an input that is not there or is no float; the function's own.
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

/// Does the same for a function whose result is a tensor: the gradient of the sum of the products of its elements and the elements of
/// `seed`.
///
/// Shapes: `seed` has the shape of the function's result, and its element type.
///
/// # Errors
///
/// As [`gradient`]; [`bb_ir::Error::Shapes`] and [`bb_ir::Error::DataType`] for a seed that is unlike the result.
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
        let zeros = |x: &&B::Tensor| on.zeros(x.shape(), x.dtype());
        gradients.push(match (found.get(index), inputs.get(index)) {
            (Some(Some(gradient)), _) => gradient.clone(),
            (_, Some(x)) => zeros(x)?,
            _ => return Err(Error::GradientBy { index, count: inputs.len(), dtype: None }.into()),
        });
    }
    Ok(Gradient { value, gradients })
}

/// A value, and its gradient by each of the inputs that it was differentiated by; `None` for all others, and where it does not depend on one.
type Differentiated<T> = (T, Vec<Option<T>>);

/// Computes a function, and its gradient by the inputs that are `wanted`. Without a seed, the seed is ones.
pub fn differentiate<B: Ops + ?Sized>(
    on: &B,
    inputs: &[&B::Tensor],
    wanted: &[bool],
    seed: Option<&B::Tensor>,
    function: impl FnOnce(&Tracer, &[TracedTensor]) -> Result<TracedTensor, TraceStop>,
) -> Result<Differentiated<B::Tensor>, B::Error> {
    let tracer = Tracer::new(families::with_rules(), bb_ir::Limits::default().value_bytes);
    let traced: Vec<TracedTensor> = inputs
        .iter()
        .enumerate()
        .map(|(at, x)| tracer.input(InputIndex::at(at), "", x.dtype(), x.shape(), &Varies::Nothing, None))
        .collect();
    let y = function(&tracer, &traced).map_err(Error::from)?.value();
    let mut tape = Tape { on, wanted, recorded: tracer.finish(vec![y]), values: Table::default() };
    tape.run(inputs)?;
    let value = tape.value(y)?.clone();
    let seed = match seed {
        Some(seed) if seed.dtype() != value.dtype() => {
            let (expected, got) = (value.dtype(), seed.dtype());
            return crate::ext::fail::<B, _>(bb_ir::Error::DataType { expected, got });
        }
        Some(seed) if seed.shape() != value.shape() => {
            let (left, right) = (value.shape().into(), seed.shape().into());
            return crate::ext::fail::<B, _>(bb_ir::Error::Shapes { op: "gradient", left, right });
        }
        Some(seed) => seed.clone(),
        None => on.ones(value.shape(), value.dtype())?,
    };
    let gradients = tape.backwards(y, seed, inputs.len())?;
    Ok((value, gradients))
}

/// A trace of the function, and the tensors of its values.
struct Tape<'a, B: Ops + ?Sized> {
    on: &'a B,
    /// The inputs to differentiate by.
    wanted: &'a [bool],
    recorded: Trace,
    values: Table<TraceValue, Option<B::Tensor>>,
}

impl<B: Ops + ?Sized> Tape<'_, B> {
    fn value(&self, value: TraceValue) -> Result<&B::Tensor, Error> {
        held(self.values.get(value)?.as_ref(), value)
    }

    /// Runs the steps that the result needs.
    fn run(&mut self, inputs: &[&B::Tensor]) -> Result<(), B::Error> {
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
            let mut operands: Vec<Option<&B::Tensor>> = Vec::with_capacity(step.inputs.len());
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

    /// Finds the values that depend on the inputs to differentiate by, and have derivatives by them.
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

    /// Returns the gradients of `y` times `seed` by each of `count` inputs.
    fn backwards(
        &self,
        y: TraceValue,
        seed: B::Tensor,
        count: usize,
    ) -> Result<Vec<Option<B::Tensor>>, B::Error> {
        let on = self.on;
        let depends = self.depends()?;
        let mut gradients: Table<TraceValue, Option<B::Tensor>> = Table::with(self.values.len(), || None);
        gradients.set(y, Some(seed))?;
        for step in self.recorded.steps.entries().rev() {
            let mut of_results: Vec<Option<B::Tensor>> = Vec::with_capacity(step.outputs.len());
            for output in &step.outputs {
                // An integer has no slope, whatever is multiplied with it.
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
        let mut found: Vec<Option<B::Tensor>> = vec![None; count];
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

    /// Returns the gradients of a step's operands, given the gradients of its results.
    fn of_step(
        &self,
        step: &Step,
        needs: &[bool],
        by_results: &[Option<B::Tensor>],
    ) -> Result<rules::Gradients<B>, B::Error> {
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
