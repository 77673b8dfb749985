//! Rules of operations that move elements, or that compute with the elements at one index.

use super::{Call, Found, Mixes, dimension, one};
use crate::plan::rows::place::{Rows, Spread};
use crate::trace::SymbolicValue;
use bb_ir::op::Param;
use smallvec::smallvec;

/// Applies the rule of operations whose operands broadcast to the result. The last `last` dimensions may not contain rows.
pub(super) fn broadcast(call: &Call<'_>, last: usize) -> Found {
    let rank = call.result().len();
    let mut found: Option<Rows> = None;
    for (spread, shape) in call.operands.iter().flatten() {
        if let Spread::Rows(rows) = spread {
            let behind = rank.checked_sub(shape.len()).ok_or(Mixes::Places)?;
            let here = rows.along(rows.axis + behind);
            if found.is_some_and(|found| found != here) {
                return Err(Mixes::Places);
            }
            if rows.axis + last >= shape.len() {
                return Err(Mixes::Along);
            }
            found = Some(here);
        }
    }
    let rows = found.ok_or(Mixes::Places)?;
    for (spread, shape) in call.operands.iter().flatten() {
        if *spread == Spread::Shared && !is_alike(shape, rank, rows.axis) {
            return Err(Mixes::Position);
        }
    }
    one(rows)
}

/// Returns whether a shared operand that broadcasts to `rank` dimensions is constant along the dimension `axis`.
pub(super) fn is_alike(shape: &[usize], rank: usize, axis: usize) -> bool {
    let behind = rank.saturating_sub(shape.len());
    axis < behind || shape.get(axis - behind) == Some(&1)
}

/// Applies the rule of reshapes, which keep the order of elements. The extent of the result dimension that contains the rows is a product
/// of three factors: the elements before the rows that earlier dimensions do not cover, the number of rows, and a part of the
/// elements after the rows.
pub(super) fn reshape(call: &Call<'_>) -> Found {
    let (rows, from) = call.rows_of(0)?;
    let Some(axis) = varying(call)? else { return Err(Mixes::Extents) };
    let product = |extents: Option<&[usize]>| {
        extents
            .unwrap_or_default()
            .iter()
            .try_fold(1usize, |all, n| all.checked_mul(*n))
            .ok_or(Mixes::Extents)
    };
    let before = product(from.get(..rows.axis))?.checked_mul(rows.outer).ok_or(Mixes::Extents)?;
    let passed = product(call.result().get(..axis))?;
    let extent = call.result().get(axis).copied().unwrap_or(0);
    if passed == 0 || !before.is_multiple_of(passed) {
        return Err(Mixes::Places);
    }
    let outer = before / passed;
    let each =
        outer.checked_mul(call.rows).filter(|each| *each > 0 && extent > 0 && extent.is_multiple_of(*each));
    one(Rows { axis, outer, inner: extent / each.ok_or(Mixes::Places)? })
}

/// Returns the dimension of the result whose extent is a parameter that depends on the number of rows.
fn varying(call: &Call<'_>) -> Result<Option<usize>, Mixes> {
    let mut along = None;
    for param in call.symbolic.iter().flat_map(|symbolic| &symbolic.0) {
        let SymbolicValue::List(list) = &param.value else { return Err(Mixes::Number) };
        match list.as_slice() {
            [(axis, _)] if along.is_none() => along = Some(*axis),
            _ => return Err(Mixes::Extents),
        }
    }
    Ok(along)
}

pub(super) fn transpose(call: &Call<'_>) -> Found {
    let (rows, shape) = call.rows_of(0)?;
    let perm = call.ints(0)?;
    if perm.is_empty() {
        return one(rows.along(shape.len() - 1 - rows.axis));
    }
    let to = perm.iter().position(|from| dimension(*from, shape.len()) == Some(rows.axis));
    one(rows.along(to.ok_or(Mixes::Unknown)?))
}

