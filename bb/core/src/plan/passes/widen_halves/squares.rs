//! Finds the steps of normalisations in models of half floats, and computes them in `f32`: from the squares to the quotient by
//! the root of their sum.
//!
//! ```text
//! d = x - reduce_mean(x)      square = d * d, or d to the power of 2      (or without the mean: d = x)
//! root = sqrt(reduce_mean(square) + epsilon), or the sum, or to the power of a half or of minus a half
//! y = d / root, or d * (1 / root), then scaled and shifted by constants
//! ```
//!
//! The square of an `f16` overflows from 256 on, and a sum of squares even sooner, although the quotient fits. The steps stay,
//! but compute in `f32`. Their inputs are converted, which is exact, and results that other steps read are rounded once. If the
//! whole normalisation is a native operation of the backend, `normalise-rows` has replaced it before this pass.

use super::{cast, cast_as, is_half};
use crate::ext::ScalarOp;
use crate::plan::passes::PassOptions;
use crate::plan::passes::quantised::{insert, like};
use crate::plan::passes::view::View;
use crate::trace::{NewStep, Operation, Phase, Step, StepId, Table, Trace, TraceValue, Uses};
use crate::{DataType, Error, Primitive};
use bb_ir::op::Family;
use std::collections::{BTreeSet, HashMap};

/// The maximum number of steps between a root and the sum of squares. Exporters need three.
const DEPTH: usize = 12;

pub(super) fn run(trace: &mut Trace, options: PassOptions<'_>) -> Result<usize, Error> {
    let mut roots = Vec::new();
    for (id, step) in trace.steps.iter() {
        let is_root = matches!(step.operation.primitive(), Some(Primitive::Sqrt | Primitive::Pow));
        if let (true, &[result]) = (is_root, step.outputs.as_slice())
            && is_half(trace, result)?
        {
            roots.push(id);
        }
    }
    if roots.is_empty() {
        return Ok(0);
    }
    let (uses, constant) = (trace.uses()?, trace.constant_values()?);
    let mut matching =
        SquareMatch { view: View { trace, uses: &uses, options }, constant, steps: BTreeSet::new() };
    for root in roots {
        matching.root(root)?;
    }
    let steps = matching.steps;
    widen(trace, &uses, &steps)
}

/// The state of a match.
struct SquareMatch<'t> {
    view: View<'t>,
    /// The values that are known before a run.
    constant: Table<TraceValue, bool>,
    /// The steps that will compute in `f32`.
    steps: BTreeSet<StepId>,
}

impl<'t> SquareMatch<'t> {
    /// Matches the steps around a step that may take a root.
    fn root(&mut self, id: StepId) -> Result<(), Error> {
        let step = self.view.trace.steps.get(id)?;
        let (&[Some(of), ref power @ ..], &[result]) = (step.inputs.as_slice(), step.outputs.as_slice())
        else {
            return Ok(());
        };
        let power = match *power {
            [] => Some(0.5),
            [Some(power)] => self.view.number(power)?,
            _ => None,
        };
        let inverse = match power {
            Some(0.5) => false,
            Some(-0.5) => true,
            _ => return Ok(()),
        };
        let mut steps = vec![id];
        if step.phase == Phase::EachRun && self.sum_of_squares(of, &mut steps)? {
            self.steps.extend(steps);
            self.quotients(result, inverse)?;
        }
        Ok(())
    }

    /// Returns the step that computes a half float, if it runs in each run.
    fn making(&self, value: TraceValue) -> Result<Option<(StepId, &'t Step)>, Error> {
        let is_half = is_half(self.view.trace, value)?;
        Ok(self.view.maker(value)?.filter(|(_, step)| step.phase == Phase::EachRun && is_half))
    }

    fn is_constant(&self, value: TraceValue) -> Result<bool, Error> {
        self.constant.get(value).copied()
    }

    /// Returns the operand of a step that only moves elements or combines them with constants.
    fn carried(&self, step: &Step) -> Result<Option<TraceValue>, Error> {
        use Primitive::{Add, Div, Mul, Reshape, Squeeze, Sub, Transpose, Unsqueeze};
        Ok(match (step.operation.primitive(), step.inputs.as_slice()) {
            (Some(Reshape | Squeeze | Unsqueeze | Transpose), &[Some(x)]) => Some(x),
            (Some(Add | Mul | Div | Sub), &[Some(a), Some(b)]) if self.is_constant(b)? => Some(a),
            (Some(Add | Mul), &[Some(a), Some(b)]) if self.is_constant(a)? => Some(b),
            (None, &[Some(a), Some(b)]) if is(step, ScalarOp::Maximum) && self.is_constant(b)? => Some(a),
            _ => None,
        })
    }

