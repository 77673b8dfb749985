//! Compares a pattern with the steps of a trace.
//!
//! A match maps values of the pattern to values of the trace. Steps match if they call the same operation and their operands
//! match. The operands of a commutative operation match in either order. If there are several ways to match, they are tried one
//! after another, until the caller accepts a match.

use super::pattern::{Choice, Pattern};
use super::quantised::calls;
use super::view::View;
use crate::ext::ScalarOp;
use crate::trace::{InputIndex, Operation, Phase, Step, StepId, TableIndex, TraceValue, ValueSource};
use crate::{DataType, Error, Primitive, TensorData};
use bb_ir::convert::{Rounding, cast};
use bb_ir::op::OpSpec;
use smallvec::{SmallVec, smallvec};

/// The maximum number of steps that multiply or divide one scaled value.
const MOST_FACTORS: usize = 4;

/// The maximum number of choices that are tried per value of the trace.
const MOST_TRIES: usize = 4096;

/// How strictly steps are compared.
#[derive(Clone, Copy)]
pub(super) enum Compare<'p> {
    /// By operations and numbers. The marker number of a slot matches any float. Element types, extents and parameters are
    /// ignored.
    Form(&'p [Option<f64>]),
    /// By operations, numbers, element types, extents and parameters.
    Exact,
}

/// A value of the pattern and the value of the trace that it must match.
type Goal = (TraceValue, TraceValue);
type Goals = SmallVec<[Goal; 8]>;

/// A way to match two values.
#[derive(Default)]
struct Way {
    /// The values that must match too. The last goal is matched first.
    goals: SmallVec<[Goal; 4]>,
    steps: SmallVec<[StepId; 1]>,
    /// The slot of a number, and the number in the trace.
    number: Option<(usize, f64)>,
}

type Ways = SmallVec<[Way; 2]>;

/// The state of a comparison between a pattern and a trace.
pub(super) struct Matching<'t> {
    pub(super) view: View<'t>,
    /// The value that the result of the pattern matches.
    pub(super) result: TraceValue,
    /// The matched steps, in any order. A step may occur several times.
    pub(super) steps: Vec<StepId>,
    pattern: &'t Pattern,
    compare: Compare<'t>,
    /// The pairs of values that match so far.
    bound: Vec<Goal>,
    numbers: Vec<(usize, f64)>,
    /// The number of choices that may still be tried.
    tries: usize,
}

