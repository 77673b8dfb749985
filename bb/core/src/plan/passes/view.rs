//! A read-only view of a trace for passes: which steps compute and read its values, and which values are known.

use super::PassOptions;
use super::quantised::calls;
use crate::trace::{Step, StepId, Trace, TraceValue, Uses, ValueSource};
use crate::{DataType, Error, Primitive};
use bb_ir::{TensorData, bf16, f16};

/// The shape and the elements of a tensor.
type Floats<'t> = (&'t [usize], &'t [f32]);

/// A trace with the uses of its values, and the options of the pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'t> {
    pub(super) trace: &'t Trace,
    pub(super) uses: &'t Uses,
    pub(super) options: PassOptions<'t>,
}

impl<'t> View<'t> {
    /// Returns the step that computes a value; `None` for inputs and constants.
    pub(super) fn maker(self, value: TraceValue) -> Result<Option<(StepId, &'t Step)>, Error> {
        let Some(id) = self.uses.maker(value)? else { return Ok(None) };
        Ok(Some((id, self.trace.steps.get(id)?)))
    }

    /// Returns the step that computes a value, if `reader` is the only reader of the value.
    pub(super) fn maker_for(
        self,
        value: TraceValue,
        reader: StepId,
    ) -> Result<Option<(StepId, &'t Step)>, Error> {
        if self.uses.only_reader(value)? == Some(reader) { self.maker(value) } else { Ok(None) }
    }

    /// Returns the elements of a constant or a weight; `None` for other values.
    pub(super) fn data(self, value: TraceValue) -> Result<Option<&'t TensorData>, Error> {
        Ok(match self.trace.values.get(value)?.source {
            ValueSource::Constant(index) => Some(self.trace.constants.get(index)?),
            ValueSource::Weight(id) => Some(self.options.weights.get(id)?),
            ValueSource::Input(_) | ValueSource::Step => None,
        })
    }

    /// Returns the floats of a constant or a weight; `None` for other values and types.
    pub(super) fn floats(self, value: TraceValue) -> Result<Option<Floats<'t>>, Error> {
        match self.data(value)? {
            Some(data) if data.dtype() == DataType::F32 => Ok(Some((data.shape(), data.as_slice()?))),
            _ => Ok(None),
        }
    }

    /// Returns the only element of an `f32` constant or weight; `None` for other values.
    pub(super) fn scalar(self, value: TraceValue) -> Result<Option<f32>, Error> {
        Ok(match self.floats(value)? {
            Some((_, &[only])) => Some(only),
            _ => None,
        })
    }

    /// Returns the only element of a constant or weight, which may be a half float; `None` for other values.
    pub(super) fn number(self, value: TraceValue) -> Result<Option<f32>, Error> {
        let Some(data) = self.data(value)?.filter(|data| data.len() == 1) else { return Ok(None) };
        Ok(match data.dtype() {
            DataType::F32 => data.as_slice::<f32>()?.first().copied(),
            DataType::F16 => data.as_slice::<f16>()?.first().map(|x| x.to_f32()),
            DataType::BF16 => data.as_slice::<bf16>()?.first().map(|x| x.to_f32()),
            _ => None,
        })
    }

    /// Matches a step that multiplies or divides by a number. Returns the other operand and the factor.
    pub(super) fn with_factor(self, step: &Step) -> Result<Option<(TraceValue, f64)>, Error> {
        let [multiplies, divides] = [Primitive::Mul, Primitive::Div].map(|op| calls(step, op.spec()));
        let &[Some(a), Some(b)] = step.inputs.as_slice() else { return Ok(None) };
        if !multiplies && !divides {
            return Ok(None);
        }
        Ok(match (self.number(a)?, self.number(b)?) {
            (None, Some(number)) if divides => Some((a, 1.0 / f64::from(number))),
            (None, Some(number)) => Some((a, number.into())),
            (Some(number), None) if multiplies => Some((b, number.into())),
            _ => None,
        })
    }

    /// Returns whether no step outside the match uses an intermediate result.
    pub(super) fn is_closed(self, steps: &[StepId], last: StepId) -> Result<bool, Error> {
        for &id in steps.iter().filter(|&&id| id != last) {
            for &value in &self.trace.steps.get(id)?.outputs {
                let inside = |reader: &StepId| steps.contains(reader);
                if self.uses.is_returned(value)? || !self.uses.readers(value)?.iter().all(inside) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}
