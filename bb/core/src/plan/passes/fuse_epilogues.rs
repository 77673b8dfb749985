//! Fuses a convolution and the element-wise functions of its result into one step, for backends that compute both together in
//! one native operation ([`Nn::fused_conv`](crate::ext::Nn::fused_conv)).
//!
//! Nearly every convolution has an epilogue, for example a batch normalisation, an activation, or the sum with a residual
//! connection. As a separate step, the epilogue reads the result from memory again. A fused epilogue reads the result while it
//! is in a cache.

use super::recognized::{Call, Found, replace_by_calls};
use super::view::View;
use super::{Pass, PassOptions};
use crate::Error;
use crate::ext::fused::{Function, Line, lines, program};
use crate::ext::{NnOp, ScalarOp};
use crate::plan::engine::Engine;
use crate::trace::{Operation, Phase, Step, StepId, Trace, TraceValue};
use bb_ir::op::{OpSpec, Param};

pub(super) const PASS: Pass = Pass { name: "fuse-epilogues", engines: &[Engine::Interpreter], run };

/// Pairs of an operation and its variant with a program for the result. The operands of the variant are the operands of the
/// operation, then the tensors of the program. Its parameters are the program, then the parameters of the operation.
const PRODUCERS: [(&OpSpec, &OpSpec); 1] = [(NnOp::Conv.spec(), NnOp::FusedConv.spec())];

fn run(trace: &mut Trace, options: PassOptions<'_>) -> Result<usize, Error> {
    if !options.switches.fuse || !PRODUCERS.iter().any(|(_, fused)| options.natives.has(fused)) {
        return Ok(0);
    }
    let uses = trace.uses()?;
    let view = View { trace, uses: &uses, options };
    let mut found = Vec::new();
    for (id, step) in trace.steps.iter() {
        let (Some(functions), Some(&result)) = (Functions::of(step), step.outputs.first()) else { continue };
        if let Some(producer) = functions.producer(view, id, result)? {
            let steps = vec![producer.id, id];
            found.push(Found { replacement: functions.call(&producer), steps, last: id, result });
        }
    }
    replace_by_calls(trace, found)
}

/// A step whose result is read only by a program.
struct Producer<'t> {
    id: StepId,
    step: &'t Step,
    result: TraceValue,
    fused: &'static OpSpec,
}

/// A step as a program of element-wise functions.
struct Functions {
    tensors: Vec<TraceValue>,
    lines: Vec<Line>,
}

impl Functions {
    /// Returns the program of a step: its own, or a program of a single function.
    fn of(step: &Step) -> Option<Functions> {
        let Operation::Row(spec) = step.operation else { return None };
        if step.phase != Phase::EachRun || step.symbolic.is_some() {
            return None;
        }
        let tensors: Vec<TraceValue> = step.reads().collect();
        if spec == ScalarOp::Fused.spec() {
            let [Param::Ints(program)] = &*step.params else { return None };
            let lines = lines(program, tensors.len()).ok()?;
            return Some(Functions { tensors, lines });
        }
        let function = Function::of(spec)?;
        let operands = [0, function.arity() - 1];
        Some(Functions { tensors, lines: vec![Line { function, operands }] })
    }

