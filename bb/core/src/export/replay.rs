//! Traces the steps of a trace again, with the operations that an export requires.

use crate::trace::{
    Liveness, Operation, Table, Trace, TraceStop, TraceValue, TracedTensor, Tracer, ValueSource, Varies,
    Weight, WeightId, held,
};
use crate::{Backend, Error, Tensor};
use bb_ir::op::{OpSpec, Param};
use bb_ir::{DataType, Shape};
use smallvec::SmallVec;

/// The result of replaying a trace.
pub(super) struct Replayed {
    pub(super) recorded: Trace,
    /// The inputs whose extents the lowered operations depend on, as a bit mask.
    pub(super) consulted: u64,
}

/// Checks that the replacements of a step's results have the same number, element types and shapes.
fn as_before(
    recorded: &Trace,
    op: &'static OpSpec,
    before: &[TraceValue],
    results: SmallVec<[TracedTensor; 1]>,
) -> Result<SmallVec<[TracedTensor; 1]>, Error> {
    if results.len() != before.len() {
        let (expected, got) = (before.len(), results.len());
        return Err(Error::Results { op: op.method.to_owned(), expected, got });
    }
    for (result, value) in results.iter().zip(before) {
        let expected = recorded.values.get(*value)?;
        if result.dtype() != expected.dtype {
            return Err(bb_ir::Error::DataType { expected: expected.dtype, got: result.dtype() }.into());
        }
        // `present` reads the extents without recording a query, which would tie the trace to them.
        let shape = result.present();
        if *shape != expected.shape {
            let (left, right) = ((&*expected.shape).into(), (&**shape).into());
            return Err(bb_ir::Error::Shapes { op: op.method, left, right }.into());
        }
    }
    Ok(results)
}

/// A rule that may replace a step, based on its operation, operands and parameters. `None` leaves the step as it is.
pub(super) type Rule<'a> = dyn FnMut(
        &Tracer,
        &'static OpSpec,
        &[Option<&TracedTensor>],
        &[Param<'static>],
    ) -> Result<Option<SmallVec<[TracedTensor; 1]>>, TraceStop>
    + 'a;

/// Traces the steps that the outputs need again, on another tracer. Operations that this tracer does not keep become the
/// primitives of their bodies.
///
/// # Errors
///
/// Those of the bodies and of the rule.
pub(super) fn replay(
    recorded: &Trace,
    weight: &dyn Fn(WeightId) -> Option<Weight>,
    on: Tracer,
    rule: &mut Rule<'_>,
) -> Result<Replayed, Error> {
    let mut values: Table<TraceValue, Option<TracedTensor>> = Table::default();
    for value in recorded.values.entries() {
        values.push(match value.source {
            ValueSource::Input(index) => {
                Some(on.input(index, "", value.dtype, &value.shape, &Varies::Everything, None))
            }
            ValueSource::Weight(id) => weight(id).map(|(_, data)| on.weight(id, &data)),
            ValueSource::Constant(index) => Some(on.constant(recorded.constants.get(index)?)?),
            ValueSource::Step => None,
        });
    }
    let liveness = Liveness::of(recorded)?;
    for (id, step) in recorded.steps.iter() {
        if !liveness.is_live(id)? {
            continue;
        }
        let outputs = {
            let mut inputs: Vec<Option<&TracedTensor>> = Vec::with_capacity(step.inputs.len());
            for input in &step.inputs {
                inputs.push(input.map(|value| held(values.get(value)?.as_ref(), value)).transpose()?);
            }
            match step.operation {
                Operation::Row(spec) => match rule(&on, spec, &inputs, &step.params)? {
                    Some(outputs) => as_before(recorded, spec, &step.outputs, outputs)?,
                    None => crate::ext::call(&on, spec, &inputs, &step.params)?,
                },
                Operation::Host(body) => {
                    let mut types: Vec<(DataType, Shape)> = Vec::with_capacity(step.outputs.len());
                    for output in &step.outputs {
                        let value = recorded.values.get(*output)?;
                        types.push((value.dtype, value.shape.clone()));
                    }
                    on.record_host(body, &inputs, &step.params, &types)?
                }
            }
        };
        for (&value, output) in step.outputs.iter().zip(outputs) {
            values.set(value, Some(output))?;
        }
    }
    let mut outputs = Vec::with_capacity(recorded.outputs.len());
    for &value in &recorded.outputs {
        outputs.push(held(values.get(value)?.as_ref(), value)?.read());
    }
    let consulted = on.consulted();
    Ok(Replayed { recorded: on.finish(outputs), consulted })
}
