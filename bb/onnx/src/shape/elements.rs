//! Operators that repeat, mask or rearrange elements.

use super::number;
use crate::rows::operators;
use bb_core::error::NodePart;
use bb_core::ext::sample::blank_like;
use bb_core::ext::{Border, Extent, counted, math};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::Axis;
use bb_ir::graph::Dim;
use bb_ir::infer::Extent as _;
use bb_ir::infer::rule::{self, NodeFacts, Types};

operators! {
    "" {
        DepthToSpace => Primitives(depth_to_space), infer: By(depth_to_space_types), halves: Moves;
        GatherElements => Primitives(gather_elements), infer: By(gather_elements_types), becomes: NnOp::GatherElements, halves: Moves;
        GatherND => Primitives(gather_nd), infer: By(gather_nd_types), halves: Moves;
        OneHot => Primitives(one_hot), infer: By(one_hot_types), halves: Moves;
        Pad => Primitives(pad), infer: By(pad_types), becomes: NnOp::Pad, halves: Moves;
        SpaceToDepth => Primitives(space_to_depth), infer: By(space_to_depth_types), halves: Moves;
        Tile => Primitives(tile), infer: By(tile_types), halves: Moves;
        Trilu => Primitives(trilu), infer: Same, halves: Moves;
    }
}

fn tile_types(at: NodeFacts<'_>) -> Option<Types> {
    if at.node.opset < 6 {
        // Version 1 has a count and an axis as operands.
        let shape = |x: &[Dim]| {
            let Some(axis) = at.scalar(2) else { return Some(vec![Dim::Unknown; x.len()]) };
            let mut out = x.to_vec();
            let dim = out.get_mut(rule::axis(axis, x.len())?)?;
            *dim = rule::told(dim.times(&at.extent(1)));
            Some(out)
        };
        return at.one(at.dtype(0), at.dims(0).and_then(shape));
    }
    let shape = |x: &[Dim]| {
        let Some(repeats) = at.extents(1) else { return Some(vec![Dim::Unknown; x.len()]) };
        (repeats.len() == x.len())
            .then(|| x.iter().zip(&repeats).map(|(d, n)| rule::told(d.times(n))).collect())
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// `Tile`. In opset 1, it repeats along one axis; the count and the axis are operands.
pub(crate) fn tile(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let repeats: Vec<Extent> = if call.opset() < 6 {
        // Both operands have the element type of the first operand, but integral values.
        let (times, axis) = (number(on, call.input(1)?)?, number(on, call.input(2)?)?);
        let axis = Axis::new(axis as i64, x.rank()).map_err(Error::from)?.get();
        (0..x.rank()).map(|a| Extent::from(if a == axis { times as i64 } else { 1 })).collect()
    } else {
        on.extents_of(call.input(1)?)?
    };
    if repeats.len() != x.rank() || repeats.iter().any(|r| !r.at_least(&Extent::from(0i64))) {
        let repeats: Vec<i64> = repeats.iter().map(Extent::present).collect();
        return Err(call
            .wrong("repeats", format!("is {repeats:?}; the operand has rank {}", x.rank()))
            .into());
    }
    // Inserts a dimension of extent 1 before each dimension, and expands it to the number of repeats.
    let from = on.extents(x);
    let pairs = || from.iter().zip(&repeats);
    if pairs().any(|(d, r)| d.present().checked_mul(r.present()).is_none()) {
        return Err(call.wrong("repeats", "makes more elements than memory can hold").into());
    }
    let beside: Vec<Extent> = from.iter().flat_map(|d| [Extent::from(1i64), d.clone()]).collect();
    let grown: Vec<Extent> = pairs().flat_map(|(d, r)| [r.clone(), d.clone()]).collect();
    let tiled: Vec<Extent> = pairs().map(|(d, r)| d.times(r)).collect();
    let y = on.expand_to(&on.reshape_to(x, &beside)?, &grown)?;
    Ok(one(on.reshape_to(&y, &tiled)?))
}

/// `Trilu`: the elements above or below a diagonal, and 0 elsewhere.
pub fn trilu(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let extents = on.extents(x);
    let [.., rows, columns] = extents.as_slice() else {
        return Err(call.wrong(NodePart::Operand(0), "is no matrix").into());
    };
    let k = match call.optional(1) {
        Some(k) => on.ints(k)?.first().copied().unwrap_or(0),
        None => 0,
    };
    let mask = if call.flag("upper", true)? {
        bb_core::ext::create::diagonal(on, [rows, columns], k, |j, i| on.greater_or_equal(j, i))?
    } else {
        bb_core::ext::create::diagonal(on, [rows, columns], k, |j, i| on.less_or_equal(j, i))?
    };
    Ok(one(on.r#where(&mask, x, &blank_like(on, x)?)?))
}

fn gather_elements_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(at.dtype(0), at.dims(1).map(<[Dim]>::to_vec))
}

/// `GatherElements`.
pub(crate) fn gather_elements(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    Ok(one(on.gather_elements(call.input(0)?, call.input(1)?, call.int_or("axis", 0)?)?))
}

/// Infers the type of `GatherND`: for each index, the part of the data that it selects.
pub fn gather_nd_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = || {
        let (data, indices) = (at.dims(0)?, at.dims(1)?);
        let (Dim::Known(depth), outer) = indices.split_last()? else { return None };
        let batch = usize::try_from(at.int("batch_dims", 0)?).ok()?;
        let rest = data.get(batch.checked_add(*depth)?..)?;
        Some([outer, rest].concat())
    };
    at.one(at.dtype(0), shape())
}

/// `GatherND`.
pub fn gather_nd(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    Ok(one(on.gather_nd(call.input(0)?, call.input(1)?, call.int_or("batch_dims", 0)?)?))
}

fn one_hot_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let axis = rule::axis(at.int("axis", -1)?, x.len() + 1)?;
        let depth = match at.contents(1).and_then(rule::Contents::only) {
            Some(rule::Entry::Real(depth)) if depth.abs() < f64::from(i32::MAX) => {
                rule::extent(depth.trunc() as i64)
            }
            _ => at.extent(1),
        };
        let mut out = x.to_vec();
        out.insert(axis, depth);
        Some(out)
    };
    at.one(at.dtype(2), at.dims(0).and_then(shape))
}

