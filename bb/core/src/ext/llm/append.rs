//! Caches of keys and values that grow by appending positions.

use crate::ext::{Extent, fail, math, product, types};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{DataType, Error, Tensor};

const OP: &str = "kv_append";

fn wrong<T>(part: &'static str, problem: String) -> Result<T, TraceStop> {
    fail(Error::Operator { op: OP.to_owned(), part: part.into(), problem })
}

/// The body of [`Llm::kv_append`](crate::ext::Llm::kv_append).
///
/// The cache and the new positions are concatenated, and rows are selected from both.
pub fn kv_append(
    on: &Tracer,
    cache: &TracedTensor,
    new: &TracedTensor,
    at: Option<&TracedTensor>,
    circular: bool,
) -> Result<TracedTensor, TraceStop> {
    types::alike(new, cache)?;
    let (of_cache, of_new) = (on.extents(cache), on.extents(new));
    let mismatch = || bb_ir::Error::Shapes { op: OP, left: cache.shape().into(), right: new.shape().into() };
    let (Some(axis), true) = (of_cache.len().checked_sub(2), of_cache.len() == of_new.len()) else {
        return fail(mismatch());
    };
    if of_cache.iter().zip(&of_new).enumerate().any(|(i, (have, more))| i != axis && !have.equals(more)) {
        return fail(mismatch());
    }
    let Some(at) = at else {
        return on.concat(&[cache, new], axis as i64);
    };
    types::take(OP, at, types::INDICES)?;
    if axis == 0 {
        return wrong("cache", "has rank 2; sequences are its first dimension".to_owned());
    }
    let ([batch, inner @ ..], [room, width]) = of_cache.split_at(axis) else {
        return fail(mismatch());
    };
    let Some(count) = of_new.get(axis) else { return fail(mismatch()) };
    let first = match at.rank() {
        0 => on.reshape(at, &[1, 1])?,
        1 if on.extent(at, 0).equals(batch) => on.unsqueeze(at, &[1])?,
        _ => {
            let problem =
                format!("has the shape {:?}, expected a position for each sequence or one", at.shape());
            return wrong("at", problem);
        }
    };
    if of_cache.iter().any(|extent| extent.is(0)) || count.is(0) {
        return on.identity(cache);
    }
    if !room.at_least(count) {
        let problem =
            format!("has {} positions, more than the {} of the cache", count.present(), room.present());
        return wrong("new", problem);
    }
    let (zero, one) = (Extent::from(0i64), Extent::from(1i64));
    let number = |n: &Extent| on.ints_of(&[], std::slice::from_ref(n));
    let (heads, side) = (product(inner), room.plus(count));
    let all = batch.times(&heads).times(&side);
    let first = math::to(on, &first, DataType::I64)?;
    let (places, nothing) = (on.iota(&zero, &one, room)?, on.host(&[], &[0i64])?);
    // The index of the new position that is stored at each position of the cache, if any: `[b, t]`.
    let mut which = on.sub(&places, &first)?;
    if circular {
        which = on.modulo(&which, &number(room)?, false)?;
    }
    let written = on.and(&on.greater_or_equal(&which, &nothing)?, &on.less(&which, &number(count)?)?)?;
    let mut chosen = on.r#where(&written, &on.add(&which, &number(room)?)?, &places)?;
    if !circular {
        // New positions that do not fit must not be dropped silently: an out-of-range index makes the gather
        // fail.
        let last = number(&room.minus(count))?;
        let beyond = on.or(&on.less(&first, &nothing)?, &on.greater(&first, &last)?)?;
        chosen = on.r#where(&beyond, &number(&all)?, &chosen)?;
    }
    let starts = on.iota(&zero, &side, &batch.times(&heads))?;
    let starts = on.reshape_to(&starts, &[batch.clone(), heads.clone(), one])?;
    let rows = on.add(&on.unsqueeze(&chosen, &[1])?, &starts)?;
    let both = on.reshape_to(&on.concat(&[cache, new], axis as i64)?, &[all, width.clone()])?;
    on.reshape_to(&on.gather(&both, &rows, 0)?, &of_cache)
}
