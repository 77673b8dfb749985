//! Fuses element-wise functions that only feed each other into one step, for backends that run programs of these functions
//! natively ([`Scalar::fused`](crate::ext::Scalar::fused)).
//!
//! Without fusion, each function reads its operands from memory and writes its result there. A step belongs to a group if all
//! readers of its result are in the group, so that no other step needs the result. The result must have the extents of the
//! group's result, because a value that is broadcast later would be computed more often.

use super::recognized::{Call, Found, replace_by_calls};
use super::{Pass, PassOptions};
use crate::ext::ScalarOp;
use crate::ext::fused::{Function, Line, program};
use crate::plan::engine::Engine;
use crate::trace::{Operation, Phase, Step, StepId, Table, Trace, TraceValue, Uses};
use crate::{Error, Primitive};
use bb_ir::DataType;
use bb_ir::op::Param;

pub(super) const PASS: Pass = Pass { name: "fuse-elementwise", engines: &[Engine::Interpreter], run };

/// The maximum number of tensors that a program reads.
const MOST_TENSORS: usize = 8;
/// The maximum number of lines in a program.
const MOST_LINES: usize = 24;

fn run(trace: &mut Trace, options: PassOptions<'_>) -> Result<usize, Error> {
    if !options.switches.fuse {
        return Ok(0);
    }
    let uses = trace.uses()?;
    // The last step of a group identifies the group. The loop runs backwards, so that the readers of a step have already been
    // assigned to groups.
    let mut group: Table<StepId, Option<StepId>> = Table::with(trace.steps.len(), || None);
    let ids: Vec<StepId> = trace.steps.iter().map(|(id, _)| id).collect();
    for &id in ids.iter().rev() {
        if function(trace, trace.steps.get(id)?)?.is_some() {
            let joined = joined(trace, &uses, &group, id)?;
            group.set(id, Some(joined.unwrap_or(id)))?;
        }
    }
    let mut members: Table<StepId, Vec<StepId>> = Table::with(trace.steps.len(), Vec::new);
    for &id in &ids {
        if let Some(last) = *group.get(id)? {
            members.get_mut(last)?.push(id);
        }
    }
    let mut found = Vec::new();
    for (last, members) in members.iter() {
        let Some(Fusion { members, tensors, lines }) = Fusion::of(trace, members)? else { continue };
        let params = Box::new([Param::Ints(program(&lines).into())]);
        let inputs = tensors.into_iter().map(Some).collect();
        let replacement = Call { spec: ScalarOp::Fused.spec(), params, inputs };
        let result = output(trace.steps.get(last)?)?;
        found.push(Found { replacement, steps: members, last, result });
    }
    replace_by_calls(trace, found)
}

/// Returns the function of a step if a program may contain it. The step must run in each run, on floats that `f32` represents
/// exactly.
fn function(trace: &Trace, step: &Step) -> Result<Option<Function>, Error> {
    let Operation::Row(spec) = step.operation else { return Ok(None) };
    if step.phase != Phase::EachRun {
        return Ok(None);
    }
    for value in step.reads().chain(step.outputs.iter().copied()) {
        if !matches!(trace.values.get(value)?.dtype, DataType::F32 | DataType::F16 | DataType::BF16) {
            return Ok(None);
        }
    }
    if step.operation.primitive() == Some(Primitive::Cast) {
        return Ok(Function::to(trace.values.get(output(step)?)?.dtype));
    }
    Ok(Function::of(spec))
}

fn output(step: &Step) -> Result<TraceValue, Error> {
    let first = step.outputs.first().copied();
    first.ok_or_else(|| Error::excluded("a function to have a result"))
}

/// Returns the common group of all readers of a step's result, if there is one and the result has the group's extents.
fn joined(
    trace: &Trace,
    uses: &Uses,
    group: &Table<StepId, Option<StepId>>,
    id: StepId,
) -> Result<Option<StepId>, Error> {
    let result = output(trace.steps.get(id)?)?;
    if uses.is_returned(result)? {
        return Ok(None);
    }
    let mut common = None;
    for &reader in uses.readers(result)? {
        let of_reader = *group.get(reader)?;
        if of_reader.is_none() || common.is_some_and(|common| common != of_reader) {
            return Ok(None);
        }
        common = Some(of_reader);
    }
    let Some(Some(last)) = common else { return Ok(None) };
    let end = output(trace.steps.get(last)?)?;
    Ok((trace.values.get(end)?.shape == trace.values.get(result)?.shape).then_some(last))
}

