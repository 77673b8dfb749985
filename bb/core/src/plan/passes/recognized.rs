//! Helpers for passes that replace steps by one operation: they read numbers among the operands, check the readers, and replace
//! the steps.

use super::PassOptions;
use super::quantised::{calls, data};
use crate::trace::{StepId, StepOrigins, Trace, TraceEdit, TraceValue, Uses};
use crate::{DataType, Error, Primitive};
use bb_ir::{bf16, f16};

/// Returns the only float of a value that is known before anything runs. It may be a half.
pub(super) fn number(
    trace: &Trace,
    options: PassOptions<'_>,
    value: TraceValue,
) -> Result<Option<f32>, Error> {
    let Some(data) = data(trace, options, value)?.filter(|data| data.len() == 1) else { return Ok(None) };
    Ok(match data.dtype() {
        DataType::F32 => data.as_slice::<f32>()?.first().copied(),
        DataType::F16 => data.as_slice::<f16>()?.first().map(|x| x.to_f32()),
        DataType::BF16 => data.as_slice::<bf16>()?.first().map(|x| x.to_f32()),
        _ => None,
    })
}

/// Returns the value and the number that a step combines: `value + number`, `value * number` or `value / number`.
pub(super) fn with_number(
    trace: &Trace,
    options: PassOptions<'_>,
    step: StepId,
    op: Primitive,
) -> Result<Option<(TraceValue, f64)>, Error> {
    let step = trace.steps.get(step)?;
    let &[Some(a), Some(b)] = step.inputs.as_slice() else { return Ok(None) };
    if !calls(step, op.spec()) {
        return Ok(None);
    }
    let number = |value| number(trace, options, value);
    Ok(match (number(a)?, number(b)?) {
        (None, Some(number)) => Some((a, number.into())),
        (Some(number), None) if matches!(op, Primitive::Add | Primitive::Mul) => Some((b, number.into())),
        _ => None,
    })
}

/// Matches a step that multiplies or divides by a number. Returns the value and the factor.
pub(super) fn with_factor(
    trace: &Trace,
    options: PassOptions<'_>,
    step: StepId,
) -> Result<Option<(TraceValue, f64)>, Error> {
    if let Some(product) = with_number(trace, options, step, Primitive::Mul)? {
        return Ok(Some(product));
    }
    let quotient = with_number(trace, options, step, Primitive::Div)?;
    Ok(quotient.map(|(value, number)| (value, 1.0 / number)))
}

/// Returns true if no step outside the match uses an intermediate result.
pub(super) fn is_closed(trace: &Trace, uses: &Uses, steps: &[StepId], last: StepId) -> Result<bool, Error> {
    for &id in steps.iter().filter(|&&id| id != last) {
        for &value in &trace.steps.get(id)?.outputs {
            let inside = |reader: &StepId| steps.contains(reader);
            if uses.is_returned(value)? || !uses.readers(value)?.iter().all(inside) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Returns the nodes that the steps come from.
pub(super) fn origins(trace: &Trace, steps: &[StepId]) -> Result<StepOrigins, Error> {
    let mut origins = StepOrigins::new();
    for &step in steps {
        origins.extend(trace.steps.get(step)?.origins.iter().copied());
    }
    Ok(origins)
}

/// Lets the readers of `result` read `made` instead, and removes the steps that made `result`.
pub(super) fn replace(
    edit: &mut TraceEdit<'_>,
    result: TraceValue,
    made: TraceValue,
    steps: &[StepId],
) -> Result<(), Error> {
    edit.replace(result, made)?;
    steps.iter().try_for_each(|&step| edit.remove(step))
}