impl<'t> Matching<'t> {
    pub(super) fn new(
        view: View<'t>,
        pattern: &'t Pattern,
        compare: Compare<'t>,
        result: TraceValue,
    ) -> Matching<'t> {
        let (steps, bound, numbers) = (Vec::new(), Vec::new(), Vec::new());
        Matching { view, result, steps, pattern, compare, bound, numbers, tries: MOST_TRIES }
    }

    /// Returns the first match, if there is one.
    pub(super) fn first(mut self) -> Result<Option<Matching<'t>>, Error> {
        let found = self.find(&mut |_| Ok(true))?;
        Ok(found.then_some(self))
    }

    /// Searches for a match that `accept` accepts, and returns whether there is one.
    pub(super) fn find(
        &mut self,
        accept: &mut dyn FnMut(&Matching<'t>) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        self.solve(smallvec![(self.pattern.result, self.result)], accept)
    }

    /// Returns the value that an operand of the pattern matches; `None` if the match does not include the operand.
    pub(super) fn operand(&self, index: usize) -> Option<TraceValue> {
        let source = ValueSource::Input(InputIndex::at(index));
        let is_it = |own| self.pattern.recorded.values.get(own).is_ok_and(|info| info.source == source);
        self.bound.iter().find(|(own, _)| is_it(*own)).map(|(_, other)| *other)
    }

    /// Returns the values that the operands of the pattern match.
    pub(super) fn operands<const N: usize>(&self) -> [Option<TraceValue>; N] {
        std::array::from_fn(|index| self.operand(index))
    }

    /// Returns whether a matched step computes a value that an operand of the pattern matches.
    pub(super) fn reads_itself(&self) -> Result<bool, Error> {
        for &(own, other) in &self.bound {
            let is_operand = matches!(self.pattern.recorded.values.get(own)?.source, ValueSource::Input(_));
            if is_operand && self.view.uses.maker(other)?.is_some_and(|maker| self.steps.contains(&maker)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the product of the factors of a slot.
    pub(super) fn factor(&self, slot: usize) -> f64 {
        self.numbers.iter().filter(|(own, _)| *own == slot).map(|(_, number)| number).product()
    }

    /// Returns the number that the marker number of a slot matches.
    pub(super) fn number(&self, slot: usize) -> Option<f64> {
        self.numbers.iter().find(|(own, _)| *own == slot).map(|(_, number)| *number)
    }

    /// Returns the matched steps that call an operation. A step may occur several times.
    pub(super) fn calling(&self, spec: &OpSpec) -> impl Iterator<Item = &'t Step> {
        let step = move |id: &StepId| self.view.trace.steps.get(*id).ok();
        self.steps.iter().filter_map(step).filter(move |step| calls(step, spec))
    }

    fn solve(
        &mut self,
        mut goals: Goals,
        accept: &mut dyn FnMut(&Matching<'t>) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        while let Some((own, other)) = goals.pop() {
            if let Some((_, before)) = self.bound.iter().find(|(value, _)| *value == own) {
                if *before != other {
                    return Ok(false);
                }
                continue;
            }
            self.bound.push((own, other));
            let mut ways = self.ways(own, other)?;
            if ways.len() > 1 {
                return self.choose(ways, &goals, accept);
            }
            let Some(way) = ways.pop() else { return Ok(false) };
            self.take(way, &mut goals);
        }
        accept(self)
    }

    /// Tries the ways in order, until one of them leads to a match.
    fn choose(
        &mut self,
        ways: Ways,
        goals: &Goals,
        accept: &mut dyn FnMut(&Matching<'t>) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        let known = (self.bound.len(), self.steps.len(), self.numbers.len());
        for way in ways {
            let Some(left) = self.tries.checked_sub(1) else { return Ok(false) };
            self.tries = left;
            let mut goals = goals.clone();
            self.take(way, &mut goals);
            if self.solve(goals, accept)? {
                return Ok(true);
            }
            self.bound.truncate(known.0);
            self.steps.truncate(known.1);
            self.numbers.truncate(known.2);
        }
        Ok(false)
    }

    fn take(&mut self, way: Way, goals: &mut Goals) {
        goals.extend(way.goals);
        self.steps.extend(way.steps);
        self.numbers.extend(way.number);
    }

    /// Returns the ways to match two values; an empty list if they cannot match.
    fn ways(&self, own: TraceValue, other: TraceValue) -> Result<Ways, Error> {
        match self.pattern.choices.get(&own) {
            Some(Choice::Either(values)) => {
                let way = |value: &TraceValue| Way { goals: smallvec![(*value, other)], ..Way::default() };
                return Ok(values.iter().map(way).collect());
            }
            Some(&Choice::Scaled(slot, x)) => return self.unscaled(slot, x, other),
            None => {}
        }
        let exact = matches!(self.compare, Compare::Exact);
        let (own_info, other_info) =
            (self.pattern.recorded.values.get(own)?, self.view.trace.values.get(other)?);
        if exact && own_info.dtype != other_info.dtype {
            return Ok(Ways::new());
        }
        Ok(match own_info.source {
            ValueSource::Input(_) => smallvec![Way::default()],
            ValueSource::Constant(index) => match self.view.data(other)? {
                Some(found) => {
                    let constant = self.pattern.recorded.constants.get(index)?;
                    self.constant(constant, found)?.into_iter().collect()
                }
                None => Ways::new(),
            },
            ValueSource::Weight(_) => Ways::new(),
            // The result of a step must have the same shape as in the pattern.
            ValueSource::Step if exact && own_info.shape != other_info.shape => Ways::new(),
            ValueSource::Step => self.made(own, other)?,
        })
    }

    /// Returns the ways to match a scaled value, each with a different number of factors, in decreasing order.
    fn unscaled(&self, slot: usize, x: TraceValue, other: TraceValue) -> Result<Ways, Error> {
        let mut ways: Ways = smallvec![Way { goals: smallvec![(x, other)], ..Way::default() }];
        let (mut value, mut steps, mut product) = (other, SmallVec::new(), 1.0);
        while steps.len() < MOST_FACTORS
            && let Some((maker, step)) = self.view.maker(value)?
            && let Some((of, factor)) = self.view.with_factor(step)?
        {
            steps.push(maker);
            (value, product) = (of, product * factor);
            let goals = smallvec![(x, value)];
            ways.push(Way { goals, steps: steps.clone(), number: Some((slot, product)) });
        }
        ways.reverse();
        Ok(ways)
    }

    /// Compares constants by type, shape and elements. The ranks of two single elements may differ. In a loose comparison,
    /// their types may differ too, and a marker matches any float.
    fn constant(&self, own: &TensorData, other: &TensorData) -> Result<Option<Way>, Error> {
        let single = own.len() == 1 && other.len() == 1;
        let same = own.dtype() == other.dtype()
            && (single || own.shape() == other.shape())
            && own.bytes()? == other.bytes()?;
        let (Compare::Form(markers), true, Some(number), Some(found)) =
            (self.compare, single, float(own), float(other))
        else {
            return Ok(same.then(Way::default));
        };
        for (slot, marker) in markers.iter().enumerate() {
            let Some(marker) = marker else { continue };
            let stands = cast(&TensorData::new(&[], &[*marker])?, own.dtype(), Rounding::default());
            if stands.is_ok_and(|stands| float(&stands) == Some(number)) {
                let agrees = self.number(slot).is_none_or(|before| before.to_bits() == found.to_bits());
                return Ok(agrees.then(|| Way { number: Some((slot, found)), ..Way::default() }));
            }
        }
        Ok((same || number == found).then(Way::default))
    }

    /// Matches the step that computes `other` with the pattern's step that computes `own`. Returns the ways to match their operands; the
    /// list is empty if the steps do not match.
    fn made(&self, own: TraceValue, other: TraceValue) -> Result<Ways, Error> {
        let (Some(own_id), Some((id, step))) = (self.pattern.uses.maker(own)?, self.view.maker(other)?)
        else {
            return Ok(Ways::new());
        };
        let own_step = self.pattern.recorded.steps.get(own_id)?;
        let (Operation::Row(own_spec), Operation::Row(spec)) = (own_step.operation, step.operation) else {
            return Ok(Ways::new());
        };
        let place = |step: &Step, value| step.outputs.iter().position(|made| *made == value);
        let alike = own_spec == spec
            && place(own_step, own) == place(step, other)
            && own_step.inputs.len() == step.inputs.len()
            && step.phase == Phase::EachRun
            && own_step.symbolic.is_none()
            && step.symbolic.is_none()
            && (matches!(self.compare, Compare::Form(_)) || own_step.params == step.params);
        if !alike {
            return Ok(Ways::new());
        }
        let goals = |turned: bool| {
            let mut goals = SmallVec::new();
            for (at, own) in own_step.inputs.iter().enumerate().rev() {
                let at = if turned { own_step.inputs.len() - 1 - at } else { at };
                match (own, step.inputs.get(at)?) {
                    (Some(own), Some(other)) => goals.push((*own, *other)),
                    (None, None) => {}
                    _ => return None,
                }
            }
            Some(Way { goals, steps: smallvec![id], number: None })
        };
        let differ = |step: &Step| step.inputs.first() != step.inputs.last();
        let turns = is_commutative(spec) && differ(own_step) && differ(step);
        let turned = turns.then(|| goals(true)).flatten();
        Ok(goals(false).into_iter().chain(turned).collect())
    }
}

/// Returns the element of a float tensor of one element.
fn float(x: &TensorData) -> Option<f64> {
    let wide = x.dtype().is_float().then(|| cast(x, DataType::F64, Rounding::default()).ok())??;
    wide.as_slice::<f64>().ok()?.first().copied()
}

/// Returns whether an operation of two operands gives bit-identical results in either order.
fn is_commutative(spec: &OpSpec) -> bool {
    let primitives = [Primitive::Add, Primitive::Mul, Primitive::Equal].map(Primitive::spec);
    let scalars = [ScalarOp::And, ScalarOp::Or, ScalarOp::Xor].map(ScalarOp::spec);
    primitives.into_iter().chain(scalars).any(|own| own == spec)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::Backend;
    use crate::ext::Create;
    use crate::plan::passes::PassOptions;
    use crate::plan::passes::pattern::Recorder;
    use crate::plan::passes::samples::traced;
    use crate::trace::{TraceStop, TracedTensor, Tracer};

    type Traced = Result<TracedTensor, TraceStop>;

    fn pattern(function: impl FnOnce(&Recorder, &TracedTensor, &TracedTensor) -> Traced) -> Pattern {
        Pattern::of([DataType::F32; 2], |on, [a, b]| function(on, &a, &b)).unwrap()
    }

    /// Returns the values that the operands match, the product of the factors, and the number of steps.
    fn matched(
        pattern: &Pattern,
        model: impl FnOnce(&Tracer, &[TracedTensor]) -> Traced,
    ) -> Option<([Option<usize>; 2], f64, usize)> {
        let trace = traced(&[&[2, 3], &[2, 3]], |on, xs| Ok(vec![model(on, xs)?]));
        let uses = trace.uses().unwrap();
        let view = View { trace: &trace, uses: &uses, options: PassOptions::INTERPRETED };
        let found = Matching::new(view, pattern, Compare::Form(&[]), trace.outputs[0]).first().unwrap()?;
        let mut steps = found.steps.clone();
        steps.sort_unstable();
        steps.dedup();
        Some((found.operands().map(|value| value.map(TraceValue::position)), found.factor(0), steps.len()))
    }

    fn times(on: &Tracer, x: &TracedTensor, number: f64) -> Traced {
        on.mul(x, &on.scalar_like(x, number)?)
    }

    #[test]
    fn an_order_of_operands_that_fails_later_is_given_up() {
        let pattern = pattern(|on, a, b| on.mul(&on.add(a, b)?, &on.exp(b)?));
        let found = matched(&pattern, |on, xs| on.mul(&on.add(&xs[0], &xs[1])?, &on.exp(&xs[0])?));
        assert_eq!(found, Some(([Some(1), Some(0)], 1.0, 3)));
        let found = matched(&pattern, |on, xs| on.mul(&on.exp(&xs[1])?, &on.add(&xs[0], &xs[1])?));
        assert_eq!(found, Some(([Some(0), Some(1)], 1.0, 3)));
        let found = matched(&pattern, |on, xs| on.mul(&on.add(&xs[0], &xs[0])?, &on.exp(&xs[1])?));
        assert_eq!(found, None);
    }

    #[test]
    fn a_scaled_value_may_have_factors() {
        let pattern = pattern(|on, a, _| on.exp(&on.scaled(0, a)));
        assert_eq!(matched(&pattern, |on, xs| on.exp(&xs[0])), Some(([Some(0), None], 1.0, 1)));
        let found = matched(&pattern, |on, xs| {
            let half = times(on, &xs[0], 0.5)?;
            on.exp(&on.div(&half, &on.scalar_like(&half, 4.0)?)?)
        });
        assert_eq!(found, Some(([Some(0), None], 0.125, 3)));
        // The number is the dividend here, so it is not a factor.
        let found = matched(&pattern, |on, xs| on.exp(&on.div(&on.scalar_like(&xs[0], 4.0)?, &xs[0])?));
        assert!(matches!(found, Some(([Some(at), None], 1.0, 1)) if at > 1), "{found:?}");
    }

    #[test]
    fn a_long_chain_of_factors_is_matched_in_part() {
        let pattern = pattern(|on, a, _| on.exp(&on.scaled(0, a)));
        let found = matched(&pattern, |on, xs| {
            let mut x = xs[0].clone();
            for _ in 0..=MOST_FACTORS {
                x = times(on, &x, 0.5)?;
            }
            on.exp(&x)
        });
        assert!(matches!(found, Some(([Some(at), None], 0.0625, 5)) if at > 1), "{found:?}");
    }

    #[test]
    fn either_value_may_match() {
        let pattern = pattern(|on, a, b| on.add(&on.either([&on.neg(a)?, &on.exp(a)?]), b));
        let found = matched(&pattern, |on, xs| on.add(&xs[0], &on.exp(&xs[1])?));
        assert_eq!(found, Some(([Some(1), Some(0)], 1.0, 2)));
        assert_eq!(matched(&pattern, |on, xs| on.add(&xs[0], &on.abs(&xs[1])?)), None);
    }

    #[test]
    fn numbers_are_compared_and_types_are_not() {
        let pattern = pattern(|on, a, _| on.pow(a, &on.scalar_like(a, 2.0)?));
        let power = |number: f64, dtype| {
            matched(&pattern, |on, xs| {
                let x = on.cast(&xs[0], dtype, true, bb_ir::op::RoundMode::Up)?;
                on.pow(&x, &on.scalar_like(&x, number)?)
            })
        };
        assert!(power(2.0, DataType::F16).is_some() && power(2.0, DataType::F64).is_some());
        assert_eq!(power(3.0, DataType::F16), None);
    }
}
