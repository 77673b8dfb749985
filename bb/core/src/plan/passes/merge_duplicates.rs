//! Merges steps that compute the same result from the same operands: the readers of a later result read the first result.
//!
//! Exporters write masks, positions and casts anew wherever they are used. Random steps are not merged. Steps without operands
//! are not merged either, because they are cheap, or run only once, when the plan is built.

use super::{Pass, PassOptions};
use crate::Error;
use crate::plan::engine::Engine;
use crate::trace::{Operation, Step, StepId, Trace, TraceValue, ValueSource};
use bb_ir::DataType;
use bb_ir::op::{Family, Param};
use smallvec::SmallVec;
use std::collections::HashMap;

pub(super) const PASS: Pass =
    Pass { name: "merge-duplicates", engines: &[Engine::Interpreter, Engine::WholeGraph], run };

/// The maximum size of constants that are compared, in bytes. Larger constants hardly ever occur twice.
const COMPARED: usize = 256;

/// The maximum number of steps with the same operation and operands that a step is compared with, the latest first.
const MOST_ALIKE: usize = 256;

/// The key of steps that may compute the same result: the operation and the operands.
#[derive(PartialEq, Eq, Hash)]
struct StepKey {
    operation: Called,
    inputs: SmallVec<[Option<TraceValue>; 3]>,
}

/// An operation.
#[derive(PartialEq, Eq, Hash)]
enum Called {
    Row(Family, u16),
    /// The address of a host computation.
    Host(usize),
}

fn run(trace: &mut Trace, _: PassOptions<'_>) -> Result<usize, Error> {
    let mut same = constants(trace)?;
    let mut known: HashMap<StepKey, SmallVec<[StepId; 1]>> = HashMap::new();
    let mut found = Vec::new();
    for (id, step) in trace.steps.iter() {
        let operation = match step.operation {
            Operation::Row(spec) => Called::Row(spec.family, spec.index),
            Operation::Host(kernel) if kernel.random => continue,
            Operation::Host(kernel) => Called::Host(std::ptr::from_ref(kernel).addr()),
        };
        if step.reads().next().is_none() {
            continue;
        }
        let inputs =
            step.inputs.iter().map(|value| value.map(|value| same.get(&value).copied().unwrap_or(value)));
        let alike = known.entry(StepKey { operation, inputs: inputs.collect() }).or_default();
        let mut first = None;
        for other in alike.iter().rev().take(MOST_ALIKE) {
            if matches(trace, trace.steps.get(*other)?, step)? {
                first = Some(*other);
                break;
            }
        }
        let Some(first) = first else {
            alike.push(id);
            continue;
        };
        for (own, by) in step.outputs.iter().zip(&trace.steps.get(first)?.outputs) {
            same.insert(*own, *by);
        }
        found.push((first, id));
    }
    let mut edit = trace.edit();
    for (first, id) in &found {
        let (own, by) =
            (edit.trace().steps.get(*id)?.outputs.clone(), edit.trace().steps.get(*first)?.outputs.clone());
        for (own, by) in own.into_iter().zip(by) {
            edit.replace(own, by)?;
        }
        edit.remove(*id)?;
    }
    edit.finish()?;
    Ok(found.len())
}

/// Finds small constants that are bit-identical, and maps each duplicate to the first one.
fn constants(trace: &Trace) -> Result<HashMap<TraceValue, TraceValue>, Error> {
    let mut first: HashMap<(DataType, &[usize], &[u8]), TraceValue> = HashMap::new();
    let mut same = HashMap::new();
    for (value, info) in trace.values.iter() {
        let ValueSource::Constant(index) = info.source else { continue };
        let Ok(data) = trace.constants.get(index) else { continue };
        if data.byte_len() > COMPARED {
            continue;
        }
        let known = first.entry((data.dtype(), data.shape(), data.bytes()?)).or_insert(value);
        if *known != value {
            same.insert(value, *known);
        }
    }
    Ok(same)
}

/// Returns whether two steps of one operation with the same operands compute the same results.
fn matches(trace: &Trace, a: &Step, b: &Step) -> Result<bool, Error> {
    let params = a.params.len() == b.params.len() && a.params.iter().zip(&b.params).all(|(a, b)| equal(a, b));
    if !params || a.symbolic != b.symbolic || a.phase != b.phase || a.outputs.len() != b.outputs.len() {
        return Ok(false);
    }
    for (a, b) in a.outputs.iter().zip(&b.outputs) {
        let (a, b) = (trace.values.get(*a)?, trace.values.get(*b)?);
        if a.dtype != b.dtype || a.shape != b.shape {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns whether parameters are equal. Tensors never are, because comparing large ones is slow, and most constants are
/// operands.
fn equal(a: &Param<'_>, b: &Param<'_>) -> bool {
    !matches!(a, Param::Data(_)) && a.is_same(b)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::Backend;
    use crate::ext::{Create, RandomNormalOptions};
    use crate::plan::passes::samples::traced;

    fn merged(trace: &mut Trace) -> usize {
        let count = run(trace, PassOptions::INTERPRETED).unwrap();
        trace.check().unwrap();
        assert_eq!(run(trace, PassOptions::INTERPRETED).unwrap(), 0);
        count
    }

    #[test]
    fn steps_that_compute_the_same_become_one_and_so_do_their_readers() {
        let mut trace = traced(&[&[2, 3]], |on, xs| {
            let twice = [0, 1].map(|_| on.exp(&on.transpose(&xs[0], &[1, 0])?));
            let [a, b] = twice;
            Ok(vec![on.add(&a?, &b?)?])
        });
        assert_eq!(merged(&mut trace), 2);
        assert_eq!(
            trace.to_string(),
            "%1: f32[3, 2] = transpose(input0) {perm=[1, 0]}\n%2: f32[3, 2] = exp(%1)\n\
             %5: f32[3, 2] = add(%2, %2)\nreturn %5\n"
        );
    }

    #[test]
    fn other_parameters_orders_of_operands_and_signs_of_zeros_stay_apart() {
        let mut trace = traced(&[&[2, 2], &[2, 2]], |on, xs| {
            let (a, b) = (&xs[0], &xs[1]);
            Ok(vec![
                on.sub(a, b)?,
                on.sub(b, a)?,
                on.transpose(a, &[1, 0])?,
                on.transpose(a, &[0, 1])?,
                on.div(a, &on.scalar_like(a, 0.0)?)?,
                on.div(a, &on.scalar_like(a, -0.0)?)?,
            ])
        });
        assert_eq!(merged(&mut trace), 0);
    }

    #[test]
    fn equal_numbers_are_the_same_operand() {
        let mut trace = traced(&[&[2]], |on, xs| {
            let shifted = |x| on.add(x, &on.scalar_like(x, 1.5)?);
            Ok(vec![shifted(&xs[0])?, shifted(&xs[0])?])
        });
        assert_eq!(merged(&mut trace), 1);
        let outputs = &trace.outputs;
        assert_eq!(outputs[0], outputs[1]);
    }

    #[test]
    fn what_is_drawn_at_random_is_drawn_anew() {
        let mut trace = traced(&[&[4]], |on, xs| {
            let drawn = || on.add(&xs[0], &on.random_normal(&[4], RandomNormalOptions::default())?);
            Ok(vec![drawn()?, drawn()?])
        });
        let steps = trace.steps.len();
        assert_eq!(merged(&mut trace), 0);
        assert_eq!(trace.steps.len(), steps);
    }
}
