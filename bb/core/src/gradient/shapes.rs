//! Converts gradients to the shapes of the operands.

use crate::ext::{ScatterReduction, counted};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{Error, Tensor};
use bb_ir::Axis;

/// Sums a gradient over the broadcast axes, so that it has the shape of `x`.
pub(super) fn unbroadcast(
    on: &Tracer,
    g: &TracedTensor,
    x: &TracedTensor,
) -> Result<TracedTensor, TraceStop> {
    if g.shape() == x.shape() {
        return Ok(g.clone());
    }
    let new = g.rank().saturating_sub(x.rank());
    let grown = g.shape().iter().skip(new).zip(x.shape()).enumerate();
    let axes: Vec<i64> = (0..new)
        .chain(grown.filter(|(_, (have, want))| have != want).map(|(axis, _)| new + axis))
        .map(|axis| axis as i64)
        .collect();
    let sums = if axes.is_empty() { g.clone() } else { on.reduce_sum(g, &axes, true)? };
    on.reshape(&sums, x.shape())
}

/// Returns the axes of a reduction as non-negative numbers; all axes if `axes` is empty.
pub(super) fn reduced(axes: &[i64], rank: usize) -> Result<Vec<i64>, Error> {
    if axes.is_empty() {
        return Ok((0..rank as i64).collect());
    }
    axes.iter().map(|&axis| Ok(Axis::new(axis, rank)?.get() as i64)).collect()
}

/// Reshapes the result of a reduction so that reduced dimensions are kept with extent 1.
pub(super) fn kept(
    on: &Tracer,
    y: &TracedTensor,
    x: &TracedTensor,
    axes: &[i64],
) -> Result<TracedTensor, TraceStop> {
    let axes = reduced(axes, x.rank())?;
    let shape: Vec<usize> = x
        .shape()
        .iter()
        .zip(0i64..)
        .map(|(&extent, axis)| if axes.contains(&axis) { 1 } else { extent })
        .collect();
    on.reshape(y, &shape)
}

/// Computes the gradients of a matrix product by each operand.
pub(super) fn matmul(
    on: &Tracer,
    a: &TracedTensor,
    b: &TracedTensor,
    g: &TracedTensor,
    needs: &dyn Fn(usize) -> bool,
) -> Result<[Option<TracedTensor>; 2], TraceStop> {
    // A vector operand is treated as a matrix with one row or column. The product omits that dimension.
    let row = if a.rank() == 1 { on.unsqueeze(a, &[0])? } else { a.clone() };
    let column = if b.rank() == 1 { on.unsqueeze(b, &[1])? } else { b.clone() };
    let mut wide = g.clone();
    if b.rank() == 1 {
        wide = on.unsqueeze(&wide, &[wide.rank() as i64])?;
    }
    if a.rank() == 1 {
        wide = on.unsqueeze(&wide, &[wide.rank() as i64 - 1])?;
    }
    let turned = |x: &TracedTensor| -> Result<TracedTensor, TraceStop> {
        let mut perm: Vec<i64> = (0..x.rank() as i64).collect();
        if let [.., row, column] = perm.as_mut_slice() {
            std::mem::swap(row, column);
        }
        on.transpose(x, &perm)
    };
    let by_a = || -> Result<TracedTensor, TraceStop> {
        let by_row = unbroadcast(on, &on.matmul(&wide, &turned(&column)?)?, &row)?;
        on.reshape(&by_row, a.shape())
    };
    let by_b = || -> Result<TracedTensor, TraceStop> {
        let by_column = unbroadcast(on, &on.matmul(&turned(&row)?, &wide)?, &column)?;
        on.reshape(&by_column, b.shape())
    };
    Ok([needs(0).then(by_a).transpose()?, needs(1).then(by_b).transpose()?])
}

/// The maximum number of elements of the matrix that marks which index each row was selected from. For larger sizes,
/// rows are scattered.
const MARKS: usize = 1 << 22;

/// Adds selected rows back to their original indices along an axis of `shape`: row `i` is the sum of the rows of `g`
/// that were selected from `i`.
///
/// `from` has the non-negative index of each row. Its dimensions replace the axis in the shape of `g`.
pub(super) fn scattered(
    on: &Tracer,
    g: &TracedTensor,
    shape: &[usize],
    from: &TracedTensor,
    axis: usize,
) -> Result<TracedTensor, TraceStop> {
    let too_large = || bb_ir::Error::Shapes { op: "gather", left: shape.into(), right: g.shape().into() };
    let count = |extents: &[usize]| bb_ir::element_count(extents).ok_or_else(|| Error::from(too_large()));
    let (before, rest) = shape.split_at(axis.min(shape.len()));
    let (&extent, after) = rest.split_first().unwrap_or((&1, &[]));
    let (rows, before_count, after_count) = (count(from.shape())?, count(before)?, count(after)?);
    if extent.saturating_mul(rows) > MARKS {
        // This is slower if the backend has no native scatter, because then the host adds the rows.
        let flat = on.reshape(g, &[before_count, rows, after_count])?;
        let zeros = on.zeros(&[extent, before_count, after_count], g.dtype())?;
        let places = on.reshape(from, &[rows, 1])?;
        let sums =
            on.scatter_nd(&zeros, &places, &on.transpose(&flat, &[1, 0, 2])?, ScatterReduction::Add)?;
        return on.reshape(&on.transpose(&sums, &[1, 0, 2])?, shape);
    }
    // A matrix whose row `i` marks the rows of `g` that were selected from `i`.
    let places = counted(on, &[extent, 1], 1)?;
    let marks = on.equal(&places, &on.reshape(from, &[1, rows])?)?;
    let marks = crate::ext::math::to(on, &marks, g.dtype())?;
    let flat = on.reshape(g, &[before_count, rows, after_count])?;
    on.reshape(&on.matmul(&marks, &flat)?, shape)
}

/// Returns the indices of the elements that a slice selects along one dimension.
pub(super) fn sliced(extent: usize, start: i64, end: i64, step: i64) -> Vec<i64> {
    let n = extent as i64;
    let from_end = |at: i64| if at < 0 { at.saturating_add(n) } else { at };
    let (least, most) = if step < 0 { (-1, n - 1) } else { (0, n) };
    let (start, end) = (from_end(start).clamp(least, most), from_end(end).clamp(least, most));
    let next = |at: &i64| at.checked_add(step);
    std::iter::successors(Some(start), next)
        .take_while(|&at| if step < 0 { at > end } else { at < end && step > 0 })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_come_from_where_numpy_says() {
        assert_eq!(sliced(5, 1, 4, 1), [1, 2, 3]);
        assert_eq!(sliced(5, -1, i64::MIN, -2), [4, 2, 0]);
        assert_eq!(sliced(5, 0, i64::MAX, 3), [0, 3]);
        assert!(sliced(5, 4, 1, 1).is_empty());
        assert!(sliced(0, 0, 1, 1).is_empty());
        assert!(sliced(0, -1, i64::MIN, -1).is_empty());
    }
}
