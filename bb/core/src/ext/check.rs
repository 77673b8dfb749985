//! Checks the invariants of a trace that passes and plans rely on.
//!
//! The invariants are: each value is written once, before it is read; element types and extents follow the operations'
//! rules; constants have the types and shapes that their values declare; steps that run once read nothing that differs
//! between runs.

use super::vendor;
use crate::error::TraceFault;
use crate::trace::{
    ConstantIndex, InputIndex, Operation, Phase, Step, StepId, Table, TableIndex, Trace, TraceStop,
    TraceValue, TracedTensor, Tracer, ValueSource, Varies,
};
use crate::{DataType, Error, Tensor};
use bb_ir::op::{OpSpec, Param};
use bb_ir::{Shape, infer};

/// When a value is available, at a point of the trace.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Availability {
    No,
    Once,
    EachRun,
}

impl Trace {
    /// Checks the trace.
    ///
    /// # Errors
    ///
    /// [`Internal::Trace`](crate::Internal::Trace) with the first violation;
    /// [`Internal::NoEntry`](crate::Internal::NoEntry) for an index without an entry.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.check_order()?;
        self.steps.iter().try_for_each(|(id, step)| self.check_results(id, step))
    }

    /// Checks that each value is written once, before it is read, and that constants match their values. Does not check
    /// the operations' rules.
    ///
    /// # Errors
    ///
    /// The errors of [`check`](Self::check).
    pub(crate) fn check_order(&self) -> Result<(), Error> {
        let mut made: Table<TraceValue, Availability> = Table::with(self.values.len(), || Availability::No);
        for (value, info) in self.values.iter() {
            made.set(
                value,
                match info.source {
                    ValueSource::Input(_) => Availability::EachRun,
                    ValueSource::Weight(_) => Availability::Once,
                    ValueSource::Constant(index) => {
                        self.check_constant(value, index)?;
                        Availability::Once
                    }
                    ValueSource::Step => Availability::No,
                },
            )?;
        }
        for (id, step) in self.steps.iter() {
            for value in step.reads() {
                match (made.get(value)?, step.phase) {
                    (Availability::No, _) => {
                        return Err(TraceFault::NotMade { reader: of(id), value: self.name(value) }.into());
                    }
                    (Availability::EachRun, Phase::Once) => {
                        return Err(TraceFault::Varies { step: of(id), value: self.name(value) }.into());
                    }
                    _ => {}
                }
            }
            for &value in &step.outputs {
                if *made.get(value)? != Availability::No {
                    return Err(TraceFault::MadeTwice { step: of(id), value: self.name(value) }.into());
                }
                made.set(
                    value,
                    if step.phase == Phase::Once { Availability::Once } else { Availability::EachRun },
                )?;
            }
        }
        for &value in &self.outputs {
            if *made.get(value)? == Availability::No {
                let reader = "`return`".to_owned();
                return Err(TraceFault::NotMade { reader, value: self.name(value) }.into());
            }
        }
        Ok(())
    }

    fn check_constant(&self, value: TraceValue, index: ConstantIndex) -> Result<(), Error> {
        let data = self.constants.get(index)?;
        self.check_type(value, data.dtype(), data.shape())
    }

    /// Checks that a value has this element type and these extents.
    ///
    /// # Errors
    ///
    /// [`Internal::Trace`](crate::Internal::Trace) if the type or the extents differ.
    pub(crate) fn check_type(
        &self,
        value: TraceValue,
        dtype: DataType,
        shape: &[usize],
    ) -> Result<(), Error> {
        let info = self.values.get(value)?;
        if info.dtype == dtype && info.shape.as_slice() == shape {
            return Ok(());
        }
        let got = (info.dtype, info.shape.to_vec());
        Err(TraceFault::Type { value: self.name(value), expected: (dtype, shape.to_vec()), got }.into())
    }

    /// Checks the results of a step with the rule of its operation.
    ///
    /// # Errors
    ///
    /// The errors of [`check`](Self::check).
    pub(crate) fn check_results(&self, id: StepId, step: &Step) -> Result<(), Error> {
        let Some(expected) = self.results_of(id, step)? else { return Ok(()) };
        let (expected_count, got) = (expected.len(), step.outputs.len());
        if expected_count != got {
            return Err(TraceFault::Results { step: of(id), expected: expected_count, got }.into());
        }
        for (&value, (dtype, shape)) in step.outputs.iter().zip(&expected) {
            self.check_type(value, *dtype, shape)?;
        }
        Ok(())
    }

    /// Returns the types and extents of a step's results; `None` if only running the step determines them.
    ///
    /// # Errors
    ///
    /// [`Internal::Trace`](crate::Internal::Trace) if the operation refuses the operands.
    pub(crate) fn results_of(
        &self,
        id: StepId,
        step: &Step,
    ) -> Result<Option<Vec<(DataType, Shape)>>, Error> {
        let refused = |error: &(dyn std::error::Error + 'static)| -> Error {
            TraceFault::Refused { step: of(id), reason: crate::error::causes(error) }.into()
        };
        let Operation::Row(spec) = step.operation else { return Ok(None) };
        match step.operation.primitive() {
            Some(primitive) => {
                let mut types: Vec<(DataType, &[usize])> = Vec::with_capacity(step.inputs.len());
                for value in step.reads() {
                    let info = self.values.get(value)?;
                    types.push((info.dtype, &info.shape));
                }
                let results = infer::primitive(primitive, &types, &step.params);
                Ok(Some(results.map_err(|error| refused(&error))?.into_iter().collect()))
            }
            None => self.results_of_body(id, spec, step),
        }
    }

    /// Returns the types and extents of the results of a family's operation, by tracing its body.
    fn results_of_body(
        &self,
        id: StepId,
        spec: &'static OpSpec,
        step: &Step,
    ) -> Result<Option<Vec<(DataType, Shape)>>, Error> {
        // A vendor operation may have no body; only its result types are needed here.
        let natives = vendor::operation(spec).map(|_| vendor::alone(spec)).into_iter().collect();
        let on = Tracer::new(natives, usize::MAX);
        let mut operands: Vec<Option<TracedTensor>> = Vec::with_capacity(step.inputs.len());
        for input in &step.inputs {
            let Some(value) = input else {
                operands.push(None);
                continue;
            };
            let info = self.values.get(*value)?;
            let known = match info.source {
                ValueSource::Constant(index) => Some(self.constants.get(index)?.clone()),
                _ => None,
            };
            operands.push(Some(on.input(
                InputIndex::at(0),
                "",
                info.dtype,
                &info.shape,
                &Varies::Nothing,
                known,
            )));
        }
        let operands: Vec<Option<&TracedTensor>> = operands.iter().map(Option::as_ref).collect();
        match super::call(&on, spec, &operands, &step.params) {
            Ok(results) => {
                Ok(Some(results.iter().map(|x| (x.dtype(), Shape::from_slice(x.shape()))).collect()))
            }
            Err(TraceStop::Needs(_)) => Ok(None),
            Err(TraceStop::Error(error)) => {
                Err(TraceFault::Refused { step: of(id), reason: crate::error::causes(&error) }.into())
            }
        }
    }
}