    /// Matches a sum or a mean of squares, possibly scaled and shifted by constants.
    fn sum_of_squares(&self, value: TraceValue, steps: &mut Vec<StepId>) -> Result<bool, Error> {
        let mut value = value;
        for _ in 0..DEPTH {
            let Some((id, step)) = self.making(value)? else { return Ok(false) };
            steps.push(id);
            value = match (step.operation.primitive(), step.inputs.as_slice()) {
                (Some(Primitive::ReduceMean | Primitive::ReduceSum), &[Some(square)]) => {
                    return self.square(square, steps);
                }
                // Operations like ReduceSumSquare already compute in `f32` and cast the sum back.
                (Some(Primitive::Cast), &[Some(wide)]) => return self.is_sum(wide),
                _ => match self.carried(step)? {
                    Some(operand) => operand,
                    None => return Ok(false),
                },
            };
        }
        Ok(false)
    }

    /// Returns whether a value is a sum or a mean in `f32`.
    fn is_sum(&self, value: TraceValue) -> Result<bool, Error> {
        let Some((_, step)) = self.view.maker(value)? else { return Ok(false) };
        let sums = matches!(step.operation.primitive(), Some(Primitive::ReduceSum | Primitive::ReduceMean));
        Ok(sums && self.view.trace.values.get(value)?.dtype == DataType::F32)
    }

    /// Matches a square, and also the difference from a mean if the difference is squared.
    fn square(&self, value: TraceValue, steps: &mut Vec<StepId>) -> Result<bool, Error> {
        let Some((id, step)) = self.making(value)? else { return Ok(false) };
        let &[Some(a), Some(b)] = step.inputs.as_slice() else { return Ok(false) };
        let squares = match step.operation.primitive() {
            Some(Primitive::Mul) => a == b,
            Some(Primitive::Pow) => self.view.number(b)? == Some(2.0),
            _ => false,
        };
        if squares {
            steps.push(id);
            let known = steps.len();
            if !self.distance(a, steps)? {
                steps.truncate(known);
            }
        }
        Ok(squares)
    }

    /// Matches a difference from a mean.
    fn distance(&self, value: TraceValue, steps: &mut Vec<StepId>) -> Result<bool, Error> {
        let Some((id, step)) = self.making(value)? else { return Ok(false) };
        let (Some(Primitive::Sub), &[Some(_), Some(mut mean)]) =
            (step.operation.primitive(), step.inputs.as_slice())
        else {
            return Ok(false);
        };
        steps.push(id);
        for _ in 0..DEPTH {
            let Some((id, step)) = self.making(mean)? else { return Ok(false) };
            steps.push(id);
            if let Some(Primitive::ReduceMean | Primitive::ReduceSum) = step.operation.primitive() {
                return Ok(true);
            }
            let Some(operand) = self.carried(step)? else { return Ok(false) };
            mean = operand;
        }
        Ok(false)
    }

