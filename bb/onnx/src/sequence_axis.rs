//! Operators that reverse, or write into, each sequence of a batch separately.

use super::rows::operators;
use bb_core::error::NodePart;
use bb_core::ext::{Extent, counted, math, product};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::Axis;

operators! {
    "" {
        ReverseSequence => Primitives(reverse_sequence), infer: Same, halves: Moves;
        TensorScatter => Primitives(tensor_scatter), infer: Same, halves: Moves;
    }
}

/// `ReverseSequence`: reverses the first elements of each sequence. `sequence_lens` has the number of these elements.
pub(super) fn reverse_sequence(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let (x, lengths) = (call.input(0)?, call.input(1)?);
    let axis = |name: &str, default: i64| -> Result<usize, Error> {
        Ok(Axis::new(call.int_or(name, default)?, x.rank())?.get())
    };
    let (time, batch) = (axis("time_axis", 0)?, axis("batch_axis", 1)?);
    if x.rank() < 2 || time == batch || time > 1 || batch > 1 {
        return Err(call.wrong("time_axis", "and `batch_axis` must be 0 and 1, or 1 and 0").into());
    }
    let [first, second, rest @ ..] = x.shape() else { return Ok(one(on.identity(x)?)) };
    let (steps, count) = if time == 0 { (*first, *second) } else { (*second, *first) };
    if lengths.shape() != [count] {
        let problem = format!("has the shape {:?} for {count} sequences", lengths.shape());
        return Err(call.wrong(NodePart::Operand(1), problem).into());
    }
    if x.shape().contains(&0) {
        return Ok(one(on.identity(x)?));
    }
    // The shapes are `[time, 1]` and `[1, batch]`, or both reversed.
    let along = |axis: usize, extent: usize| if axis == 0 { [extent, 1] } else { [1, extent] };
    let step = counted(on, &along(time, steps), 1)?;
    let lengths = on.reshape(&math::to(on, lengths, DataType::I64)?, &along(batch, count))?;
    let is_short = on.less(&lengths, &on.host(&[], &[0i64])?)?;
    let is_long = on.less(&on.host(&[], &[steps as i64])?, &lengths)?;
    let is_wrong = on.or(&is_short, &is_long)?;
    let turned = on.sub(&on.sub(&lengths, &on.host(&[], &[1i64])?)?, &step)?;
    let step = on.r#where(&on.less(&step, &lengths)?, &turned, &step)?;
    // The row indices of `x` reshaped to `[first * second, rest]`.
    let (time_step, batch_step) = if time == 0 { (count, 1) } else { (1, steps) };
    let starts = counted(on, &along(batch, count), batch_step as i64)?;
    let rows = on.mul(&step, &on.host(&[], &[time_step as i64])?)?;
    let rows = on.add(&rows, &starts)?;
    // A length outside of `0..=steps` would reach into another sequence. Use an index outside of all rows instead, so that the gather
    // fails.
    let rows = on.r#where(&is_wrong, &on.host(&[], &[(first * second) as i64])?, &rows)?;
    let flat: Vec<usize> = [first * second].into_iter().chain(rest.iter().copied()).collect();
    Ok(one(on.gather(&on.reshape(x, &flat)?, &rows, 0)?))
}

/// `TensorScatter`: writes the update into the cache at the write indices. The dimensions before the axis are merged into one, and so
/// are those behind it.
pub(super) fn tensor_scatter(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let (past, update) = (call.input(0)?, call.input(1)?);
    let axis = Axis::new(call.int_or("axis", -2)?, past.rank()).map_err(Error::from)?.get();
    let circular = match call.text_or("mode", "linear")? {
        "linear" => false,
        "circular" => true,
        other => {
            let problem = format!("is `{other}`, expected `linear` or `circular`");
            return Err(call.wrong("mode", problem).into());
        }
    };
    let (of_past, of_update) = (on.extents(past), on.extents(update));
    let same = |(i, (a, b)): (usize, (&Extent, &Extent))| if i == axis { a.at_least(b) } else { a.equals(b) };
    let fits = of_past.len() == of_update.len() && of_past.iter().zip(&of_update).enumerate().all(same);
    let (Some(batch), true) = (of_past.first(), fits && axis > 0) else {
        let problem = format!("has the shape {:?}; the cache has {:?}", update.shape(), past.shape());
        return Err(call.wrong(NodePart::Operand(1), problem).into());
    };
    let first = match call.optional(2) {
        Some(first) if first.rank() == 1 && on.extent(first, 0).equals(batch) => first.clone(),
        Some(other) => {
            let problem = format!("has the shape {:?} for {} sequences", other.shape(), batch.present());
            return Err(call.wrong(NodePart::Operand(2), problem).into());
        }
        None => on.host(&[], &[0i64])?,
    };
    let flat = |x: &TracedTensor, extents: &[Extent]| -> Result<TracedTensor, TraceStop> {
        let part = |from: usize, to: usize| product(extents.get(from..to).unwrap_or_default());
        let count = extents.get(axis).cloned().unwrap_or_else(|| Extent::from(1i64));
        on.reshape_to(x, &[batch.clone(), part(1, axis), count, part(axis + 1, extents.len())])
    };
    let y = on.kv_append(&flat(past, &of_past)?, &flat(update, &of_update)?, Some(&first), circular)?;
    Ok(one(on.reshape_to(&y, &of_past)?))
}
