//! Runs the steps of a trace one by one, for calls that need no plan.

use super::liveness::LiveStep;
use super::steps::{Operation, Trace, TraceValue, ValueSource};
use super::table::{Table, TableIndex, held};
use crate::{Error, Outputs};
use bb_ir::TensorData;
use bb_ir::op::Param;
use smallvec::SmallVec;

/// Calls an operation with operands and parameters.
pub(crate) type CallStep<'a, T, E> =
    dyn Fn(Operation, &[Option<&T>], &[Param<'_>]) -> Result<Outputs<T>, E> + 'a;

impl Trace {
    /// Runs steps of this trace and returns its outputs. Constants are created when a step first reads them.
    ///
    /// # Errors
    ///
    /// The errors of `constant` and `call`; [`Error::Internal`] if a value is missing.
    pub(crate) fn run<T: Clone, E: From<Error>>(
        &self,
        steps: &[LiveStep],
        inputs: &[Option<&T>],
        constant: &dyn Fn(&TensorData) -> Result<T, E>,
        call: &CallStep<'_, T, E>,
    ) -> Result<Outputs<T>, E> {
        let mut values: Table<TraceValue, Option<T>> = Table::with(self.values.len(), || None);
        let bring = |values: &mut Table<TraceValue, Option<T>>, value: TraceValue| -> Result<(), E> {
            if values.get(value)?.is_none() {
                let found = match self.values.get(value)?.source {
                    ValueSource::Input(at) => inputs.get(at.position()).copied().flatten().cloned(),
                    ValueSource::Constant(at) => Some(constant(self.constants.get(at)?)?),
                    ValueSource::Weight(_) | ValueSource::Step => None,
                };
                values.set(value, found)?;
            }
            Ok(())
        };
        for LiveStep { id, frees } in steps {
            let step = self.steps.get(*id)?;
            for value in step.reads() {
                bring(&mut values, value)?;
            }
            let results = {
                let mut operands: SmallVec<[Option<&T>; 4]> = SmallVec::new();
                for value in &step.inputs {
                    operands.push(value.map(|value| held(values.get(value)?.as_ref(), value)).transpose()?);
                }
                call(step.operation, &operands, &step.params)?
            };
            for (&value, result) in step.outputs.iter().zip(results) {
                values.set(value, Some(result))?;
            }
            for &value in frees {
                values.set(value, None)?;
            }
        }
        let mut outputs = Outputs::with_capacity(self.outputs.len());
        for &value in &self.outputs {
            bring(&mut values, value)?;
            outputs.push(held(values.get(value)?.clone(), value)?);
        }
        Ok(outputs)
    }
}
