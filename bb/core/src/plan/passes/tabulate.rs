//! Replaces element-wise steps between `dequantize_linear` and `quantize_linear` by one look-up of bytes in a table, and sums
//! and products of two quantised tensors by the operations of family `Quant`.
//!
//! A byte has 256 values, so a function of one quantised tensor is a table. The same steps compute it from all bytes, once,
//! when the plan is built. If bytes are only dequantised and quantised again in the same way, both steps are removed. All
//! results are bit-identical.

use super::quantised::{
    Dequantized, Grid, Quantized, all_bytes, insert, like, list, look_up, step, zero_point,
};
use super::recognized::origins;
use super::view::View;
use super::{Pass, PassOptions};
use crate::ext::QuantOp;
use crate::plan::engine::Engine;
use crate::trace::{
    NewStep, NewValue, Operation, Phase, Step, StepId, StepOrigins, Trace, TraceEdit, TraceValue,
};
use crate::{Error, Primitive};
use bb_ir::op::{Class, Param};
use bb_ir::{TensorData, element_count};
use std::collections::{BTreeSet, HashMap};

pub(super) const PASS: Pass = Pass { name: "tabulate", engines: &[Engine::Interpreter], run };

/// The maximum number of steps between `dequantize_linear` and `quantize_linear`.
const MOST_STEPS: usize = 64;

fn run(trace: &mut Trace, options: PassOptions<'_>) -> Result<usize, Error> {
    let uses = trace.uses()?;
    let view = View { trace, uses: &uses, options };
    let mut found = Vec::new();
    for (id, step) in trace.steps.iter() {
        let Some(to) = Quantized::of(view, step)? else { continue };
        let replaced = match Function::of(view, id, &to)? {
            Some(function) => function.replaced(&to.grid, options),
            None => Pair::of(view, id, &to)?.map(Replaced::Pair),
        };
        found.extend(replaced.map(|replaced| (id, to, replaced)));
    }
    let mut count = 0;
    let mut edit = trace.edit();
    for (id, to, replaced) in found {
        count += 1;
        let result = match replaced {
            Replaced::Same(x) => x,
            Replaced::Table(function) => {
                count += function.steps.len();
                function.tabulated(&mut edit, id, &to)?
            }
            Replaced::Pair(pair) => {
                count += 1 + pair.bounding.len();
                pair.quantised(&mut edit, id, &to)?
            }
        };
        edit.replace(to.result, result)?;
        edit.remove(id)?;
    }
    edit.finish()?;
    Ok(count)
}

/// The replacement of a quantised result.
enum Replaced {
    /// The bytes that were dequantised.
    Same(TraceValue),
    Table(Function),
    Pair(Pair),
}

/// A function of the bytes of one tensor.
struct Function {
    /// The tensor of bytes. `grid` maps its bytes to the numbers that they represent.
    x: TraceValue,
    grid: Grid,
    /// For each dequantised value that the steps read, its dequantisation.
    floats: HashMap<TraceValue, Dequantized>,
    /// The constants of one element that the steps read, directly or dequantised.
    numbers: BTreeSet<TraceValue>,
    /// The steps, in order.
    steps: BTreeSet<StepId>,
}

impl Function {
    /// Walks back from the quantised value to the bytes that it is computed from. Returns `None` if it does not depend on the
    /// bytes of exactly one tensor, or if a table cannot replace a step on the way.
    fn of(view: View<'_>, id: StepId, to: &Quantized) -> Result<Option<Function>, Error> {
        let View { trace, .. } = view;
        let mut from: Option<(TraceValue, Grid)> = None;
        let (mut floats, mut numbers, mut steps) = (HashMap::new(), BTreeSet::new(), BTreeSet::new());
        let mut pending = vec![to.x];
        while let Some(value) = pending.pop() {
            if trace.values.get(value)?.source.is_constant() {
                if element_count(&trace.values.get(value)?.shape) != Some(1) {
                    return Ok(None);
                }
                numbers.insert(value);
                continue;
            }
            let Some((maker, step)) = view.maker(value)? else { return Ok(None) };
            if let Some(of) = Dequantized::of(trace, step)? {
                let info = trace.values.get(of.x)?;
                if info.source.is_constant() && element_count(&info.shape) == Some(1) {
                    numbers.insert(value);
                    continue;
                }
                let constant = info.source.is_constant();
                let Some(grid) = of.grid(view)?.filter(|_| !constant) else { return Ok(None) };
                let (x, _) = *from.get_or_insert((of.x, grid));
                if x != of.x {
                    return Ok(None);
                }
                floats.insert(value, of);
            } else if can_be_tabulated(step) {
                if steps.insert(maker) {
                    pending.extend(step.reads());
                }
                if steps.len() > MOST_STEPS {
                    return Ok(None);
                }
            } else {
                return Ok(None);
            }
        }
        let Some((x, grid)) = from else { return Ok(None) };
        let function = Function { x, grid, floats, numbers, steps };
        Ok(function.is_closed(view, id)?.then_some(function))
    }

