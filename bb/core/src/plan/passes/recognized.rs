//! Helpers for passes that replace steps by one operation: they find steps that match patterns, and replace them.

use super::PassOptions;
use super::matching::{Compare, Matching};
use super::pattern::Pattern;
use super::quantised::{calls, insert, step};
use super::view::View;
use crate::Error;
use crate::trace::{NewValue, StepId, StepOrigins, Trace, TraceEdit, TraceValue};
use bb_ir::op::{OpSpec, Param};
use std::collections::HashSet;

/// Matched steps and their replacement.
pub(super) struct Found<T> {
    pub(super) replacement: T,
    /// The steps, in order.
    pub(super) steps: Vec<StepId>,
    /// The last step, whose result is replaced.
    pub(super) last: StepId,
    pub(super) result: TraceValue,
}

/// A call of an operation that replaces steps.
pub(super) struct Call {
    pub(super) spec: &'static OpSpec,
    pub(super) params: Box<[Param<'static>]>,
    pub(super) inputs: Vec<Option<TraceValue>>,
}

/// Finds the steps that match patterns. `accept` returns the replacement of a match, or rejects the match; it may add steps to
/// the list of matched steps. A match is also rejected if a step outside it uses an intermediate result. Later steps are tried
/// first, so that an outer match is found before the matches inside it.
///
/// # Errors
///
/// The errors of `accept`; [`Error::Internal`] if a step refers to a value that does not exist.
pub(super) fn find<T>(
    trace: &Trace,
    options: PassOptions<'_>,
    patterns: &[Pattern],
    accept: impl Fn(&Matching<'_>, &mut Vec<StepId>) -> Result<Option<T>, Error>,
) -> Result<Vec<Found<T>>, Error> {
    let uses = trace.uses()?;
    let view = View { trace, uses: &uses, options };
    let (mut all, mut taken) = (Vec::new(), HashSet::new());
    for (last, step) in trace.steps.iter().rev() {
        let &[result] = step.outputs.as_slice() else { continue };
        for pattern in patterns {
            let mut found = None;
            Matching::new(view, pattern, Compare::Form(&[]), result).find(&mut |matching| {
                let mut steps = matching.steps.clone();
                let Some(replacement) = accept(matching, &mut steps)? else { return Ok(false) };
                steps.sort_unstable();
                steps.dedup();
                let free = !steps.iter().any(|step| taken.contains(step)) && !matching.reads_itself()?;
                if free && view.is_closed(&steps, last)? {
                    found = Some(Found { replacement, steps, last, result });
                }
                Ok(found.is_some())
            })?;
            if let Some(found) = found {
                taken.extend(found.steps.iter().copied());
                all.push(found);
                break;
            }
        }
    }
    all.reverse();
    Ok(all)
}

/// Replaces steps by the calls that `prepare` returns, and returns the number of replaced steps. `prepare` may insert other
/// steps before the last replaced step.
///
/// # Errors
///
/// The errors of `prepare`; [`Error::Internal`] if a step refers to a value that does not exist.
pub(super) fn replace_found<T>(
    trace: &mut Trace,
    found: Vec<Found<T>>,
    mut prepare: impl FnMut(&mut TraceEdit<'_>, StepId, &StepOrigins, T) -> Result<Call, Error>,
) -> Result<usize, Error> {
    let mut count = 0;
    let mut edit = trace.edit();
    for Found { replacement, steps, last, result } in found {
        count += steps.len();
        let origins = origins(edit.trace(), &steps)?;
        let Call { spec, params, inputs } = prepare(&mut edit, last, &origins, replacement)?;
        let like = NewValue::like(edit.trace().values.get(result)?);
        let made = insert(&mut edit, last, step(spec, params, inputs, origins), like)?;
        replace(&mut edit, result, made, &steps)?;
    }
    edit.finish()?;
    Ok(count)
}

/// Replaces steps by calls, and returns the number of replaced steps.
///
/// # Errors
///
/// [`Error::Internal`] if a step refers to a value that does not exist.
pub(super) fn replace_by_calls(trace: &mut Trace, found: Vec<Found<Call>>) -> Result<usize, Error> {
    replace_found(trace, found, |_, _, _, call| Ok(call))
}

/// Returns whether a step of the trace calls one of these operations.
pub(super) fn has_call(trace: &Trace, specs: &[&OpSpec]) -> bool {
    trace.steps.entries().any(|step| specs.iter().any(|spec| calls(step, spec)))
}

/// Returns the nodes that these steps come from.
pub(super) fn origins(trace: &Trace, steps: &[StepId]) -> Result<StepOrigins, Error> {
    let mut origins = StepOrigins::new();
    for &step in steps {
        origins.extend(trace.steps.get(step)?.origins.iter().copied());
    }
    Ok(origins)
}

/// Lets the readers of `result` read `made` instead, and removes the steps that computed `result`.
pub(super) fn replace(
    edit: &mut TraceEdit<'_>,
    result: TraceValue,
    made: TraceValue,
    steps: &[StepId],
) -> Result<(), Error> {
    edit.replace(result, made)?;
    steps.iter().try_for_each(|&step| edit.remove(step))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::ext::Create;
    use crate::plan::passes::samples::traced;
    use crate::trace::TableIndex;
    use crate::{Backend, DataType};

    /// Finds `exp` of a scaled value, and returns the operand and the steps of each match.
    fn exponents(trace: &Trace) -> Vec<(TraceValue, Vec<StepId>)> {
        let pattern = Pattern::of([DataType::F32], |on, [x]| on.exp(&on.scaled(0, &x))).unwrap();
        let found = find(trace, PassOptions::INTERPRETED, &[pattern], |matching, _| Ok(matching.operand(0)));
        found.unwrap().into_iter().map(|found| (found.replacement, found.steps)).collect()
    }

    #[test]
    fn steps_that_others_read_are_outside_the_match() {
        for returned in [false, true] {
            let trace = traced(&[&[2, 3]], |on, xs| {
                let half = on.mul(&xs[0], &on.scalar_like(&xs[0], 0.5)?)?;
                let exponent = on.exp(&half)?;
                Ok(if returned { vec![exponent, half] } else { vec![exponent] })
            });
            let [first, last] = [0, 1].map(StepId::at);
            let expected = match returned {
                true => (trace.outputs[1], vec![last]),
                false => (TraceValue::at(0), vec![first, last]),
            };
            assert_eq!(exponents(&trace), [expected]);
        }
    }

    #[test]
    fn matches_are_in_the_order_of_their_last_steps() {
        let trace = traced(&[&[2, 3]], |on, xs| Ok(vec![on.exp(&on.exp(&xs[0])?)?]));
        let lasts: Vec<Vec<StepId>> = exponents(&trace).into_iter().map(|(_, steps)| steps).collect();
        assert_eq!(lasts, [0, 1].map(|at| vec![StepId::at(at)]));
    }
}
