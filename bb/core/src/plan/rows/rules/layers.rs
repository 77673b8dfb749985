//! Rules of operations that compute along dimensions.

use super::moves::{broadcast, is_alike};
use super::{Call, Found, Mixes, dimension, one};
use crate::plan::rows::place::{Rows, Spread};
use bb_ir::op::Param;
use smallvec::smallvec;

/// Applies the rule of operations that compute along all dimensions from the one in parameter `param` on.
pub(super) fn norm(call: &Call<'_>, param: usize) -> Found {
    let found = broadcast(call, 0)?;
    let from = call.axis(param, call.result().len())?;
    match found.first() {
        Some(Spread::Rows(rows)) if rows.axis < from => Ok(found),
        _ => Err(Mixes::Along),
    }
}

/// Applies the rule of operations that compute along one dimension.
pub(super) fn over(call: &Call<'_>, param: usize) -> Found {
    let (rows, shape) = call.rows_of(0)?;
    if call.axis(param, shape.len())? == rows.axis { Err(Mixes::Along) } else { one(rows) }
}

pub(super) fn reduce(call: &Call<'_>) -> Found {
    let (rows, shape) = call.rows_of(0)?;
    let axes = call.ints(0)?;
    let Some(Param::Bool(keepdims)) = call.params.get(1) else { return Err(Mixes::Unknown) };
    let reduced = |axis: usize| {
        axes.is_empty() || axes.iter().any(|named| dimension(*named, shape.len()) == Some(axis))
    };
    if reduced(rows.axis) {
        return Err(Mixes::Along);
    }
    let gone = if *keepdims { 0 } else { (0..rows.axis).filter(|axis| reduced(*axis)).count() };
    one(rows.along(rows.axis - gone))
}

pub(super) fn matmul(call: &Call<'_>) -> Found {
    let ((left, a), (right, b)) = (call.operand(0)?, call.operand(1)?);
    let rank = call.result().len();
    // Maps a batch dimension of a matrix operand to the result.
    let stacked = |rows: Rows, shape: &[usize]| {
        (rows.axis + 2 < shape.len()).then(|| rows.along(rank + rows.axis - shape.len()))
    };
    // A vector is a matrix with one row or column, and the result lacks this dimension.
    let stack = |shape: &[usize], other: &[usize]| {
        if other.len() == 1 { rank + 1 - shape.len() } else { rank - shape.len().min(rank) }
    };
    match (left, right) {
        (Spread::Rows(rows), Spread::Rows(other)) => {
            match (a.len() > 2 && b.len() > 2).then(|| (stacked(rows, a), stacked(other, b))) {
                Some((Some(x), Some(y))) if x == y => one(x),
                _ => Err(Mixes::Product),
            }
        }
        (Spread::Rows(rows), Spread::Shared) => {
            if rows.axis + 1 == a.len() {
                return Err(Mixes::Product);
            }
            let to = rows.axis + stack(a, b);
            // Rows of the left matrix are not combined with any dimension of the right operand.
            let of_matrix = rows.axis + 2 == a.len();
            let matrices = b.get(..b.len().saturating_sub(2)).unwrap_or_default();
            let outer_rank = rank + usize::from(b.len() == 1) - 2;
            if of_matrix || is_alike(matrices, outer_rank, to) {
                one(rows.along(to))
            } else {
                Err(Mixes::Position)
            }
        }
        (Spread::Shared, Spread::Rows(rows)) => {
            let contracted = rows.axis + 2 == b.len() || b.len() == 1;
            if contracted {
                return Err(Mixes::Product);
            }
            if rows.axis + 1 == b.len() {
                return one(rows.along(rank - 1));
            }
            let to = rows.axis + stack(b, a);
            let matrices = a.get(..a.len().saturating_sub(2)).unwrap_or_default();
            let outer_rank = rank + usize::from(a.len() == 1) - 2;
            if is_alike(matrices, outer_rank, to) { one(rows.along(to)) } else { Err(Mixes::Position) }
        }
        (Spread::Shared, Spread::Shared) => Ok(smallvec![Spread::Shared]),
    }
}