/// `OneHot`: the second value at the position that an index names, and the first value elsewhere.
pub(crate) fn one_hot(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let (indices, values) = (call.input(0)?, call.input(2)?);
    let depth = number(on, call.input(1)?)? as i64;
    if !(0..1 << 31).contains(&depth) {
        return Err(call.wrong("depth", format!("is {depth}")).into());
    }
    let axis = Axis::new(call.int_or("axis", -1)?, indices.rank() + 1).map_err(Error::from)?.get();
    let indices = math::to(on, indices, DataType::I64)?;
    let extent = on.host(&[], &[depth])?;
    let negative = on.less(&indices, &on.host(&[], &[0i64])?)?;
    let indices = on.r#where(&negative, &on.add(&indices, &extent)?, &indices)?;
    let mut shape = vec![1; indices.rank() + 1];
    if let Some(slot) = shape.get_mut(axis) {
        *slot = depth as usize;
    }
    let places = counted(on, &shape, 1)?;
    let hot = on.equal(&on.unsqueeze(&indices, &[axis as i64])?, &places)?;
    let value = |i: i64| on.squeeze(&on.slice(values, &[i], &[i + 1], &[0], &[])?, &[0]);
    Ok(one(on.r#where(&hot, &value(1)?, &value(0)?)?))
}

/// Infers the type of `Pad`: the extents plus the paddings, if these are known.
pub fn pad_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let name = if at.node.opset < 2 { "paddings" } else { "pads" };
        let (Some(pads), Some(axes)) = (at.list(name, 1), at.list("axes", 3)) else {
            return Some(vec![Dim::Unknown; x.len()]);
        };
        let axes: Vec<usize> = if at.has(3) {
            axes.iter().map(|&a| rule::axis(a, x.len())).collect::<Option<_>>()?
        } else {
            (0..x.len()).collect()
        };
        let (before, after) = pads.split_at_checked(axes.len())?;
        let mut out = x.to_vec();
        for ((&axis, before), after) in axes.iter().zip(before).zip(after) {
            let dim = out.get_mut(axis)?;
            *dim = rule::shifted(dim, before.checked_add(*after)?);
        }
        Some(out)
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// `Pad`. The paddings are an attribute before opset 11, and an operand since. Since opset 18, `axes` selects the
/// padded axes.
pub fn pad(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let mode = call.word("mode", "constant", Border::of)?;
    let given = match call.ints("paddings")? {
        Some(list) => list.to_vec(),
        None => call.list(on, "pads", 1)?.ok_or_else(|| call.wrong("pads", "is missing"))?,
    };
    let mut value = call.optional(2).cloned();
    if call.has("value") {
        value = Some(on.scalar_like(x, call.float("value")?)?);
    }
    let Some(axes) = call.optional(3).map(|a| on.ints(a)).transpose()? else {
        return Ok(one(on.pad(x, value.as_ref(), &given, mode)?));
    };
    if given.len() != 2 * axes.len() {
        return Err(call
            .wrong("pads", format!("has {} numbers for {} axes", given.len(), axes.len()))
            .into());
    }
    let (starts, ends) = given.split_at(axes.len());
    let mut pads = vec![0; 2 * x.rank()];
    for (&axis, (&start, &end)) in axes.iter().zip(starts.iter().zip(ends)) {
        let axis = Axis::new(axis, x.rank()).map_err(Error::from)?.get();
        for (at, pad) in [(axis, start), (x.rank() + axis, end)] {
            if let Some(slot) = pads.get_mut(at) {
                *slot = pad;
            }
        }
    }
    Ok(one(on.pad(x, value.as_ref(), &pads, mode)?))
}

/// Reads `blocksize`, and checks that it is positive and not too large.
fn block<T: Tensor>(call: &Call<'_, T>) -> Result<usize, Error> {
    let size = call.int("blocksize")?;
    usize::try_from(size)
        .ok()
        .filter(|&b| (1..1 << 20).contains(&b))
        .ok_or_else(|| call.wrong("blocksize", format!("is {size}, expected a positive number")))
}

/// Reads `mode`, the order of channels: `DCR` returns true (index within the block first), `CRD` returns false
/// (channel of the image first).
fn blocks_first<T>(call: &Call<'_, T>) -> Result<bool, Error> {
    match call.text_or("mode", "DCR")? {
        "DCR" => Ok(true),
        "CRD" => Ok(false),
        other => Err(call.wrong("mode", format!("is `{other}`, expected `DCR` or `CRD`"))),
    }
}

fn depth_to_space_types(at: NodeFacts<'_>) -> Option<Types> {
    let block = at.int("blocksize", 0).filter(|b| *b > 0)?;
    let shape = |x: &[Dim]| {
        let [n, c, h, w] = x else { return None };
        let channels = rule::divided(c, block.checked_mul(block)?);
        Some(vec![n.clone(), channels, rule::scaled(h, block), rule::scaled(w, block)])
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// `DepthToSpace`: rearranges channels into blocks of the image.
pub(crate) fn depth_to_space(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let (x, b) = (call.input(0)?, block(call)?);
    let &[n, c, h, w] = x.shape() else {
        return Err(call.wrong(NodePart::Operand(0), "has no four dimensions").into());
    };
    if c % (b * b) != 0 {
        return Err(call
            .wrong("blocksize", format!("is {b}, whose square does not divide {c} channels"))
            .into());
    }
    let depth = c / (b * b);
    let (apart, perm) = match blocks_first(call)? {
        true => ([n, b, b, depth, h, w], [0, 3, 4, 1, 5, 2]),
        false => ([n, depth, b, b, h, w], [0, 1, 4, 2, 5, 3]),
    };
    let moved = on.transpose(&on.reshape(x, &apart)?, &perm)?;
    Ok(one(on.reshape(&moved, &[n, depth, h * b, w * b])?))
}

fn space_to_depth_types(at: NodeFacts<'_>) -> Option<Types> {
    let block = at.int("blocksize", 0).filter(|b| *b > 0)?;
    let shape = |x: &[Dim]| {
        let [n, c, h, w] = x else { return None };
        let channels = rule::scaled(c, block.checked_mul(block)?);
        Some(vec![n.clone(), channels, rule::divided(h, block), rule::divided(w, block)])
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// `SpaceToDepth`: rearranges blocks of the image into channels.
pub(crate) fn space_to_depth(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let (x, b) = (call.input(0)?, block(call)?);
    let &[n, c, h, w] = x.shape() else {
        return Err(call.wrong(NodePart::Operand(0), "has no four dimensions").into());
    };
    if h % b != 0 || w % b != 0 {
        return Err(call
            .wrong("blocksize", format!("is {b}, which does not divide extents {h} and {w}"))
            .into());
    }
    let perm = if blocks_first(call)? { [0, 3, 5, 1, 2, 4] } else { [0, 1, 3, 5, 2, 4] };
    let moved = on.transpose(&on.reshape(x, &[n, c, h / b, b, w / b, b])?, &perm)?;
    Ok(one(on.reshape(&moved, &[n, c * b * b, h / b, w / b])?))
}
