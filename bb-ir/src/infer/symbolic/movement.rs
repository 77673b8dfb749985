//! Rules of operators that move elements, and of those that tell shapes.

use super::dims::broadcast;
use super::operators::{At, Types, axis, product, tensor, with};
use crate::graph::Dim;
use crate::{DataType, TensorData};

pub(super) fn shape(at: At<'_>) -> Option<Types> {
    let count = |x: &[Dim]| {
        let rank = x.len() as i64;
        let bound = |name, default| {
            let v = at.int(name, default)?;
            Some((if v < 0 { v.saturating_add(rank) } else { v }).clamp(0, rank))
        };
        let (start, end) = (bound("start", 0)?, bound("end", rank)?);
        usize::try_from((end - start).max(0)).ok()
    };
    let count = at.dims(0).and_then(count).map_or(Dim::Unknown, Dim::Known);
    at.one(Some(DataType::I64), Some(vec![count]))
}

pub(super) fn size(at: At<'_>) -> Option<Types> {
    at.one(Some(DataType::I64), Some(Vec::new()))
}

pub(super) fn constant_of_shape(at: At<'_>) -> Option<Types> {
    let dtype = at.node.attributes.tensor("value").ok()?.map_or(DataType::F32, TensorData::dtype);
    at.one(Some(dtype), at.extents(0))
}

pub(super) fn expand(at: At<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| broadcast("expand", &[x, &at.extents(1)?]).ok();
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

pub(super) fn flatten(at: At<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let from = at.int("axis", 1)?;
        let from = if from < 0 { from + x.len() as i64 } else { from };
        let (outer, inner) = x.split_at_checked(usize::try_from(from).ok()?)?;
        Some(vec![product(outer), product(inner)])
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

pub(super) fn tile(at: At<'_>) -> Option<Types> {
    // The first version took a count and an axis.
    if at.node.opset < 6 {
        return at.one(at.dtype(0), None);
    }
    let shape = |x: &[Dim]| {
        let Some(repeats) = at.extents(1) else { return Some(vec![Dim::Unknown; x.len()]) };
        let times = |(dim, count): (&Dim, &Dim)| match (dim, count) {
            (dim, Dim::Known(1)) => dim.clone(),
            (dim, Dim::Known(count)) => with(dim, |n| n.checked_mul(*count)),
            _ => Dim::Unknown,
        };
        (repeats.len() == x.len()).then(|| x.iter().zip(&repeats).map(times).collect())
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

pub(super) fn pad(at: At<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let name = if at.node.opset < 2 { "paddings" } else { "pads" };
        let (Some(pads), Some(axes)) = (at.list(name, 1), at.list("axes", 3)) else {
            return Some(vec![Dim::Unknown; x.len()]);
        };
        let axes: Vec<usize> = if at.has(3) {
            axes.iter().map(|&a| axis(a, x.len())).collect::<Option<_>>()?
        } else {
            (0..x.len()).collect()
        };
        let (before, after) = pads.split_at_checked(axes.len())?;
        let mut out = x.to_vec();
        for ((&axis, before), after) in axes.iter().zip(before).zip(after) {
            let by = before.checked_add(*after)?;
            let dim = out.get_mut(axis)?;
            if by != 0 {
                *dim = with(dim, |n| n.checked_add_signed(isize::try_from(by).ok()?));
            }
        }
        Some(out)
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

pub(super) fn gather_elements(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(0), at.dims(1).map(<[Dim]>::to_vec))
}

pub(super) fn gather_nd(at: At<'_>) -> Option<Types> {
    let shape = || {
        let (data, indices) = (at.dims(0)?, at.dims(1)?);
        let (Dim::Known(depth), outer) = indices.split_last()? else { return None };
        let batch = usize::try_from(at.int("batch_dims", 0)?).ok()?;
        let rest = data.get(batch.checked_add(*depth)?..)?;
        Some([outer, rest].concat())
    };
    at.one(at.dtype(0), shape())
}

pub(super) fn one_hot(at: At<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let axis = axis(at.int("axis", -1)?, x.len() + 1)?;
        let depth = at.scalar(1).and_then(|d| usize::try_from(d).ok()).map_or(Dim::Unknown, Dim::Known);
        let mut out = x.to_vec();
        out.insert(axis, depth);
        Some(out)
    };
    at.one(at.dtype(2), at.dims(0).and_then(shape))
}

pub(super) fn range(at: At<'_>) -> Option<Types> {
    let count = || {
        let (start, limit, delta) = (at.scalar(0)?, at.scalar(1)?, at.scalar(2)?);
        let (distance, delta) = (i128::from(limit) - i128::from(start), i128::from(delta));
        let whole = distance.checked_div(delta)?;
        let more = distance % delta != 0 && (distance < 0) == (delta < 0);
        usize::try_from((whole + i128::from(more)).max(0)).ok()
    };
    at.one(at.dtype(0), Some(vec![count().map_or(Dim::Unknown, Dim::Known)]))
}

pub(super) fn compress(at: At<'_>) -> Option<Types> {
    if at.node.attributes.get("axis").is_none() {
        return at.one(at.dtype(0), Some(vec![Dim::Unknown]));
    }
    let shape = |x: &[Dim]| {
        let mut out = x.to_vec();
        *out.get_mut(axis(at.int("axis", 0)?, x.len())?)? = Dim::Unknown;
        Some(out)
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

pub(super) fn non_zero(at: At<'_>) -> Option<Types> {
    let rank = at.dims(0).map_or(Dim::Unknown, |x| Dim::Known(x.len()));
    at.one(Some(DataType::I64), Some(vec![rank, Dim::Unknown]))
}

pub(super) fn depth_to_space(at: At<'_>) -> Option<Types> {
    let block = usize::try_from(at.int("blocksize", 0)?).ok().filter(|b| *b > 0)?;
    let [n, c, h, w] = at.dims(0)? else { return None };
    let square = block.checked_mul(block)?;
    let grown = |d: &Dim| with(d, |d| d.checked_mul(block));
    let channels = with(c, |c| c.is_multiple_of(square).then(|| c / square));
    Some(vec![tensor(at.dtype(0), Some(vec![n.clone(), channels, grown(h), grown(w)]))])
}

pub(super) fn space_to_depth(at: At<'_>) -> Option<Types> {
    let block = usize::try_from(at.int("blocksize", 0)?).ok().filter(|b| *b > 0)?;
    let [n, c, h, w] = at.dims(0)? else { return None };
    let square = block.checked_mul(block)?;
    let shrunk = |d: &Dim| with(d, |d| d.is_multiple_of(block).then(|| d / block));
    let channels = with(c, |c| c.checked_mul(square));
    Some(vec![tensor(at.dtype(0), Some(vec![n.clone(), channels, shrunk(h), shrunk(w)]))])
}
