//! Finds, before a run, the operations whose results may exceed their storage type.

use super::{Holding, Range};
use crate::erased::range::{Ranged, reach};
use crate::error::NarrowError;
use crate::trace::{Step, StepId, Table, Trace, TraceValue, ValueSource};
use bb_ir::op::{Param, Primitive};
use bb_ir::{DataType, DataTypes, TensorData};
use smallvec::SmallVec;

/// Returns the steps of a trace that may exceed the integer types of a backend with these types, for some inputs. `weight`
/// returns the elements of a constant.
///
/// For inputs, and for results of host kernels and native operations, only the range of the storage type is known.
pub fn exceeding<'t>(
    trace: &'t Trace,
    types: DataTypes,
    weight: impl Fn(ValueSource) -> Option<&'t TensorData>,
) -> Vec<(StepId, NarrowError)> {
    let holding = Holding { types, floats: false };
    let held = |dtype: DataType| holding.of(dtype).and_then(Range::of);
    let mut ranges: Table<TraceValue, Option<Range>> = trace
        .values
        .entries()
        .map(|info| weight(info.source).and_then(Range::of_elements).or_else(|| held(info.dtype)))
        .collect();
    let mut found = Vec::new();
    for (id, step) in trace.steps.iter() {
        let Some((result, told)) = result_of(trace, &ranges, holding, step) else { continue };
        for &value in &step.outputs {
            // A value that is missing in the table is missing in the trace too, which the check of the trace reports.
            let _unknown = ranges.set(value, told.as_ref().ok().copied().or_else(|| held(result)));
        }
        if let Err(error) = told {
            found.push((id, error));
        }
    }
    found
}

/// Returns the type of a step's results, and either their range or the error that they may exceed the storage type. Returns
/// `None` if nothing is known about the step.
fn result_of(
    trace: &Trace,
    ranges: &Table<TraceValue, Option<Range>>,
    holding: Holding,
    step: &Step,
) -> Option<(DataType, Result<Range, NarrowError>)> {
    let op = step.operation.primitive()?;
    let result = trace.values.get(*step.outputs.first()?).ok()?.dtype;
    let (all, held) = (Range::of(result)?, holding.of(result)?);
    let holder = Range::of(held)?;
    let mut operands: SmallVec<[Ranged<'_>; 3]> = SmallVec::new();
    for value in step.inputs.iter().flatten() {
        let range = ranges.get(*value).ok()?;
        operands.push(Ranged { range: (*range)?, shape: &trace.values.get(*value).ok()?.shape });
    }
    if op == Primitive::Constant {
        let Some(Param::Data(data)) = step.params.first() else { return None };
        return Some((result, Ok(Range::of_elements(data)?)));
    }
    let Some(told) = reach(op, &operands, &step.params) else {
        let values = crate::erased::range::values(op, operands.len());
        let moved = operands.get(values)?.iter().map(|x| x.range).reduce(Range::or)?;
        // A cast to a narrow type wraps values that do not fit.
        return Some((
            result,
            Ok(if holder.contains(moved) && all.contains(moved) { moved } else { all.within(holder) }),
        ));
    };
    let fits = held == result || result.bits() < held.bits() || holder.contains(told.all);
    let error = NarrowError::Exceeds { op: op.spec().method, dtype: result, held };
    let range =
        if all.contains(told.all) && holder.contains(told.all) { told.result } else { all.within(holder) };
    Some((result, if fits { Ok(range) } else { Err(error) }))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::trace::{InputIndex, TableIndex, TracedTensor, Tracer, Varies};
    use crate::{Backend, Tensor};

    /// Traces a function of a vector of three `i64` elements, and returns the operations that may exceed `i32`.
    fn exceeds(f: impl FnOnce(&Tracer, &TracedTensor) -> TracedTensor) -> Vec<&'static str> {
        let on = Tracer::default();
        let x = on.input(InputIndex::at(0), "x", DataType::I64, &[3], &Varies::Nothing, None);
        let y = f(&on, &x);
        assert_eq!(y.dtype(), DataType::I64);
        let trace = on.finish(vec![y.read()]);
        let types = DataTypes::of(&[DataType::F32, DataType::I32, DataType::Bool]);
        let weight = |source| match source {
            ValueSource::Constant(index) => trace.constants.get(index).ok(),
            _ => None,
        };
        let name = |error: &NarrowError| match error {
            NarrowError::Exceeds { op, .. } | NarrowError::Lacks { op, .. } => *op,
        };
        exceeding(&trace, types, weight).iter().map(|(_, error)| name(error)).collect()
    }

    #[test]
    fn arithmetic_of_inputs_may_exceed_and_movement_does_not() {
        let one = TensorData::scalar(1i64);
        assert_eq!(exceeds(|on, x| on.add(x, &on.constant(&one).unwrap()).unwrap()), ["add"]);
        assert_eq!(exceeds(|on, x| on.concat(&[x, x], 0).unwrap()), [""; 0]);
        assert_eq!(exceeds(|on, x| on.reduce_max(x, &[], true).unwrap()), [""; 0]);
    }

    #[test]
    fn what_follows_from_truth_values_and_constants_is_in_range() {
        let sum = |on: &Tracer, x: &TracedTensor| {
            let positive = on.greater(x, &on.constant(&TensorData::scalar(0i64)).unwrap()).unwrap();
            let counts = on.cast(&positive, DataType::I64, true, bb_ir::op::RoundMode::Up).unwrap();
            on.reduce_sum(&counts, &[], true).unwrap()
        };
        assert_eq!(exceeds(sum), [""; 0]);
        let large = |on: &Tracer, x: &TracedTensor| {
            let factor = on.constant(&TensorData::scalar(1i64 << 31)).unwrap();
            on.mul(&sum(on, x), &factor).unwrap()
        };
        assert_eq!(exceeds(large), ["mul"]);
    }
}