    /// Returns the last step of the [`PRODUCERS`] that computes a tensor of the program, if only the program reads the step's
    /// result and does not broadcast it.
    fn producer<'t>(
        &self,
        view: View<'t>,
        reader: StepId,
        last: TraceValue,
    ) -> Result<Option<Producer<'t>>, Error> {
        let mut found: Option<Producer<'t>> = None;
        for &result in &self.tensors {
            let Some((id, step)) = view.maker_for(result, reader)? else { continue };
            let Operation::Row(spec) = step.operation else { continue };
            let Some((_, fused)) = PRODUCERS.iter().find(|(own, _)| *own == spec) else { continue };
            let fits = view.options.natives.has(fused)
                && step.phase == Phase::EachRun
                && step.symbolic.is_none()
                && view.trace.values.get(result)?.shape == view.trace.values.get(last)?.shape;
            if fits && found.as_ref().is_none_or(|before| before.id < id) {
                found = Some(Producer { id, step, result, fused });
            }
        }
        Ok(found)
    }

    /// Returns the call that computes a producer and then the program of its result.
    fn call(self, producer: &Producer<'_>) -> Call {
        let &Producer { step, result, fused, .. } = producer;
        let (tensors, lines) = self.behind(result);
        // Absent operands at the end are passed explicitly, because the first tensor of the program comes after all operands.
        let own = step.inputs.iter().copied().chain(std::iter::repeat(None)).take(fused.inputs.len() - 1);
        let inputs = own.chain(tensors.into_iter().map(Some)).collect();
        let params = std::iter::once(Param::Ints(program(&lines).into())).chain(step.params.iter().cloned());
        Call { spec: fused, params: params.collect(), inputs }
    }

    /// Returns the program's tensors without `first`, and its lines, renumbered so that `first` is tensor 0.
    fn behind(self, first: TraceValue) -> (Vec<TraceValue>, Vec<Line>) {
        let Functions { tensors, mut lines } = self;
        let mut others: Vec<TraceValue> = Vec::with_capacity(tensors.len());
        for &tensor in &tensors {
            if tensor != first && !others.contains(&tensor) {
                others.push(tensor);
            }
        }
        // A tensor may occur several times.
        let place = |operand: usize| match tensors.get(operand) {
            Some(&tensor) if tensor == first => 0,
            Some(tensor) => 1 + others.iter().position(|other| other == tensor).unwrap_or_default(),
            None => operand - tensors.len() + 1 + others.len(),
        };
        for line in &mut lines {
            line.operands = line.operands.map(place);
        }
        (others, lines)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::super::NativeOps;
    use super::*;
    use crate::Backend;
    use crate::ext::{ConvOptions, Nn, OpSet, Scalar};
    use crate::plan::passes::samples;
    use crate::contract::PassSwitches;
    use crate::trace::{TraceStop, TracedTensor, Tracer};
    use bb_ir::op::Family;

    type Traced = Result<Vec<TracedTensor>, TraceStop>;

    fn fused(
        inputs: &[&[usize]],
        native: bool,
        function: impl FnOnce(&Tracer, &[TracedTensor]) -> Traced,
    ) -> (usize, String) {
        let conv = OpSet::NONE.with(NnOp::Conv as u16);
        let nn = if native { conv.with(NnOp::FusedConv as u16) } else { conv };
        let scalar = [ScalarOp::Fused, ScalarOp::Tanh, ScalarOp::Sin].iter();
        let scalar = scalar.fold(OpSet::NONE, |set, &op| set.with(op as u16));
        let natives = [(Family::Nn, nn), (Family::Scalar, scalar)];
        let mut trace = samples::native(&natives, inputs, function);
        let natives = NativeOps::of(&natives);
        let count = run(&mut trace, PassOptions { switches: PassSwitches::ON, natives, ..PassOptions::INTERPRETED }).unwrap();
        trace.check().unwrap();
        (count, trace.to_string())
    }

    const X: &[usize] = &[1, 2, 4, 4];
    const W: &[usize] = &[3, 2, 1, 1];
    const Y: &[usize] = &[1, 3, 4, 4];
    const OPTIONS: ConvOptions<'static> = ConvOptions { strides: &[], pads: &[], dilations: &[], group: 1 };

    #[test]
    fn functions_join_the_convolution_that_they_read() {
        // The program reads the convolution's result as its second tensor, and twice.
        let program = [0, 0, 1, 2, 2, 1];
        let (count, text) = fused(&[X, W, Y], true, |on, xs| {
            let y = on.conv(&xs[0], &xs[1], None, OPTIONS)?;
            Ok(vec![on.fused(&[&xs[2], &y], &program)?])
        });
        assert_eq!(count, 2);
        assert_eq!(
            text,
            "%5: f32[1, 3, 4, 4] = fused_conv(input0, input1, -, input2) {program=[0, 1, 0, 2, 2, 0], strides=[], \
             pads=[], dilations=[], group=1}\nreturn %5\n"
        );
        // A program of a single function, of one operand and of two.
        let (count, text) = fused(&[X, W, &[3]], true, |on, xs| {
            let y = on.conv(&xs[0], &xs[1], Some(&xs[2]), OPTIONS)?;
            Ok(vec![on.tanh(&y)?])
        });
        assert_eq!(count, 2);
        assert!(text.contains("fused_conv(input0, input1, input2) {program=[11, 0],"), "{text}");
        let (count, text) = fused(&[X, W, Y], true, |on, xs| {
            let y = on.conv(&xs[0], &xs[1], None, OPTIONS)?;
            Ok(vec![on.sub(&xs[2], &y)?])
        });
        assert_eq!(count, 2);
        assert!(text.contains("fused_conv(input0, input1, -, input2) {program=[1, 1, 0],"), "{text}");
    }

    #[test]
    fn of_two_convolutions_the_last_has_the_functions() {
        let (count, text) = fused(&[X, W], true, |on, xs| {
            let first = on.conv(&xs[0], &xs[1], None, OPTIONS)?;
            let second = on.conv(&on.neg(&xs[0])?, &xs[1], None, OPTIONS)?;
            Ok(vec![on.add(&second, &first)?])
        });
        assert_eq!(count, 2);
        assert!(text.contains("fused_conv(%3, input1, -, %2) {program=[0, 0, 1],"), "{text}");
    }

    #[test]
    fn what_others_read_or_broadcast_stays() {
        let same = |native, function: &dyn Fn(&Tracer, &[TracedTensor]) -> Traced| {
            let (count, text) = fused(&[X, W, &[2, 3, 4, 4]], native, function);
            assert_eq!(count, 0, "{text}");
        };
        let conv = |on: &Tracer, xs: &[TracedTensor]| on.conv(&xs[0], &xs[1], None, OPTIONS);
        // Not fused: another step reads the result, or the trace returns it.
        same(true, &|on, xs| {
            let y = conv(on, xs)?;
            Ok(vec![on.neg(&y)?, on.reduce_sum(&y, &[], false)?])
        });
        same(true, &|on, xs| {
            let y = conv(on, xs)?;
            Ok(vec![on.neg(&y)?, y])
        });
        // Not fused: the result is broadcast.
        same(true, &|on, xs| Ok(vec![on.add(&conv(on, xs)?, &xs[2])?]));
        // Not fused: a program cannot contain the function.
        same(true, &|on, xs| Ok(vec![on.sin(&conv(on, xs)?)?]));
        // Not fused: the backend does not compute both together.
        same(false, &|on, xs| Ok(vec![on.neg(&conv(on, xs)?)?]));
    }
}
