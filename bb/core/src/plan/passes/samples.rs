//! Traces for the tests of passes.

use crate::ext::OpSet;
use crate::trace::{InputIndex, TableIndex, Trace, TraceStop, TracedTensor, Tracer, Varies};
use crate::{DataType, TensorData};
use bb_ir::op::Family;

/// Traces a function on `f32` inputs of these shapes.
pub(super) fn traced(
    inputs: &[&[usize]],
    function: impl FnOnce(&Tracer, &[TracedTensor]) -> Result<Vec<TracedTensor>, TraceStop>,
) -> Trace {
    on_tracer(Tracer::default(), &Varies::Everything, inputs, function)
}

/// Traces a function for a backend with native operations, on `f32` inputs of these shapes.
pub(super) fn native(
    natives: &[(Family, OpSet)],
    inputs: &[&[usize]],
    function: impl FnOnce(&Tracer, &[TracedTensor]) -> Result<Vec<TracedTensor>, TraceStop>,
) -> Trace {
    on_tracer(Tracer::new(natives.to_vec(), usize::MAX), &Varies::Everything, inputs, function)
}

/// Traces a function on `f32` inputs. `varies` selects the extents that may differ in other runs.
pub(super) fn on_tracer(
    on: Tracer,
    varies: &Varies,
    inputs: &[&[usize]],
    function: impl FnOnce(&Tracer, &[TracedTensor]) -> Result<Vec<TracedTensor>, TraceStop>,
) -> Trace {
    let input = |(at, shape): (usize, &&[usize])| {
        on.input(InputIndex::at(at), "x", DataType::F32, shape, varies, None)
    };
    let inputs: Vec<TracedTensor> = inputs.iter().enumerate().map(input).collect();
    let outputs = function(&on, &inputs).unwrap().iter().map(TracedTensor::read).collect();
    on.finish(outputs)
}

/// Returns zeros. With more than 4096 elements they stay an operand of a step, because the tracer itself computes with smaller
/// constants.
pub(super) fn zeros(on: &Tracer, shape: &[usize]) -> TracedTensor {
    crate::Backend::constant(on, &TensorData::zeros(DataType::F32, shape, usize::MAX).unwrap()).unwrap()
}