    /// Returns whether no other step uses an intermediate result, and each result has the shape of the tensor. Constants have
    /// one element, so comparing ranks is enough.
    fn is_closed(&self, View { trace, uses, .. }: View<'_>, id: StepId) -> Result<bool, Error> {
        let rank = trace.values.get(self.x)?.shape.len();
        for &step in &self.steps {
            for &value in &trace.steps.get(step)?.outputs {
                let inside = |reader: &StepId| *reader == id || self.steps.contains(reader);
                let alone = !uses.is_returned(value)? && uses.readers(value)?.iter().all(inside);
                if !alone || trace.values.get(value)?.shape.len() > rank {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Returns the replacement of the function, if the backend supports it.
    fn replaced(self, to: &Grid, options: PassOptions<'_>) -> Option<Replaced> {
        if self.steps.is_empty() && self.grid == *to {
            return Some(Replaced::Same(self.x));
        }
        options.natives.has(QuantOp::Lookup.spec()).then_some(Replaced::Table(self))
    }

    /// Inserts the look-up and the steps that compute its table. These steps depend only on constants.
    fn tabulated(&self, edit: &mut TraceEdit<'_>, id: StepId, to: &Quantized) -> Result<TraceValue, Error> {
        let all = edit.constant(all_bytes(self.grid.dtype)?);
        let mut made: HashMap<TraceValue, TraceValue> = HashMap::new();
        for (&value, of) in &self.floats {
            let new = list(edit.trace().values.get(value)?.dtype, 256);
            made.insert(value, insert(edit, id, of.with(all), new)?);
        }
        for &number in &self.numbers {
            made.insert(number, as_number(edit, id, number)?);
        }
        let mut origins = StepOrigins::new();
        for &step in &self.steps {
            let step = edit.trace().steps.get(step)?;
            let inputs = step.inputs.iter().map(|x| x.map(|x| made.get(&x).copied().unwrap_or(x)));
            let new = NewStep::like(step, inputs);
            origins.extend(step.origins.iter().copied());
            let of_numbers = new.inputs.iter().flatten().try_fold(true, |all, &x| {
                Ok::<_, Error>(all && edit.trace().values.get(x)?.shape.is_empty())
            })?;
            let Some(&output) = step.outputs.first() else { continue };
            let dtype = edit.trace().values.get(output)?.dtype;
            let result = match of_numbers {
                true => NewValue::fixed(dtype, &[]),
                false => list(dtype, 256),
            };
            made.insert(output, insert(edit, id, new, result)?);
        }
        let quantize = edit.trace().steps.get(id)?;
        origins.extend(quantize.origins.iter().copied());
        let inputs = [Some(made.get(&to.x).copied().unwrap_or(to.x)), Some(to.scale), to.zero];
        let quantize =
            step(QuantOp::QuantizeLinear.spec(), quantize.params.clone(), inputs, quantize.origins.clone());
        let table = insert(edit, id, quantize, list(to.grid.dtype, 256))?;
        for &step in &self.steps {
            edit.remove(step)?;
        }
        look_up(edit, id, [self.x, table], origins)
    }
}

/// Returns whether a step is element-wise, does the same in all runs, and has one result.
fn can_be_tabulated(step: &Step) -> bool {
    let plain = step.phase == Phase::EachRun && step.symbolic.is_none() && step.outputs.len() == 1;
    plain && matches!(step.operation, Operation::Row(spec) if spec.class == Class::Elementwise)
}

/// Reshapes a constant of one element to rank 0, so that the table keeps its rank of 1.
fn as_number(edit: &mut TraceEdit<'_>, id: StepId, number: TraceValue) -> Result<TraceValue, Error> {
    let info = edit.trace().values.get(number)?;
    if info.shape.is_empty() {
        return Ok(number);
    }
    let result = NewValue::fixed(info.dtype, &[]);
    let origins = edit.trace().steps.get(id)?.origins.clone();
    let params = Box::new([Param::Extents(Vec::new().into())]);
    insert(edit, id, step(Primitive::Reshape.spec(), params, [Some(number)], origins), result)
}

/// A sum, a difference or a product of two quantised tensors.
struct Pair {
    operation: QuantOp,
    a: Dequantized,
    b: Dequantized,
    /// The negated scale of `b`, if `b` is subtracted.
    negated: Option<f32>,
    /// The step that adds, subtracts or multiplies. The steps in `bounding` clamp its result.
    step: StepId,
    bounding: Vec<StepId>,
    /// The table that clamps each byte, if clamping changes any byte.
    bounded: Option<TensorData>,
}

impl Pair {
    fn of(view: View<'_>, id: StepId, to: &Quantized) -> Result<Option<Pair>, Error> {
        let found = to.unbounded(view, id)?;
        let Some((maker, step)) = view.maker_for(found.x, found.reader)? else { return Ok(None) };
        let operation = match step.operation.primitive() {
            Some(Primitive::Add | Primitive::Sub) => QuantOp::QLinearAdd,
            Some(Primitive::Mul) => QuantOp::QLinearMul,
            _ => return Ok(None),
        };
        let &[Some(a), Some(b)] = step.inputs.as_slice() else { return Ok(None) };
        let [a, b] = [Dequantized::making(view, a)?, Dequantized::making(view, b)?];
        let (Some(a), Some(b)) = (a, b) else { return Ok(None) };
        for of in [&a, &b] {
            // A scale of higher rank could raise the rank of the result.
            if of.grid(view)?.is_none() || !view.trace.values.get(of.scale)?.shape.is_empty() {
                return Ok(None);
            }
        }
        let bounded = found.table(&to.grid)?;
        let natives = view.options.natives;
        let has = natives.has(operation.spec()) && (bounded.is_none() || natives.has(QuantOp::Lookup.spec()));
        let subtracts = step.operation.primitive() == Some(Primitive::Sub);
        let negated = if subtracts { view.scalar(b.scale)?.map(|scale| -scale) } else { None };
        let bounding = found.steps;
        // A pair of constants is not replaced, because its steps run once.
        let constant = view.data(a.x)?.is_some() && view.data(b.x)?.is_some();
        Ok((has && !constant).then_some(Pair { operation, a, b, negated, step: maker, bounding, bounded }))
    }

    fn quantised(&self, edit: &mut TraceEdit<'_>, id: StepId, to: &Quantized) -> Result<TraceValue, Error> {
        let Pair { a, b, .. } = self;
        let b_scale = match self.negated {
            Some(scale) => edit.constant(TensorData::scalar(scale)),
            None => b.scale,
        };
        let origins = origins(edit.trace(), &[&[self.step, id], &self.bounding[..]].concat())?;
        let a_zero = zero_point(edit, a.zero, edit.trace().values.get(a.x)?.dtype)?;
        let b_zero = zero_point(edit, b.zero, edit.trace().values.get(b.x)?.dtype)?;
        let inputs = [a.x, a.scale, a_zero, b.x, b_scale, b_zero, to.scale, to.zero(edit)?].map(Some);
        let result = like(edit.trace(), to.result, to.grid.dtype)?;
        let new = step(self.operation.spec(), Box::default(), inputs, origins.clone());
        let sum = insert(edit, id, new, result)?;
        for &step in &self.bounding {
            edit.remove(step)?;
        }
        edit.remove(self.step)?;
        match &self.bounded {
            None => Ok(sum),
            Some(table) => {
                let table = edit.constant(table.clone());
                look_up(edit, id, [sum, table], origins)
            }
        }
    }
}