pub(super) fn concat(call: &Call<'_>) -> Found {
    let (rows, shape) = call.rows_of(0).map_err(|_| Mixes::Position)?;
    let alike = call.operands.iter().flatten().all(|(spread, _)| *spread == Spread::Rows(rows));
    if !alike {
        return Err(Mixes::Places);
    }
    if call.axis(0, shape.len())? == rows.axis {
        return Err(Mixes::Position);
    }
    one(rows)
}

pub(super) fn slice(call: &Call<'_>) -> Found {
    let (rows, shape) = call.rows_of(0)?;
    let (starts, ends, axes, steps) = (call.ints(0)?, call.ints(1)?, call.ints(2)?, call.ints(3)?);
    let expressions = call.symbolic.iter().flat_map(|symbolic| &symbolic.0);
    let mut symbolic = Vec::new();
    for param in expressions {
        let SymbolicValue::List(list) = &param.value else { return Err(Mixes::Number) };
        symbolic.extend(list.iter().map(|(position, _)| (param.param, *position)));
    }
    for (position, start) in starts.iter().enumerate() {
        let axis = match axes.get(position) {
            Some(axis) => dimension(*axis, shape.len()).ok_or(Mixes::Unknown)?,
            None if axes.is_empty() => position,
            None => return Err(Mixes::Unknown),
        };
        let mut own = symbolic.iter().filter(|(_, at)| *at == position);
        if axis != rows.axis {
            // The number of rows determines which part of another dimension is selected.
            if own.next().is_some() {
                return Err(Mixes::Number);
            }
            continue;
        }
        // All rows are kept in their order. The end may be a symbolic expression if it keeps all rows; `fits` checks this.
        let all = *start == 0
            && steps.get(position).is_none_or(|step| *step == 1)
            && own.all(|(param, _)| *param == 1);
        if !all || ends.get(position).is_none() || call.result().get(axis) != shape.get(axis) {
            return Err(Mixes::Position);
        }
    }
    one(rows)
}

pub(super) fn split(call: &Call<'_>) -> Found {
    let (rows, shape) = call.rows_of(0)?;
    if call.axis(0, shape.len())? == rows.axis { Err(Mixes::Position) } else { one(rows) }
}

pub(super) fn squeeze(call: &Call<'_>) -> Found {
    let (rows, shape) = call.rows_of(0)?;
    let axes = call.ints(0)?;
    let gone = |axis: usize| {
        let named = axes.iter().any(|named| dimension(*named, shape.len()) == Some(axis));
        named || (axes.is_empty() && shape.get(axis) == Some(&1))
    };
    if gone(rows.axis) {
        return Err(Mixes::Extents);
    }
    let before = (0..rows.axis).filter(|axis| gone(*axis)).count();
    one(rows.along(rows.axis - before))
}

pub(super) fn unsqueeze(call: &Call<'_>) -> Found {
    let (rows, shape) = call.rows_of(0)?;
    let axes = call.ints(0)?;
    let rank = shape.len() + axes.len();
    let is_new = |axis: usize| axes.iter().any(|new| dimension(*new, rank) == Some(axis));
    let kept = (0..rank).filter(|axis| !is_new(*axis)).nth(rows.axis);
    one(rows.along(kept.ok_or(Mixes::Unknown)?))
}

pub(super) fn gather(call: &Call<'_>) -> Found {
    let ((data, extents), (indices, places)) = (call.operand(0)?, call.operand(1)?);
    let axis = call.axis(0, extents.len())?;
    match (data, indices) {
        (Spread::Rows(rows), Spread::Shared) if rows.axis == axis => Err(Mixes::Position),
        (Spread::Rows(rows), Spread::Shared) if rows.axis < axis => one(rows),
        (Spread::Rows(rows), Spread::Shared) => one(rows.along(rows.axis + places.len() - 1)),
        (Spread::Shared, Spread::Rows(rows)) => one(rows.along(rows.axis + axis)),
        _ => Err(Mixes::Position),
    }
}

/// Applies the rule of `GatherElements`: an element at an index is gathered along one axis, and its index in all other dimensions is kept.
pub(super) fn gather_elements(call: &Call<'_>) -> Found {
    let ((data, extents), (indices, _)) = (call.operand(0)?, call.operand(1)?);
    let axis = call.axis(0, extents.len())?;
    match (data, indices) {
        (Spread::Rows(rows), Spread::Rows(other)) if rows == other && rows.axis != axis => one(rows),
        (Spread::Shared, Spread::Rows(rows)) if rows.axis == axis => one(rows),
        _ => Err(Mixes::Position),
    }
}