/// Applies the rule of integer matrix products. Zero points must be shared. A zero point with several elements belongs to rows
/// of the left operand or to columns of the right operand.
pub(super) fn matmul_integer(call: &Call<'_>) -> Found {
    call.rest_is_shared(1)?;
    let single = |at: usize| {
        let given = call.operands.get(at).copied().flatten();
        given.is_none_or(|(_, shape)| shape.iter().all(|n| *n == 1))
    };
    if single(2) { matmul(call) } else { Err(Mixes::Position) }
}

/// Applies the rule of operations on images, whose index is the first dimension of the first operand. All other operands must be shared.
pub(super) fn images(call: &Call<'_>) -> Found {
    let (rows, _) = call.rows_of(0)?;
    call.rest_is_shared(1)?;
    if rows.axis == 0 { one(rows) } else { Err(Mixes::Along) }
}

pub(super) fn pool(call: &Call<'_>) -> Found {
    let (rows, _) = call.rows_of(0)?;
    if rows.axis < 2 { one(rows) } else { Err(Mixes::Along) }
}

/// Applies the rule of recurrent layers. `x` is `[steps, rows, …]`; the results are all states, and then the last states, `[rows, …]`.
pub(super) fn recurrent(call: &Call<'_>, states: &[usize]) -> Found {
    let (rows, _) = call.rows_of(0)?;
    if rows.axis != 1 {
        return Err(Mixes::Along);
    }
    let state = rows.along(0);
    for (at, (spread, _)) in call.operands.iter().enumerate().skip(1).filter_map(|(at, x)| Some((at, (*x)?)))
    {
        let expected = if states.contains(&at) { Spread::Rows(state) } else { Spread::Shared };
        if spread != expected {
            return Err(Mixes::Places);
        }
    }
    // With integer weights, the states are quantised with one range for all rows.
    let quantised = matches!(call.operands.get(4), Some(Some(_))) && states.contains(&6);
    if quantised {
        return Err(Mixes::Along);
    }
    Ok(smallvec![Spread::Rows(rows), Spread::Rows(state)])
}

/// Applies the rule of operations with a scale that has one element, one dimension, or all dimensions.
pub(super) fn scaled(call: &Call<'_>) -> Found {
    let (rows, shape) = call.rows_of(0)?;
    call.rest_is_shared(1)?;
    let (_, scale) = call.operand(1)?;
    if scale.iter().all(|n| *n == 1) && scale.len() < 2 {
        return one(rows);
    }
    // The parameters are the type, then the options; the first option is the axis of the scale.
    if scale.len() == 1 && call.axis(1, shape.len())? != rows.axis { one(rows) } else { Err(Mixes::Position) }
}

/// Applies the rule of operations that sample `x`, `[n, c, d…]`, at positions `[n, o…, r]`. Each channel is sampled separately.
pub(super) fn sampled(call: &Call<'_>) -> Found {
    let (rows, _) = call.rows_of(0)?;
    match call.operand(1)?.0 {
        Spread::Rows(positions) if positions == rows && rows.axis == 0 => one(rows),
        Spread::Shared if rows.axis == 1 => one(rows),
        Spread::Shared if rows.axis > 1 => Err(Mixes::Along),
        _ => Err(Mixes::Places),
    }
}

/// Applies the rule of attention on operands `[b, h, s, d]`, with a bias that broadcasts to `[b, h, s, t]`.
pub(super) fn attention(call: &Call<'_>) -> Found {
    let (rows, shape) = call.rows_of(0)?;
    let alike = (1..3).all(|at| matches!(call.rows_of(at), Ok((other, _)) if other == rows));
    // In operands of lower rank, the first dimension is not the batch but the positions.
    if rows.axis != 0 || !alike || shape.len() != 4 {
        return Err(Mixes::Places);
    }
    let bias = call.operands.get(3).copied().flatten();
    let fits = bias.is_none_or(|(spread, shape)| match spread {
        Spread::Shared => is_alike(shape, 4, 0),
        Spread::Rows(other) => other == rows && shape.len() == 4,
    });
    if fits { one(rows) } else { Err(Mixes::Places) }
}

pub(super) fn pairs(call: &Call<'_>) -> Found {
    match (call.operand(0)?.0, call.operand(1)?.0) {
        (Spread::Rows(rows), Spread::Shared) if rows.axis == 0 => one(rows),
        (Spread::Shared, Spread::Rows(rows)) if rows.axis == 0 => one(rows.along(1)),
        _ => Err(Mixes::Along),
    }
}
