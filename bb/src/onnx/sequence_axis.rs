//! Operators that turn round, or write into, each sequence of a batch by itself.

use super::call::{Call, OpResult, one};
use super::rows::operators;
use crate::error::NodePart;
use crate::ext::{Ops, counted, math};
use crate::{DataType, Error, Tensor};
use bb_ir::Axis;

operators! {
    "" {
        ReverseSequence => Primitives(reverse_sequence), infer: Same;
        TensorScatter => Primitives(tensor_scatter), infer: Same;
    }
}

/// `ReverseSequence`: the first elements of each sequence, as many as its length, are turned round.
pub(super) fn reverse_sequence<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
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
    // [time, 1] and [1, batch], or the other way round
    let along = |axis: usize, extent: usize| if axis == 0 { [extent, 1] } else { [1, extent] };
    let step = counted(on, &along(time, steps), 1)?;
    let lengths = on.reshape(&math::to(on, lengths, DataType::I64)?, &along(batch, count))?;
    let turned = on.sub(&on.sub(&lengths, &on.host(&[], &[1i64])?)?, &step)?;
    let step = on.r#where(&on.less(&step, &lengths)?, &turned, &step)?;
    // Of rows in order, `[first * second, rest]`.
    let (time_step, batch_step) = if time == 0 { (count, 1) } else { (1, steps) };
    let starts = counted(on, &along(batch, count), batch_step as i64)?;
    let rows = on.mul(&step, &on.host(&[], &[time_step as i64])?)?;
    let rows = on.add(&rows, &starts)?;
    let flat: Vec<usize> = [first * second].into_iter().chain(rest.iter().copied()).collect();
    Ok(one(on.gather(&on.reshape(x, &flat)?, &rows, 0)?))
}

/// `TensorScatter`: the cache, and the update where it is written, are chosen from side by side.
pub(super) fn tensor_scatter<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
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
    let same = |(i, (a, b)): (usize, (&usize, &usize))| if i == axis { b <= a } else { a == b };
    let fits = past.rank() == update.rank() && past.shape().iter().zip(update.shape()).enumerate().all(same);
    let (Some(&most), Some(&new), true) =
        (past.shape().get(axis), update.shape().get(axis), fits && axis > 0)
    else {
        let problem = format!("has the shape {:?}; the cache has {:?}", update.shape(), past.shape());
        return Err(call.wrong(NodePart::Operand(1), problem).into());
    };
    let batch = past.shape().first().copied().unwrap_or(0);
    if past.shape().contains(&0) {
        return Ok(one(on.identity(past)?));
    }
    let inner: usize = past.shape().iter().take(axis).skip(1).product();
    let places = counted(on, &[1, most], 1)?;
    let first = match call.optional(2) {
        Some(first) if first.shape() == [batch] => on.reshape(first, &[batch, 1])?,
        Some(other) => {
            let problem = format!("has the shape {:?} for {batch} sequences", other.shape());
            return Err(call.wrong(NodePart::Operand(2), problem).into());
        }
        None => on.zeros(&[batch, 1], DataType::I64)?,
    };
    let (extent, updates) = (on.host(&[], &[most as i64])?, on.host(&[], &[new as i64])?);
    let mut which = on.sub(&places, &first)?;
    if circular && most > 0 {
        which = on.modulo(&which, &extent, false)?;
    }
    let zero = on.host(&[], &[0i64])?;
    let written = on.and(&on.greater_or_equal(&which, &zero)?, &on.less(&which, &updates)?)?;
    let mut chosen = on.r#where(&written, &on.add(&which, &extent)?, &places)?;
    if !circular {
        // An update that does not fit must not be cut short: an index beyond everything fails.
        let room = on.host(&[], &[(most - new) as i64])?;
        let beyond = on.or(&on.less(&first, &zero)?, &on.greater(&first, &room)?)?;
        chosen = on.r#where(&beyond, &on.host(&[], &[i64::MAX >> 1])?, &chosen)?;
    }
    // Of rows `[batch * inner * (most + new), rest]`.
    let starts = counted(on, &[batch, inner, 1], (most + new) as i64)?;
    let rows = on.add(&on.unsqueeze(&chosen, &[1])?, &starts)?;
    let side = on.concat(&[past, update], axis as i64)?;
    let rest: Vec<usize> = past.shape().iter().skip(axis + 1).copied().collect();
    let flat: Vec<usize> = [batch * inner * (most + new)].into_iter().chain(rest).collect();
    Ok(one(on.reshape(&on.gather(&on.reshape(&side, &flat)?, &rows, 0)?, past.shape())?))
}
