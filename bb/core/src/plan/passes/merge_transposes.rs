//! Merges consecutive transposes into one transpose with the composition of their permutations. If the composition is the
//! identity, the readers of the result read the original value.

use super::permutation::{Permutation, Transpose};
use super::{Pass, PassOptions};
use crate::Error;
use crate::plan::engine::Engine;
use crate::trace::{NewStep, NewValue, StepId, StepOrigins, Trace, TraceValue, Uses};
use std::collections::HashMap;

pub(super) const PASS: Pass =
    Pass { name: "merge-transposes", engines: &[Engine::Interpreter, Engine::WholeGraph], run };

/// A transpose that follows other transposes.
struct Merged {
    id: StepId,
    /// The value before all these transposes.
    root: TraceValue,
    result: TraceValue,
    perm: Permutation,
    /// The nodes of this transpose, and of the preceding ones that no other step reads.
    origins: StepOrigins,
}

fn run(trace: &mut Trace, _: PassOptions<'_>) -> Result<usize, Error> {
    let found = merged(trace)?;
    let count = found.len();
    let mut edit = trace.edit();
    for Merged { id, root, result, perm, origins } in found {
        edit.remove(id)?;
        if perm.is_identity() {
            edit.replace(result, root)?;
            continue;
        }
        let step = edit.trace().steps.get(id)?;
        let new = NewStep { params: perm.params(), origins, ..NewStep::like(step, [Some(root)]) };
        let results = [NewValue::like(edit.trace().values.get(result)?)];
        for merged in edit.insert(id, new, results)? {
            edit.replace(result, merged)?;
        }
    }
    edit.finish()?;
    Ok(count)
}

/// Finds the transposes that follow other transposes. A transpose that only another transpose reads is left as it is, because
/// it is dead after the other one has been merged. So the time is linear in the length of a chain.
fn merged(trace: &Trace) -> Result<Vec<Merged>, Error> {
    let uses = trace.uses()?;
    let mut found = Vec::new();
    // For each result of a transpose, the value before all transposes and the composition of their permutations.
    let mut known: HashMap<TraceValue, (TraceValue, Permutation)> = HashMap::new();
    // For each value, the nodes that its only reader takes over.
    let mut ahead: HashMap<TraceValue, StepOrigins> = HashMap::new();
    for (id, step) in trace.steps.iter() {
        let Some(Transpose { operand, result, perm }) = Transpose::of(trace, step)? else { continue };
        let mut origins = ahead.remove(&operand).unwrap_or_default();
        origins.extend(step.origins.iter().copied());
        let (root, perm, first) = match known.get(&operand) {
            Some((root, before)) => (*root, before.then(&perm)?, false),
            None => (operand, perm, true),
        };
        if is_swallowed(trace, &uses, result)? {
            ahead.insert(result, origins);
        } else if !first {
            found.push(Merged { id, root, result, perm: perm.clone(), origins });
        }
        known.insert(result, (root, perm));
    }
    Ok(found)
}

/// Returns whether the only reader of a value is a transpose.
fn is_swallowed(trace: &Trace, uses: &Uses, value: TraceValue) -> Result<bool, Error> {
    match uses.only_reader(value)? {
        Some(reader) => Ok(Transpose::of(trace, trace.steps.get(reader)?)?.is_some()),
        None => Ok(false),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::Backend;
    use crate::plan::passes::samples::traced;
    use crate::trace::{OriginId, TableIndex};

    /// Sets the origin of each step to the step's own index, and runs the pass.
    fn merge(trace: &mut Trace) -> usize {
        for (at, step) in trace.steps.iter_mut() {
            step.origins.push(OriginId::at(at.position()));
        }
        let count = run(trace, PassOptions::INTERPRETED).unwrap();
        trace.check().unwrap();
        count
    }

    fn origins(trace: &Trace) -> Vec<Vec<usize>> {
        let of = |origins: &StepOrigins| origins.iter().map(|origin| origin.position()).collect();
        trace.steps.entries().map(|step| of(&step.origins)).collect()
    }

    #[test]
    fn two_become_one_that_stands_for_the_nodes_of_both() {
        let mut trace = traced(&[&[2, 3, 4]], |on, xs| {
            Ok(vec![on.transpose(&on.transpose(&xs[0], &[1, 2, 0])?, &[0, 2, 1])?])
        });
        assert_eq!(merge(&mut trace), 1);
        // Dimension 1 of the result is dimension 2 of the intermediate tensor (shape [3, 4, 2]), which is dimension 0 of the input.
        assert_eq!(
            trace.to_string(),
            "%1: f32[3, 4, 2] = transpose(input0) {perm=[1, 2, 0]}\n\
             %3: f32[3, 2, 4] = transpose(input0) {perm=[1, 0, 2]}\nreturn %3\n"
        );
        assert_eq!(origins(&trace), [vec![0], vec![0, 1]]);
    }

    #[test]
    fn two_that_undo_each_other_go() {
        let mut trace = traced(&[&[2, 3, 4]], |on, xs| {
            let back = on.transpose(&on.transpose(&xs[0], &[1, 2, 0])?, &[2, 0, 1])?;
            Ok(vec![on.neg(&back)?, back])
        });
        assert_eq!(merge(&mut trace), 1);
        assert_eq!(
            trace.to_string(),
            "%1: f32[3, 4, 2] = transpose(input0) {perm=[1, 2, 0]}\n%3: f32[2, 3, 4] = neg(input0)\nreturn %3, input0\n"
        );
    }

    #[test]
    fn one_that_others_read_stays_and_stands_for_its_own_node() {
        let mut trace = traced(&[&[2, 3]], |on, xs| {
            let turned = on.transpose(&xs[0], &[])?;
            Ok(vec![on.neg(&turned)?, on.transpose(&turned, &[1, 0])?, on.transpose(&turned, &[0, 1])?])
        });
        assert_eq!(merge(&mut trace), 2);
        assert_eq!(
            trace.to_string(),
            "%1: f32[3, 2] = transpose(input0) {perm=[]}\n%2: f32[3, 2] = neg(%1)\n\
             %5: f32[3, 2] = transpose(input0) {perm=[1, 0]}\nreturn %2, input0, %5\n"
        );
        assert_eq!(origins(&trace), [vec![0], vec![1], vec![3]]);
    }

    #[test]
    fn a_long_chain_becomes_one() {
        let mut trace = traced(&[&[2, 3, 4]], |on, xs| {
            let mut turned = xs[0].clone();
            for _ in 0..20_000 {
                turned = on.transpose(&turned, &[1, 2, 0])?;
            }
            Ok(vec![turned])
        });
        assert_eq!(merge(&mut trace), 1);
        // Three rotations are the identity, and 20000 is two more than a multiple of three.
        let last = trace.steps.entries().last().unwrap();
        assert_eq!(last.reads().collect::<Vec<_>>(), [TraceValue::at(0)]);
        assert_eq!(trace.values.get(last.outputs[0]).unwrap().shape[..], [4, 2, 3]);
        assert_eq!(last.origins.len(), 20_000);
    }
}