    /// Adds the steps from a root, or from its inverse, up to the quotients.
    fn quotients(&mut self, root: TraceValue, inverse: bool) -> Result<(), Error> {
        let mut roots = vec![(root, inverse)];
        while let Some((root, inverse)) = roots.pop() {
            for &reader in self.view.uses.readers(root)? {
                let step = self.view.trace.steps.get(reader)?;
                let &[result] = step.outputs.as_slice() else { continue };
                if step.phase != Phase::EachRun
                    || self.steps.contains(&reader)
                    || !is_half(self.view.trace, result)?
                {
                    continue;
                }
                let quotient = match (step.operation.primitive(), step.inputs.as_slice()) {
                    (None, &[Some(_)]) if is(step, ScalarOp::Reciprocal) => Some((None, !inverse)),
                    (Some(Primitive::Div), &[Some(a), Some(b)]) if b == root && a != root && !inverse => {
                        Some(if self.is_constant(a)? { (None, true) } else { (Some(a), inverse) })
                    }
                    (Some(Primitive::Mul), &[Some(a), Some(b)]) if inverse && a != b => {
                        let other = if a == root { b } else { a };
                        Some(if self.is_constant(other)? { (None, true) } else { (Some(other), inverse) })
                    }
                    _ => (self.carried(step)? == Some(root)).then_some((None, inverse)),
                };
                let Some((dividend, inverse)) = quotient else { continue };
                self.steps.insert(reader);
                match dividend {
                    None => roots.push((result, inverse)),
                    Some(dividend) => {
                        self.dividend(dividend)?;
                        self.scaled(result)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds the second difference from the mean, because PyTorch subtracts the mean once for the variance and once more for the
    /// quotient.
    fn dividend(&mut self, value: TraceValue) -> Result<(), Error> {
        let Some((id, step)) = self.making(value)? else { return Ok(()) };
        if let (Some(Primitive::Sub), &[Some(_), Some(mean)]) =
            (step.operation.primitive(), step.inputs.as_slice())
            && self.view.uses.maker(mean)?.is_some_and(|maker| self.steps.contains(&maker))
        {
            self.steps.insert(id);
        }
        Ok(())
    }

    /// Adds the steps that scale or shift a quotient by constants, as long as each of them is the only reader of its operand.
    fn scaled(&mut self, value: TraceValue) -> Result<(), Error> {
        let mut value = value;
        while let Some(reader) = self.view.uses.only_reader(value)? {
            let step = self.view.trace.steps.get(reader)?;
            let arithmetic =
                matches!(step.operation.primitive(), Some(Primitive::Add | Primitive::Mul | Primitive::Sub));
            let (&[result], true) = (step.outputs.as_slice(), arithmetic && step.phase == Phase::EachRun)
            else {
                break;
            };
            if self.carried(step)? != Some(value) || !self.steps.insert(reader) {
                break;
            }
            value = result;
        }
        Ok(())
    }
}

/// Returns whether a step calls an operation of the family `Scalar`.
fn is(step: &Step, op: ScalarOp) -> bool {
    let spec = op.spec();
    matches!(step.operation, Operation::Row(own) if own.family == Family::Scalar && own.index == spec.index)
}

/// Computes these steps in `f32`. Results that only these steps read are not rounded.
fn widen(trace: &mut Trace, uses: &Uses, steps: &BTreeSet<StepId>) -> Result<usize, Error> {
    let mut edit = trace.edit();
    let mut wide: HashMap<TraceValue, TraceValue> = HashMap::new();
    for &id in steps {
        let step = edit.trace().steps.get(id)?.clone();
        let &[result] = step.outputs.as_slice() else {
            return Err(Error::excluded("a step of halves to have one result"));
        };
        let mut operands = step.inputs.clone();
        for operand in operands.iter_mut().flatten() {
            if is_half(edit.trace(), *operand)? {
                *operand = match wide.get(operand) {
                    Some(known) => *known,
                    None => {
                        let made = cast(&mut edit, id, *operand, DataType::F32)?;
                        wide.insert(*operand, made);
                        made
                    }
                };
            }
        }
        let made = match (step.operation.primitive(), operands.as_slice()) {
            (Some(Primitive::Cast), &[Some(operand)]) => operand,
            _ => {
                let info = like(edit.trace(), result, DataType::F32)?;
                insert(&mut edit, id, NewStep::like(&step, operands), info)?
            }
        };
        wide.insert(result, made);
        let inside = uses.readers(result)?.iter().all(|reader| steps.contains(reader));
        if !inside || uses.is_returned(result)? {
            let dtype = edit.trace().values.get(result)?.dtype;
            let rounded = cast_as(&mut edit, id, made, dtype, result)?;
            edit.replace(result, rounded)?;
        }
        edit.remove(id)?;
    }
    edit.finish()?;
    Ok(steps.len())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::Backend;
    use crate::ext::Create;
    use bb_ir::op::RoundMode;
    use crate::plan::passes::samples::traced;
    use crate::trace::{TraceStop, TracedTensor, Tracer};

    type Traced = Result<TracedTensor, TraceStop>;

    fn half(on: &Tracer, x: &TracedTensor) -> Traced {
        on.cast(x, DataType::F16, true, RoundMode::Up)
    }

    /// Runs the pass on a function of a half float, and returns the steps with the types of their results.
    fn steps(function: impl FnOnce(&Tracer, &TracedTensor) -> Result<Vec<TracedTensor>, TraceStop>) -> String {
        let mut trace = traced(&[&[2, 8]], |on, xs| function(on, &half(on, &xs[0])?));
        run(&mut trace, PassOptions::INTERPRETED).unwrap();
        trace.check().unwrap();
        let name = |step: &Step| {
            let dtype = trace.values.get(step.outputs[0]).unwrap().dtype;
            format!("{}:{dtype}", step.operation.name())
        };
        trace.steps.entries().map(name).collect::<Vec<_>>().join(" ")
    }

    fn root(on: &Tracer, x: &TracedTensor) -> Traced {
        let square = on.mul(x, x)?;
        on.sqrt(&on.add(&on.reduce_mean(&square, &[-1], true)?, &on.scalar_like(x, 1e-5)?)?)
    }

    #[test]
    fn squares_and_what_follows_are_of_f32() {
        let found = steps(|on, x| Ok(vec![on.div(x, &root(on, x)?)?]));
        let expected = "cast:f16 cast:f32 mul:f32 reduce_mean:f32 cast:f32 add:f32 sqrt:f32 div:f32 cast:f16";
        assert_eq!(found, expected);
    }

    #[test]
    fn what_others_read_is_rounded() {
        let found = steps(|on, x| {
            let root = root(on, x)?;
            Ok(vec![on.div(x, &root)?, on.neg(&root)?])
        });
        assert!(found.contains("sqrt:f32 cast:f16"), "{found}");
        assert!(found.ends_with("neg:f16"), "{found}");
    }

    #[test]
    fn roots_of_other_things_stay() {
        let found = steps(|on, x| Ok(vec![on.div(x, &on.sqrt(&on.abs(x)?)?)?]));
        assert_eq!(found, "cast:f16 abs:f16 sqrt:f16 div:f16");
        let found = steps(|on, x| Ok(vec![on.sqrt(&on.reduce_sum(x, &[], true)?)?]));
        assert_eq!(found, "cast:f16 reduce_sum:f16 sqrt:f16");
    }
}
