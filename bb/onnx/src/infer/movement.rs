//! Rules of operators that move elements, and of those that tell shapes.

use bb_ir::graph::{Dim, DimExpr};
use bb_ir::infer::rule::{At, Types, axis, tensor};
use bb_ir::infer::rule::{Contents, Entry};
use bb_ir::infer::rule::{divided, extent, product, scaled, shifted, told};
use bb_ir::infer::{self, Aspect, Extent, broadcast, range_count, rescaled};
use bb_ir::{DataType, TensorData};

pub(crate) fn shape(at: At<'_>) -> Option<Types> {
    let count = at.listed().map_or(Dim::Unknown, |dims| Dim::Known(dims.len()));
    at.one(Some(DataType::I64), Some(vec![count]))
}

pub(crate) fn size(at: At<'_>) -> Option<Types> {
    at.one(Some(DataType::I64), Some(Vec::new()))
}

pub(crate) fn constant_of_shape(at: At<'_>) -> Option<Types> {
    let dtype = at.node.attributes.tensor("value").ok()?.map_or(DataType::F32, TensorData::dtype);
    at.one(Some(dtype), at.extents(0).or_else(|| at.open_extents(0)))
}

pub(crate) fn expand(at: At<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let to = at.extents(1).or_else(|| at.open_extents(1))?;
        Some(broadcast("expand", &[x, &to]).ok()?.into_vec())
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

pub(crate) fn flatten(at: At<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let from = at.int("axis", 1)?;
        let from = if from < 0 { from + x.len() as i64 } else { from };
        let (outer, inner) = x.split_at_checked(usize::try_from(from).ok()?)?;
        Some(vec![product(outer), product(inner)])
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

pub(crate) fn tile(at: At<'_>) -> Option<Types> {
    if at.node.opset < 6 {
        // The first version takes a count and an axis.
        let shape = |x: &[Dim]| {
            let Some(axis) = at.scalar(2) else { return Some(vec![Dim::Unknown; x.len()]) };
            let mut out = x.to_vec();
            let dim = out.get_mut(self::axis(axis, x.len())?)?;
            *dim = told(dim.times(&at.extent(1)));
            Some(out)
        };
        return at.one(at.dtype(0), at.dims(0).and_then(shape));
    }
    let shape = |x: &[Dim]| {
        let Some(repeats) = at.extents(1) else { return Some(vec![Dim::Unknown; x.len()]) };
        (repeats.len() == x.len()).then(|| x.iter().zip(&repeats).map(|(d, n)| told(d.times(n))).collect())
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

pub(crate) fn pad(at: At<'_>) -> Option<Types> {
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
            let dim = out.get_mut(axis)?;
            *dim = shifted(dim, before.checked_add(*after)?);
        }
        Some(out)
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

pub(crate) fn gather_elements(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(0), at.dims(1).map(<[Dim]>::to_vec))
}

pub(crate) fn gather_nd(at: At<'_>) -> Option<Types> {
    let shape = || {
        let (data, indices) = (at.dims(0)?, at.dims(1)?);
        let (Dim::Known(depth), outer) = indices.split_last()? else { return None };
        let batch = usize::try_from(at.int("batch_dims", 0)?).ok()?;
        let rest = data.get(batch.checked_add(*depth)?..)?;
        Some([outer, rest].concat())
    };
    at.one(at.dtype(0), shape())
}

/// `UnfoldTensor`: windows of an axis, whose elements are a new last dimension.
pub(crate) fn unfold(at: At<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let (size, step) = (at.int("size", 0)?, at.int("step", 1)?);
        let mut out = x.to_vec();
        let dim = out.get_mut(axis(at.int("dim", -1)?, x.len())?)?;
        if size < 1 || step < 1 {
            return None;
        }
        *dim = shifted(&divided(&shifted(dim, size.checked_neg()?), step), 1);
        out.push(extent(size));
        Some(out)
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// A vector whose extent the elements tell, and the second result, of one element.
pub(crate) fn bifurcation(at: At<'_>) -> Option<Types> {
    Some(vec![
        tensor(at.dtype(1), Some(vec![Dim::Unknown])),
        tensor(at.dtype(2), at.dims(2).map(<[Dim]>::to_vec)),
    ])
}

/// `DynamicTimeWarping`: a path of points.
pub(crate) fn warping(at: At<'_>) -> Option<Types> {
    at.one(Some(DataType::I32), Some(vec![Dim::Known(2), Dim::Unknown]))
}

/// `ExpandDims`: a new dimension of one element.
pub(crate) fn expand_dims(at: At<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let mut out = x.to_vec();
        match at.scalar(1) {
            Some(at) => out.insert(axis(at, x.len() + 1)?, Dim::Known(1)),
            None => out = vec![Dim::Unknown; x.len() + 1],
        }
        Some(out)
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

pub(crate) fn one_hot(at: At<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let axis = axis(at.int("axis", -1)?, x.len() + 1)?;
        let depth = match at.contents(1).and_then(Contents::only) {
            Some(Entry::Real(depth)) if depth.abs() < f64::from(i32::MAX) => extent(depth.trunc() as i64),
            _ => at.extent(1),
        };
        let mut out = x.to_vec();
        out.insert(axis, depth);
        Some(out)
    };
    at.one(at.dtype(2), at.dims(0).and_then(shape))
}

pub(crate) fn range(at: At<'_>) -> Option<Types> {
    let number = |input| at.contents(input)?.only()?.formula();
    let count = || range_count(number(0)?, number(1)?, at.scalar(2)?);
    let real = || {
        let number = |input| match at.contents(input)?.only()? {
            Entry::Real(value) => Some(*value),
            Entry::Whole(_) | Entry::Unknown => None,
        };
        let (start, limit, delta) = (number(0)?, number(1)?, number(2)?);
        let count = ((limit - start) / delta).ceil().max(0.0);
        // In single precision the quotient may be rounded to the other side of an integer.
        let single = ((limit as f32 - start as f32) / delta as f32).ceil().max(0.0);
        let sure = f64::from(single) == count && count < f64::from(i32::MAX);
        sure.then(|| DimExpr::from(count as i64))
    };
    let count = count().or_else(real);
    at.one(at.dtype(0), Some(vec![count.map_or(Dim::Unknown, Dim::from)]))
}

pub(crate) fn compress(at: At<'_>) -> Option<Types> {
    if at.node.attributes.get("axis").is_none() {
        return at.one(at.dtype(0), Some(vec![Dim::Unknown]));
    }
    let shape = |x: &[Dim]| at.with_axis(x, at.int("axis", 0)?, Dim::Unknown);
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

pub(crate) fn non_zero(at: At<'_>) -> Option<Types> {
    let rank = at.dims(0).map_or(Dim::Unknown, |x| Dim::Known(x.len()));
    at.one(Some(DataType::I64), Some(vec![rank, Dim::Unknown]))
}

pub(crate) fn depth_to_space(at: At<'_>) -> Option<Types> {
    let block = at.int("blocksize", 0).filter(|b| *b > 0)?;
    let shape = |x: &[Dim]| {
        let [n, c, h, w] = x else { return None };
        let channels = divided(c, block.checked_mul(block)?);
        Some(vec![n.clone(), channels, scaled(h, block), scaled(w, block)])
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

pub(crate) fn space_to_depth(at: At<'_>) -> Option<Types> {
    let block = at.int("blocksize", 0).filter(|b| *b > 0)?;
    let shape = |x: &[Dim]| {
        let [n, c, h, w] = x else { return None };
        let channels = scaled(c, block.checked_mul(block)?);
        Some(vec![n.clone(), channels, divided(h, block), divided(w, block)])
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// `Resize` and `Upsample`: by sizes, or by scales.
pub(crate) fn resize(at: At<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| resized(at, x).unwrap_or_else(|| vec![Dim::Unknown; x.len()]);
    at.one(at.dtype(0), at.dims(0).map(shape))
}

fn resized(at: At<'_>, x: &[Dim]) -> Option<Vec<Dim>> {
    let all: Vec<i64> = (0..x.len() as i64).collect();
    let axes = at.ints("axes").unwrap_or(&all);
    let from: Vec<Dim> = axes.iter().map(|&a| x.get(axis(a, x.len())?).cloned()).collect::<Option<_>>()?;
    let newer = at.node.op_type == "Resize" && at.node.opset >= 11;
    // ONNX treats an empty list like an absent one here.
    if newer && at.has(3) && at.dims(3) != Some(&[Dim::Known(0)]) {
        let aspect = Aspect::of(at.text("keep_aspect_ratio_policy", "stretch")?)?;
        let sizes = at.extents(3).and_then(|sizes| infer::resized(&from, &sizes, aspect));
        let sizes = sizes.map_or_else(|| vec![Dim::Unknown; axes.len()], infer::Extents::into_vec);
        return at.with_axes(x, axes, &sizes);
    }
    let scales: Vec<f64> = if let (Ok(Some(height)), Ok(Some(width))) =
        (at.node.attributes.float("height_scale"), at.node.attributes.float("width_scale"))
    {
        vec![1.0, 1.0, height.into(), width.into()]
    } else if let Ok(Some(scales)) = at.node.attributes.floats("scales") {
        scales.iter().map(|&s| s.into()).collect()
    } else {
        let real = |e: &Entry| if let Entry::Real(v) = e { Some(*v) } else { None };
        match at.contents(if newer { 2 } else { 1 }) {
            Some(scales) => scales.entries.iter().map(real).collect::<Option<_>>()?,
            None => return at.with_axes(x, axes, &vec![Dim::Unknown; axes.len()]),
        }
    };
    let sizes: Vec<Dim> = from.iter().zip(&scales).map(|(dim, scale)| told(rescaled(dim, *scale))).collect();
    at.with_axes(x, axes, &sizes)
}
