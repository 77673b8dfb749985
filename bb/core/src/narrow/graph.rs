//! Narrows graphs for a backend that runs whole graphs and lacks element types.
//!
//! Consecutive steps become a graph in the types that the backend has. Each value has the type that the backend uses to store
//! its elements, its storage type; see [`NarrowTensor`]. That is exact only if it is known before the run that every result
//! fits its storage type ([`KnownRanges`]), because values between the nodes of a graph are not checked. Steps without this
//! guarantee are not part of a graph: each is called as a single operation, with the ranges of the actual elements. `ready()`
//! names these steps (`range_report.rs`), unless the deployment accepts them.

use super::{NarrowTensor, NarrowedOn};
use crate::erased::{ErasedError, ErasedTensor};
use crate::plan::{GraphOutput, NarrowedGraph};
use crate::trace::TraceValue;
use crate::{BackendAttrs, Error, GraphProto, Tensor};
use smallvec::SmallVec;
use std::collections::HashMap;

/// The inputs or outputs of a graph, by name.
type Named = HashMap<String, NarrowTensor>;

impl NarrowedOn<'_> {
    /// Runs a graph as a whole. If no type of the backend can store the elements of an input, calls the original steps one by
    /// one.
    ///
    /// # Errors
    ///
    /// The backend's own errors; [`Error::MissingOutput`]; the errors of a step.
    pub(super) fn run_graph(
        &self,
        narrowed: &NarrowedGraph,
        graph: &GraphProto,
        inputs: Named,
        attrs: BackendAttrs<'_>,
    ) -> Result<Named, ErasedError> {
        let held = inputs.iter().map(|(name, x)| Some((name.clone(), x.on_device()?.clone())));
        let Some(held) = held.collect::<Option<HashMap<String, ErasedTensor>>>() else {
            return self.run_steps(narrowed, inputs);
        };
        let mut results = self.device().execute(graph, held, attrs.with_narrowed::<NarrowedGraph>(None))?;
        let mut outputs = HashMap::with_capacity(narrowed.outputs.len());
        for GraphOutput { name, dtype, range, .. } in &narrowed.outputs {
            let y = results.remove(name).ok_or_else(|| Error::missing_output(name, &results))?;
            let own = y.dtype();
            let stands = self.holding().of(*dtype) == Some(own);
            let y = NarrowTensor::device(if stands { *dtype } else { own }, y, range.filter(|_| stands));
            outputs.insert(name.clone(), y);
        }
        Ok(outputs)
    }

    fn run_steps(&self, narrowed: &NarrowedGraph, mut inputs: Named) -> Result<Named, ErasedError> {
        let mut values: HashMap<TraceValue, NarrowTensor> = HashMap::new();
        for (name, value) in &narrowed.inputs {
            let missing = || Error::MissingInput { name: name.clone(), expected: Vec::new() };
            values.insert(*value, inputs.remove(name).ok_or_else(missing)?);
        }
        for (value, data) in &narrowed.constants {
            values.insert(*value, self.bring(data)?);
        }
        let lost = || Error::excluded("the values of a graph to be computed in order");
        for step in &narrowed.steps {
            let op = step.operation.primitive().ok_or_else(lost)?;
            let operand = |value: &Option<TraceValue>| match value {
                None => Ok(None),
                Some(value) => values.get(value).map(Some).ok_or_else(lost),
            };
            let results = {
                let operands: SmallVec<[Option<&NarrowTensor>; 4]> =
                    step.inputs.iter().map(operand).collect::<Result<_, Error>>()?;
                self.apply(op, &operands, &step.params)?
            };
            values.extend(step.outputs.iter().copied().zip(results));
        }
        let output = |output: &GraphOutput| {
            Ok((output.name.clone(), values.get(&output.value).cloned().ok_or_else(lost)?))
        };
        Ok(narrowed.outputs.iter().map(output).collect::<Result<_, Error>>()?)
    }
}
