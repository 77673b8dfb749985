//! A trace of families' operations, traced again as an export wants it.

use crate::trace::{
    Liveness, Operation, Policy, Table, Trace, TraceValue, TracedTensor, Tracer, ValueSource, Varies, Weight,
    WeightId, held,
};
use crate::{Backend, Error};
use bb_ir::{DataType, Shape};

/// A trace that was traced again.
pub(super) struct Replayed {
    pub(super) recorded: Trace,
    /// The inputs, as bits, on whose extents what was lowered depends.
    pub(super) consulted: u64,
}

/// Traces the steps that the outputs need once more; what is not kept becomes the primitives of its body.
///
/// # Errors
///
/// Those of the bodies.
pub(super) fn replay(
    recorded: &Trace,
    weight: &dyn Fn(WeightId) -> Option<Weight>,
    policy: Policy,
) -> Result<Replayed, Error> {
    let on = Tracer::of_export(policy);
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
                Operation::Row(spec) => crate::ext::call(&on, spec, &inputs, &step.params)?,
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
