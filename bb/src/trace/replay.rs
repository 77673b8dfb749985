//! A trace of families' operations, traced again as an export wants it.

use super::export::{Weight, live_steps};
use super::keep::Policy;
use super::steps::{Operation, Source, Trace, ValueNo};
use super::{TracedTensor, Tracer};
use crate::{Backend, Error};
use bb_ir::{DataType, Shape};

/// A trace with the results in it.
pub(super) struct Replayed {
    pub(super) recorded: Trace,
    pub(super) results: Vec<ValueNo>,
    /// The inputs, as bits, on whose extents what was lowered depends.
    pub(super) consulted: u64,
}

/// Traces the steps that the results need once more; what is not kept becomes the primitives of its body.
///
/// # Errors
///
/// Those of the bodies.
pub(super) fn replay(
    recorded: &Trace,
    results: &[ValueNo],
    weight: &dyn Fn(u32) -> Option<Weight>,
    policy: Policy,
) -> Result<Replayed, Error> {
    let on = Tracer::of_export(policy);
    let mut values: Vec<Option<TracedTensor>> = Vec::with_capacity(recorded.values.len());
    for value in &recorded.values {
        values.push(match value.source {
            Source::Input(i) => Some(on.input(i, value.dtype, &value.shape, true, None)),
            Source::Weight(i) => weight(i).map(|(_, data)| on.weight(i, &data)),
            Source::Constant(i) => recorded.constants.get(i as usize).map(|c| on.constant(c)).transpose()?,
            Source::Step => None,
        });
    }
    let live = live_steps(recorded, results);
    for (step, _) in recorded.steps.iter().zip(&live).filter(|(_, live)| **live) {
        let outputs = {
            let inputs: Vec<Option<&TracedTensor>> = step
                .inputs
                .iter()
                .map(|no| no.map(|no| get(&values, no)).transpose())
                .collect::<Result<_, _>>()?;
            match step.operation {
                Operation::Row(spec) => crate::ext::call(&on, spec, &inputs, &step.params)?,
                Operation::Host(body) => {
                    let types: Vec<(DataType, Shape)> = step
                        .outputs
                        .iter()
                        .filter_map(|no| recorded.values.get(*no as usize))
                        .map(|value| (value.dtype, value.shape.clone()))
                        .collect();
                    on.record_host(body, &inputs, &step.params, &types)?
                }
            }
        };
        for (&no, output) in step.outputs.iter().zip(outputs) {
            if let Some(place) = values.get_mut(no as usize) {
                *place = Some(output);
            }
        }
    }
    let results = results.iter().map(|no| Ok(get(&values, *no)?.no())).collect::<Result<_, Error>>()?;
    let consulted = on.consulted();
    Ok(Replayed { recorded: on.finish(), results, consulted })
}

fn get(values: &[Option<TracedTensor>], no: ValueNo) -> Result<&TracedTensor, Error> {
    let found = values.get(no as usize).and_then(Option::as_ref);
    found.ok_or_else(|| Error::MissingOutput { name: format!("%{no}") })
}