/// Formats a step for an error message.
fn of(id: StepId) -> String {
    format!("step {id}")
}

/// Returns the element types and extents of the results of an operation, as its body has them; `None` if only running the body gives
/// them.
#[doc(hidden)]
pub fn result_types<'a>(
    spec: &'static OpSpec,
    operands: impl Iterator<Item = Option<(DataType, &'a [usize])>>,
    params: &[Param<'_>],
) -> Option<Vec<(DataType, Vec<usize>)>> {
    let on = Tracer::default();
    let traced = |(at, x): (usize, Option<(DataType, &[usize])>)| {
        x.map(|(dtype, shape)| on.input(InputIndex::at(at), "", dtype, shape, &Varies::Nothing, None))
    };
    let operands: Vec<Option<TracedTensor>> = operands.enumerate().map(traced).collect();
    let operands: Vec<Option<&TracedTensor>> = operands.iter().map(Option::as_ref).collect();
    let results = super::call(&on, spec, &operands, params).ok()?;
    Some(results.iter().map(|y| (y.dtype(), y.shape().to_vec())).collect())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::error::Internal;
    use crate::{Backend, TensorData};

    /// Returns a valid trace of `exp(-x) + 1`. Its values are: 0 the input, 1 the result of `neg`, 2 of `exp`, 3 the
    /// constant, 4 the sum.
    fn sound() -> Trace {
        let on = Tracer::default();
        let x = on.input(InputIndex::at(0), "x", DataType::F32, &[2], &Varies::Everything, None);
        let y = on.exp(&on.neg(&x).unwrap()).unwrap();
        let one = on.constant(&TensorData::scalar(1f32)).unwrap();
        let sum = on.add(&y, &one).unwrap();
        on.finish([sum].iter().map(TracedTensor::read).collect())
    }

    /// Applies a change that breaks the trace, and returns the violation that the check finds.
    fn fault(plant: impl FnOnce(&mut Trace)) -> TraceFault {
        let mut trace = sound();
        trace.check().unwrap();
        plant(&mut trace);
        match trace.check() {
            Err(Error::Internal(Internal::Trace(fault))) => fault,
            other => panic!("expected a fault, got {other:?}"),
        }
    }

    fn step(trace: &mut Trace, at: usize) -> &mut Step {
        trace.steps.get_mut(StepId::at(at)).unwrap()
    }

    #[test]
    fn a_value_is_made_before_it_is_read() {
        let found = fault(|trace| step(trace, 0).inputs[0] = Some(TraceValue::at(2)));
        assert_eq!(found.to_string(), "step 0 reads `%2`, which nothing before it makes");
        let found = fault(|trace| trace.steps.truncate(2));
        assert_eq!(found.to_string(), "`return` reads `%4`, which nothing before it makes");
    }

    #[test]
    fn a_value_is_made_once() {
        let found = fault(|trace| step(trace, 1).outputs[0] = TraceValue::at(1));
        assert_eq!(found.to_string(), "step 1 makes `%1`, which is made already");
        let found = fault(|trace| step(trace, 0).outputs[0] = TraceValue::at(0));
        assert_eq!(found.to_string(), "step 0 makes `input0`, which is made already");
    }

    #[test]
    fn results_are_what_the_rule_gives() {
        let found = fault(|trace| {
            trace.values.get_mut(TraceValue::at(1)).unwrap().shape = Shape::from_slice(&[3]);
        });
        assert_eq!(found.to_string(), "`%1` is f32[3], expected f32[2]");
        let found = fault(|trace| trace.values.get_mut(TraceValue::at(1)).unwrap().dtype = DataType::F64);
        assert_eq!(found.to_string(), "`%1` is f64[2], expected f32[2]");
        let found = fault(|trace| {
            let info = trace.values.get(TraceValue::at(1)).unwrap().clone();
            let more = trace.values.push(info);
            step(trace, 0).outputs.push(more);
        });
        assert_eq!(found.to_string(), "step 0 makes 2 values, expected 1");
    }

    #[test]
    fn operands_are_those_that_the_rule_takes() {
        let found = fault(|trace| step(trace, 2).inputs.truncate(1));
        assert!(matches!(found, TraceFault::Refused { .. }), "{found}");
    }

    #[test]
    fn a_constant_is_what_its_value_says() {
        let found = fault(|trace| {
            let constant = trace.constants.get_mut(ConstantIndex::at(0)).unwrap();
            *constant = TensorData::scalar(1i64);
        });
        assert_eq!(found.to_string(), "`constant0` is f32[], expected i64[]");
    }

    #[test]
    fn what_runs_once_reads_nothing_that_differs_between_runs() {
        let found = fault(|trace| step(trace, 0).phase = Phase::Once);
        assert_eq!(found.to_string(), "step 0 runs once, but reads `input0`, which differs between runs");
    }

    #[test]
    fn an_index_without_an_entry_is_found() {
        let mut trace = sound();
        step(&mut trace, 1).inputs[0] = Some(TraceValue::at(9));
        assert!(matches!(trace.check(), Err(Error::Internal(Internal::NoEntry { index: 9, .. }))));
    }
}