/// Steps that are fused into one.
struct Fusion {
    members: Vec<StepId>,
    tensors: Vec<TraceValue>,
    lines: Vec<Line>,
}

impl Fusion {
    /// Fuses the last steps of a group, up to the limits of a program. Returns `None` if only a single step would remain. The
    /// other steps of the group are left unchanged.
    fn of(trace: &Trace, group: &[StepId]) -> Result<Option<Fusion>, Error> {
        let mut first = group.len().saturating_sub(MOST_LINES);
        while group.len() - first > 1 {
            let members = group.get(first..).unwrap_or_default();
            if let Some(fusion) = Fusion::exactly(trace, members)? {
                return Ok(Some(fusion));
            }
            first += 1;
        }
        Ok(None)
    }

    fn exactly(trace: &Trace, members: &[StepId]) -> Result<Option<Fusion>, Error> {
        let mut tensors: Vec<TraceValue> = Vec::new();
        let mut made: Vec<TraceValue> = Vec::new();
        for &member in members {
            made.push(output(trace.steps.get(member)?)?);
        }
        for &member in members {
            for value in trace.steps.get(member)?.reads() {
                if !made.contains(&value) && !tensors.contains(&value) {
                    tensors.push(value);
                }
            }
        }
        if tensors.len() > MOST_TENSORS {
            return Ok(None);
        }
        let place = |value: TraceValue| {
            let tensor = tensors.iter().position(|&tensor| tensor == value);
            tensor.or_else(|| Some(tensors.len() + made.iter().position(|&made| made == value)?))
        };
        let mut lines = Vec::with_capacity(members.len());
        for &member in members {
            let step = trace.steps.get(member)?;
            let function = function(trace, step)?;
            let mut operands = step.reads().filter_map(place);
            let (Some(function), Some(first)) = (function, operands.next()) else { return Ok(None) };
            lines.push(Line { function, operands: [first, operands.next().unwrap_or(first)] });
        }
        Ok(Some(Fusion { members: members.to_vec(), tensors, lines }))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::Backend;
    use crate::ext::Ops;
    use crate::plan::passes::samples::traced;
    use crate::contract::PassSwitches;
    use crate::trace::{TraceStop, TracedTensor, Tracer};

    const FUSING: PassOptions<'static> = PassOptions { switches: PassSwitches::ON, ..PassOptions::INTERPRETED };

    fn fused(
        inputs: &[&[usize]],
        function: impl FnOnce(&Tracer, &[TracedTensor]) -> Result<Vec<TracedTensor>, TraceStop>,
    ) -> (usize, String) {
        let mut trace = traced(inputs, function);
        let count = run(&mut trace, FUSING).unwrap();
        trace.check().unwrap();
        (count, trace.to_string())
    }

    #[test]
    fn a_chain_becomes_one_program() {
        // x * min(max(x + 3, 0), 6) / 6, with the numbers 3, 0 and 6 as operands.
        let (count, text) = fused(&[&[2, 3], &[], &[], &[]], |on, xs| {
            let shifted = on.add(&xs[0], &xs[1])?;
            let y = on.mul(&xs[0], &on.abs(&shifted)?)?;
            Ok(vec![on.div(&y, &xs[3])?, on.neg(&xs[2])?])
        });
        assert_eq!(count, 4);
        assert_eq!(
            text,
            "%9: f32[2, 3] = fused(input0, input1, input3) {program=[0, 0, 1, 7, 3, 2, 0, 4, 3, 5, 2]}\n\
             %8: f32[] = neg(input2)\nreturn %9, %8\n"
        );
    }

    #[test]
    fn what_others_read_is_computed_once() {
        let (count, _) = fused(&[&[4]], |on, xs| {
            let y = on.exp(&xs[0])?;
            Ok(vec![on.neg(&y)?, on.reduce_sum(&y, &[], false)?])
        });
        assert_eq!(count, 0);
        // The trace returns the intermediate result.
        let (count, _) = fused(&[&[4]], |on, xs| {
            let y = on.exp(&xs[0])?;
            Ok(vec![on.neg(&y)?, y])
        });
        assert_eq!(count, 0);
    }

    #[test]
    fn what_two_of_the_group_read_belongs_to_it() {
        let (count, text) = fused(&[&[4]], |on, xs| {
            let y = on.exp(&xs[0])?;
            Ok(vec![on.mul(&y, &on.neg(&y)?)?])
        });
        assert_eq!(count, 3);
        assert!(text.contains("fused(input0) {program=[9, 0, 6, 1, 2, 1, 2]}"), "{text}");
    }

    #[test]
    fn what_is_broadcast_afterwards_stays_apart() {
        let (count, _) = fused(&[&[8, 4], &[4]], |on, xs| Ok(vec![on.add(&xs[0], &on.exp(&xs[1])?)?]));
        assert_eq!(count, 0);
    }

    #[test]
    fn programs_have_few_tensors_and_lines() {
        let shapes: [&[usize]; 12] = [&[4]; 12];
        let (count, text) = fused(&shapes, |on, xs| {
            let mut y = xs[0].clone();
            for x in &xs[1..] {
                y = on.add(&y, x)?;
            }
            Ok(vec![y])
        });
        // The last seven sums read eight tensors: the result of the first four sums, and seven inputs.
        assert_eq!(count, 7);
        assert_eq!(text.matches("fused").count(), 1, "{text}");
        let (count, text) = fused(&[&[4]], |on, xs| {
            let mut y = xs[0].clone();
            for _ in 0..60 {
                y = on.neg(&y)?;
            }
            Ok(vec![y])
        });
        assert_eq!(count, MOST_LINES, "{text}");
    }

    #[test]
    fn integers_are_left_alone() {
        let (count, _) = fused(&[&[4]], |on, xs| {
            let whole = on.cast(&xs[0], DataType::I32, true, crate::RoundMode::Up)?;
            Ok(vec![on.neg(&on.add(&whole, &whole)?)?])
        });
        assert_eq!(count, 0);
    }

    #[test]
    fn conversions_of_halves_are_lines() {
        let (count, text) = fused(&[&[4]], |on, xs| {
            let to = |x: &TracedTensor, dtype| on.cast(x, dtype, true, crate::RoundMode::Up);
            let half = on.neg(&to(&xs[0], DataType::F16)?)?;
            let wide = on.exp(&to(&half, DataType::F32)?)?;
            Ok(vec![on.abs(&to(&wide, DataType::BF16)?)?])
        });
        assert_eq!(count, 6);
        assert_eq!(
            text,
            "%7: bf16[4] = fused(input0) {program=[16, 0, 6, 1, 15, 2, 9, 3, 17, 4, 7, 5]}\nreturn %7\n"
        );
        // Doubles are not fused, because `f32` does not represent all of them.
        let (count, _) = fused(&[&[4]], |on, xs| {
            Ok(vec![on.neg(&on.cast(&xs[0], DataType::F64, true, crate::RoundMode::Up)?)?])
        });
        assert_eq!(count, 0);
    }

    #[test]
    fn a_backend_without_programs_gets_none() {
        let mut trace = traced(&[&[4]], |on, xs| Ok(vec![on.exp(&on.neg(&xs[0])?)?]));
        assert_eq!(run(&mut trace, PassOptions::INTERPRETED).unwrap(), 0);
    }

    #[test]
    fn extents_of_other_runs_are_those_of_the_operands() {
        let on = Tracer::default().symbolic(true);
        let varies = crate::trace::Varies::Everything;
        let x = on.input(crate::trace::TableIndex::at(0), "x", DataType::F32, &[2], &varies, None);
        let y = on.reshape_to(&on.exp(&on.neg(&x).unwrap()).unwrap(), &on.extents(&x)).unwrap();
        let mut trace = on.finish(vec![y.read()]);
        assert_eq!(run(&mut trace, FUSING).unwrap(), 2);
        let fused = trace.steps.entries().find(|step| step.operation.name() == "fused").unwrap();
        assert!(trace.values.get(fused.outputs[0]).unwrap().elements.is_some());
        trace.check().unwrap();
    }
}
