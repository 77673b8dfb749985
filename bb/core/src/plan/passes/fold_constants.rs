//! Marks the steps that read only constants to run once for all runs of a program, instead of in each run.
//!
//! They run on the backend when the plan is built, so their results have the precision of the backend.

use super::{Pass, PassOptions};
use crate::{DataType, Error};
use crate::plan::engine::Engine;
use crate::trace::{Operation, Phase, Step, StepId, Table, Trace, TraceValue};

pub(super) const PASS: Pass = Pass { name: "fold-constants", engines: &[Engine::Interpreter], run };

/// Results of up to this many bytes are folded even if they are much larger than their operands.
const GROWN: usize = 1 << 20;

/// The maximum ratio between the bytes of a larger result and the bytes of its operands. Quantised weights of eight bits grow
/// by a factor of four as floats, packed weights of four bits by a factor of eight.
const WIDER: usize = 8;

fn run(trace: &mut Trace, options: PassOptions<'_>) -> Result<usize, Error> {
    let Folded { steps, .. } = folded(trace, options)?;
    for id in &steps {
        trace.steps.get_mut(*id)?.phase = Phase::Once;
    }
    Ok(steps.len())
}

/// The steps that run once.
pub(super) struct Folded {
    steps: Vec<StepId>,
    /// For each value, whether it is known before a run, assuming that `steps` run once.
    pub(super) constant: Table<TraceValue, bool>,
    /// The number of bytes that are left for further constants.
    pub(super) left: usize,
}

/// Finds the steps that run once.
pub(super) fn folded(trace: &Trace, options: PassOptions<'_>) -> Result<Folded, Error> {
    let mut folded =
        Folded { steps: Vec::new(), constant: trace.constant_values()?, left: options.fold_bytes };
    for (id, step) in trace.steps.iter() {
        let mut all = !step.inputs.is_empty();
        for value in step.reads() {
            all &= *folded.constant.get(value)?;
        }
        let made = bytes(trace, step.outputs.iter().copied())?;
        if all && made <= folded.left && worth_folding(trace, step, made)? {
            folded.left -= made;
            for value in &step.outputs {
                folded.constant.set(*value, true)?;
            }
            folded.steps.push(id);
        }
    }
    Ok(folded)
}

/// Returns whether folding a step pays off. Folding must not trade a little computation for much memory. It must not fix a
/// value that differs between runs, as a symbolic parameter or a random number does. Strings from the host are not folded,
/// because their lengths are known, and limited, only in a run.
fn worth_folding(trace: &Trace, step: &Step, made: usize) -> Result<bool, Error> {
    if step.symbolic.is_some() || matches!(step.operation, Operation::Host(body) if body.random) {
        return Ok(false);
    }
    for value in step.outputs.iter().filter(|_| matches!(step.operation, Operation::Host(_))) {
        if trace.values.get(*value)?.dtype == DataType::String {
            return Ok(false);
        }
    }
    Ok(made <= bytes(trace, step.reads())?.saturating_mul(WIDER).max(GROWN))
}

/// Returns the total number of bytes of the values.
fn bytes(trace: &Trace, values: impl Iterator<Item = TraceValue>) -> Result<usize, Error> {
    let mut all = 0usize;
    for value in values {
        all = all.saturating_add(trace.values.get(value)?.bytes());
    }
    Ok(all)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::Backend;
    use crate::ext::{Extent, Ops};
    use crate::plan::passes::samples::{traced, zeros};
    use crate::trace::{InputIndex, TableIndex, TracedTensor, Tracer, Varies};

    #[test]
    fn what_follows_from_constants_alone_runs_once() {
        let mut trace = traced(&[&[1]], |on, xs| {
            let folded = on.exp(&on.neg(&zeros(on, &[8192]))?)?;
            Ok(vec![on.add(&xs[0], &folded)?])
        });
        assert_eq!(run(&mut trace, PassOptions::INTERPRETED).unwrap(), 2);
        assert_eq!(
            trace.to_string(),
            "once %2: f32[8192] = neg(constant0)\nonce %3: f32[8192] = exp(%2)\n\
             %4: f32[8192] = add(input0, %3)\nreturn %4\n"
        );
        trace.check().unwrap();
    }

    #[test]
    fn what_depends_on_extents_runs_in_each_run() {
        let on = Tracer::default().symbolic(true);
        let x = on.input(InputIndex::at(0), "x", crate::DataType::F32, &[2], &Varies::Everything, None);
        let (rows, columns) = (on.extent(&x, 0), Extent::from(4096i64));
        let y = on.reshape_to(&zeros(&on, &[8192]), &[rows, columns]).unwrap();
        let mut trace = on.finish(vec![y.read()]);
        assert_eq!(trace.steps.len(), 1);
        assert_eq!(run(&mut trace, PassOptions::INTERPRETED).unwrap(), 0);
    }

    #[test]
    fn quantised_weights_become_floats_once() {
        let mut trace = traced(&[&[1]], |on, xs| {
            let weights = on.cast(&zeros(on, &[1 << 20]), DataType::I8, true, crate::RoundMode::Up)?;
            let wide = on.cast(&weights, DataType::F32, true, crate::RoundMode::Up)?;
            Ok(vec![on.add(&xs[0], &wide)?])
        });
        assert_eq!(run(&mut trace, PassOptions::INTERPRETED).unwrap(), 2);
    }

    #[test]
    fn what_would_make_much_memory_of_little_runs_in_each_run() {
        let mut trace = traced(&[], |on, _| Ok(vec![on.add(&zeros(on, &[8192]), &zeros(on, &[1024, 1]))?]));
        assert_eq!(run(&mut trace, PassOptions::INTERPRETED).unwrap(), 0);
    }

    #[test]
    fn what_exceeds_the_budget_runs_in_each_run() {
        let fold = |on: &Tracer, _: &[TracedTensor]| Ok(vec![on.exp(&on.neg(&zeros(on, &[8192]))?)?]);
        for (fold_bytes, folded) in [(2 * 32768, 2), (2 * 32768 - 1, 1), (32767, 0)] {
            let mut trace = traced(&[], fold);
            assert_eq!(run(&mut trace, PassOptions { fold_bytes, ..PassOptions::INTERPRETED }).unwrap(), folded);
            trace.check().unwrap();
        }
    }
}
