//! Computes half floats (`f16` and `bf16`) in `f32`: in the whole trace, or only where squares could overflow.

mod squares;
mod whole;

use super::{Pass, PassOptions, quantised};
use crate::plan::engine::Engine;
use crate::trace::{StepId, Trace, TraceEdit, TraceValue};
use crate::{DataType, Error, Primitive};
use bb_ir::op::{Param, RoundMode};

pub(super) const PASS: Pass =
    Pass { name: "widen-halves", engines: &[Engine::Interpreter, Engine::WholeGraph], run };

fn run(trace: &mut Trace, options: PassOptions<'_>) -> Result<usize, Error> {
    match options.switches.widen_halves {
        true => whole::run(trace),
        false => squares::run(trace, options),
    }
}

fn is_half(trace: &Trace, value: TraceValue) -> Result<bool, Error> {
    Ok(matches!(trace.values.get(value)?.dtype, DataType::F16 | DataType::BF16))
}

/// Inserts a cast.
fn cast(edit: &mut TraceEdit<'_>, before: StepId, x: TraceValue, to: DataType) -> Result<TraceValue, Error> {
    cast_as(edit, before, x, to, x)
}

/// Inserts a cast whose result has the extents of the value `extents`.
fn cast_as(
    edit: &mut TraceEdit<'_>,
    before: StepId,
    x: TraceValue,
    to: DataType,
    extents: TraceValue,
) -> Result<TraceValue, Error> {
    let origins = edit.trace().steps.get(before)?.origins.clone();
    let params = Box::new([Param::Type(to), Param::Bool(true), Param::Round(RoundMode::Up)]);
    let info = quantised::like(edit.trace(), extents, to)?;
    let step = quantised::step(Primitive::Cast.spec(), params, [Some(x)], origins);
    quantised::insert(edit, before, step, info)
}