pub(super) fn gather_nd(call: &Call<'_>) -> Found {
    let ((data, _), (indices, places)) = (call.operand(0)?, call.operand(1)?);
    let Some(Param::Int(batch)) = call.params.first() else { return Err(Mixes::Unknown) };
    let batch = usize::try_from(*batch).map_err(|_| Mixes::Unknown)?;
    let (Some(tuple), last) = (places.last(), places.len() - 1) else { return Err(Mixes::Unknown) };
    match (data, indices) {
        (Spread::Rows(rows), Spread::Rows(other)) if rows == other && rows.axis < batch => one(rows),
        (Spread::Shared, Spread::Rows(rows)) if (batch..last).contains(&rows.axis) => one(rows),
        (Spread::Rows(rows), Spread::Shared) if rows.axis >= batch + tuple => {
            one(rows.along(last + rows.axis - batch - tuple))
        }
        _ => Err(Mixes::Position),
    }
}

/// Applies the rule of `ScatterElements`, similar to [`gather_elements`]: the updates are at the same indices as their index operand.
pub(super) fn scatter_elements(call: &Call<'_>) -> Found {
    let (rows, shape) = call.rows_of(0)?;
    let alike = (1..3).all(|at| matches!(call.rows_of(at), Ok((other, _)) if other == rows));
    if !alike {
        return Err(Mixes::Places);
    }
    if call.axis(0, shape.len())? == rows.axis { Err(Mixes::Position) } else { one(rows) }
}

/// Applies the rule of `ScatterND`: rows must be in the slices, after the dimensions that the index tuples address, and in the slices of
/// the updates.
pub(super) fn scatter_nd(call: &Call<'_>) -> Found {
    let (rows, _) = call.rows_of(0)?;
    let (Spread::Shared, places) = call.operand(1)? else { return Err(Mixes::Position) };
    let Some((tuple, tuples)) = places.split_last() else { return Err(Mixes::Unknown) };
    if rows.axis < *tuple {
        return Err(Mixes::Position);
    }
    match call.operand(2)?.0 {
        Spread::Rows(updates) if updates == rows.along(tuples.len() + rows.axis - tuple) => one(rows),
        _ => Err(Mixes::Places),
    }
}

pub(super) fn pad(call: &Call<'_>) -> Found {
    let (rows, shape) = call.rows_of(0)?;
    call.rest_is_shared(1)?;
    let pads = call.ints(0)?;
    let none = [rows.axis, rows.axis + shape.len()].iter().all(|at| pads.get(*at) == Some(&0));
    if none { one(rows) } else { Err(Mixes::Position) }
}

pub(super) fn expand(call: &Call<'_>) -> Found {
    let (spread, shape) = call.operand(0)?;
    let rank = call.result().len();
    match spread {
        Spread::Rows(rows) => {
            one(rows.along(rows.axis + rank.checked_sub(shape.len()).ok_or(Mixes::Unknown)?))
        }
        Spread::Shared => copied(call, |axis| is_alike(shape, rank, axis)),
    }
}

pub(super) fn filled(call: &Call<'_>) -> Found {
    match call.operands.first().copied().flatten() {
        Some((spread, _)) => Ok(smallvec![spread]),
        None => copied(call, |_| true),
    }
}

/// Applies the rule of a shared value that is repeated along the dimension whose extent depends on the number of rows, if there is one.
fn copied(call: &Call<'_>, is_alike: impl Fn(usize) -> bool) -> Found {
    let Some(axis) = varying(call)? else { return Ok(smallvec![Spread::Shared]) };
    let extent = call.result().get(axis).copied().unwrap_or(0);
    if !is_alike(axis) || !extent.is_multiple_of(call.rows) {
        return Err(Mixes::Extents);
    }
    one(Rows { axis, outer: 1, inner: extent / call.rows })
}
