//! Operators about extents, and those that repeat, mask or rearrange elements.

use super::rows::operators;
use bb_core::error::NodePart;
use bb_core::ext::sample::blank_like;
use bb_core::ext::{Border, Extent, Ops, counted, math, product};
use bb_core::operator::{Call, OpResult, one};
use bb_core::{DataType, Error, Tensor};
use bb_ir::convert::{Rounding, cast};
use bb_ir::graph::{Dim, DimExpr};
use bb_ir::infer;
use bb_ir::infer::Extent as _;
use bb_ir::infer::rule::{self, At, Types};
use bb_ir::{Axis, TensorData};
use smallvec::SmallVec;

operators! {
    "" {
        ConstantOfShape => Primitives(constant_of_shape), infer: By(constant_of_shape_types), halves: Moves;
        DepthToSpace => Primitives(depth_to_space), infer: By(depth_to_space_types), halves: Moves;
        Expand => Primitives(expand), infer: By(expand_types), becomes: CreateOp::Expand, halves: Moves;
        EyeLike => Primitives(eye_like), infer: By(eye_like_types), halves: Moves;
        Flatten => Primitives(flatten), infer: By(flatten_types), halves: Moves;
        GatherElements => Primitives(gather_elements), infer: By(gather_elements_types), becomes: NnOp::GatherElements, halves: Moves;
        GatherND => Primitives(gather_nd), infer: By(gather_nd_types), halves: Moves;
        OneHot => Primitives(one_hot), infer: By(one_hot_types), halves: Moves;
        Pad => Primitives(pad), infer: By(pad_types), becomes: NnOp::Pad, halves: Moves;
        Range => Primitives(range), infer: By(range_types), becomes: CreateOp::Range, halves: Once, ignores: { "stash_type": "elements are computed in `f64`, and rounded once" };
        Shape => Primitives(shape), infer: By(shape_types), halves: Moves;
        Size => Primitives(size), infer: By(size_types), halves: Moves;
        SpaceToDepth => Primitives(space_to_depth), infer: By(space_to_depth_types), halves: Moves;
        Tile => Primitives(tile), infer: By(tile_types), halves: Moves;
        Trilu => Primitives(trilu), infer: Same, halves: Moves;
    }
}

fn shape_types(at: At<'_>) -> Option<Types> {
    let count = at.listed().map_or(Dim::Unknown, |dims| Dim::Known(dims.len()));
    at.one(Some(DataType::I64), Some(vec![count]))
}

/// `Shape`: the extents from `start` to before `end`.
pub(super) fn shape<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let x = call.input(0)?;
    let rank = x.rank() as i64;
    let bound = |v: i64| (if v < 0 { v + rank } else { v }).clamp(0, rank) as usize;
    let (start, end) = (bound(call.int_or("start", 0)?), bound(call.int_or("end", rank)?));
    let extents = on.extents(x);
    let extents = extents.get(start..end).unwrap_or_default();
    Ok(one(on.ints_of(&[extents.len()], extents)?))
}

fn size_types(at: At<'_>) -> Option<Types> {
    at.one(Some(DataType::I64), Some(Vec::new()))
}

/// `Size`: the number of elements.
pub(super) fn size<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let count = product(&on.extents(call.input(0)?));
    Ok(one(on.ints_of(&[], &[count])?))
}

/// Reads extents that a tensor holds.
pub(super) fn extents<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
    index: usize,
) -> Result<Vec<Extent>, B::Error> {
    let list = on.extents_of(call.input(index)?)?;
    if list.iter().all(|extent| extent.at_least(&Extent::from(0i64))) {
        return Ok(list);
    }
    let list: Vec<i64> = list.iter().map(Extent::present).collect();
    Err(call.wrong("shape", format!("is {list:?}; extents are not negative")).into())
}

/// Reads extents that a tensor holds, as numbers.
pub(super) fn sizes<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
    index: usize,
) -> Result<Vec<usize>, B::Error> {
    let list = extents(on, call, index)?;
    Ok(list.iter().map(|extent| usize::try_from(extent.number()).unwrap_or(0)).collect())
}

fn expand_types(at: At<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let to = at.extents(1).or_else(|| at.open_extents(1))?;
        Some(infer::broadcast("expand", &[x, &to]).ok()?.into_vec())
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// `Expand`: to the shape that the operand's and the given one broadcast to.
pub(super) fn expand<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let (x, to) = (call.input(0)?, extents(on, call, 1)?);
    let from = on.extents(x);
    let shape = bb_ir::infer::broadcast("expand", &[&from, &to]).map_err(Error::from)?;
    // The rule relies on kernels, which compare their operands' extents. Here one shape is no operand's.
    let (long, short) = (shape.len(), to.len());
    for (asked, extent) in to.iter().zip(shape.iter().skip(long - short)) {
        if !asked.is_same(extent) && !asked.is(1) {
            asked.equals(extent);
        }
    }
    Ok(one(on.expand_to(x, &shape)?))
}

fn constant_of_shape_types(at: At<'_>) -> Option<Types> {
    let dtype = at.node.attributes.tensor("value").ok()?.map_or(DataType::F32, TensorData::dtype);
    at.one(Some(dtype), at.extents(0).or_else(|| at.open_extents(0)))
}

/// `ConstantOfShape`.
pub(super) fn constant_of_shape<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let to = extents(on, call, 0)?;
    let value = match call.tensor_attribute("value")? {
        Some(value) => value.reshaped(&[]).map_err(Error::from)?,
        None => TensorData::scalar(0f32),
    };
    // The filling body makes small ones on the host; what it cannot say in a float is repeated.
    let number = cast(&value, DataType::F64, Rounding::default())
        .ok()
        .and_then(|v| v.as_slice().ok()?.first().copied());
    match number.filter(|_| value.dtype().is_compute() && value.dtype().bits() < 64) {
        Some(number) => Ok(one(on.full_to(&to, number, value.dtype())?)),
        None => Ok(one(on.expand_to(&on.constant(&value)?, &to)?)),
    }
}

/// Reads a tensor of one number.
pub(super) fn number<B: Ops + ?Sized>(on: &B, x: &B::Tensor) -> Result<f64, B::Error> {
    let data = cast(&on.to_host(x)?, DataType::F64, Rounding::default()).map_err(Error::from)?;
    match data.as_slice::<f64>().map_err(Error::from)? {
        [number] => Ok(*number),
        several => {
            let wrong = bb_ir::Error::Arity { op: "to_host", expected: "one element", got: several.len() };
            Err(Error::from(wrong).into())
        }
    }
}

pub(super) fn range_types(at: At<'_>) -> Option<Types> {
    let number = |input| at.contents(input)?.only()?.formula();
    let count = || infer::range_count(number(0)?, number(1)?, at.scalar(2)?);
    let real = || {
        let number = |input| match at.contents(input)?.only()? {
            rule::Entry::Real(value) => Some(*value),
            rule::Entry::Whole(_) | rule::Entry::Unknown => None,
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

/// `Range`.
pub(super) fn range<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    range_of(on, call, call.input(0)?, call.input(1)?, call.input(2)?)
}

/// Numbers from the first to before the last.
pub(super) fn range_of<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
    first: &B::Tensor,
    last: &B::Tensor,
    step: &B::Tensor,
) -> OpResult<B> {
    let dtype = first.dtype();
    for (at, x) in [first, last, step].into_iter().enumerate() {
        if x.dtype() != dtype {
            let problem = format!("is of type {}, and the first number of type {dtype}", x.dtype());
            return Err(call.wrong(NodePart::Operand(at), problem).into());
        }
        if bb_ir::element_count(x.shape()) != Some(1) {
            let problem = format!("has the shape {:?}, expected a scalar", x.shape());
            return Err(call.wrong(NodePart::Operand(at), problem).into());
        }
    }
    if matches!(dtype, DataType::I64 | DataType::I32)
        && let Some(range) = symbolic_range(on, [first, last, step])?
    {
        return Ok(one(math::to(on, &range, dtype)?));
    }
    if dtype == DataType::I64 {
        // Integers beyond 2^53 have no place in a float.
        let value = |x| -> Result<i128, B::Error> { Ok(on.ints(x)?.first().copied().unwrap_or(0).into()) };
        let (first, last, step) = (value(first)?, value(last)?, value(step)?);
        if step == 0 {
            return Err(call.wrong("delta", "is 0").into());
        }
        let count = ((last - first + step - step.signum()) / step).max(0);
        if count > MOST {
            return Err(call.wrong("limit", format!("makes {count} elements, more than {MOST}")).into());
        }
        call.bound(dtype, &[count as usize])?;
        let at = |i: usize| (first + i as i128 * step) as i64;
        let elements: Vec<i64> =
            bb_ir::memory::collected("range", (0..count as usize).map(at)).map_err(Error::from)?;
        return Ok(one(on.host(&[elements.len()], &elements)?));
    }
    let (first, last, step) = (number(on, first)?, number(on, last)?, number(on, step)?);
    let count = ((last - first) / step).ceil().max(0.0);
    if step == 0.0 || !count.is_finite() || count > MOST as f64 {
        return Err(call.wrong("delta", format!("is {step}, which makes {count} elements")).into());
    }
    call.bound(dtype, &[count as usize])?;
    Ok(one(on.range(first, step, count as i64, dtype)?))
}

/// Makes a range whose bounds follow from extents that may be others in other runs; `None` if they do not, or if it does not
/// ascend in steps that are known.
fn symbolic_range<B: Ops + ?Sized>(on: &B, bounds: [&B::Tensor; 3]) -> Result<Option<B::Tensor>, B::Error> {
    let mut numbers = SmallVec::<[Extent; 3]>::new();
    for bound in bounds {
        numbers.extend(on.extents_of(bound)?.into_iter().next());
    }
    let [first, last, step] = numbers.as_slice() else { return Ok(None) };
    if numbers.iter().all(Extent::is_fixed) || !step.is_fixed() || step.present() <= 0 {
        return Ok(None);
    }
    if !last.at_least(first) {
        return on.host::<i64>(&[0], &[]).map(Some);
    }
    on.iota(first, step, &last.minus(first).ceil_div(step)).map(Some)
}

/// The most elements that a range has.
const MOST: i128 = 1 << 28;

fn flatten_types(at: At<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let from = at.int("axis", 1)?;
        let from = if from < 0 { from + x.len() as i64 } else { from };
        let (outer, inner) = x.split_at_checked(usize::try_from(from).ok()?)?;
        Some(vec![rule::product(outer), rule::product(inner)])
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// `Flatten`: to a matrix, cut at `axis`.
pub(super) fn flatten<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let x = call.input(0)?;
    let axis = call.int_or("axis", 1)?;
    // The axis may be the rank itself: all dimensions are rows.
    let at = if axis == x.rank() as i64 {
        x.rank()
    } else {
        Axis::new(axis, x.rank()).map_err(Error::from)?.get()
    };
    let extents = on.extents(x);
    let (rows, columns) = extents.split_at(at);
    Ok(one(on.reshape_to(x, &[product(rows), product(columns)])?))
}

fn tile_types(at: At<'_>) -> Option<Types> {
    if at.node.opset < 6 {
        // The first version takes a count and an axis.
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

/// `Tile`: opset 1 repeats one axis, given as operands.
pub(super) fn tile<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let x = call.input(0)?;
    let repeats: Vec<Extent> = if call.opset() < 6 {
        // Both are of the operand's type, integers by value.
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
    // Each dimension beside one of extent 1, which grows.
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

fn eye_like_types(at: At<'_>) -> Option<Types> {
    at.one(at.type_attribute("dtype", at.dtype(0)), at.same())
}

/// `EyeLike`: ones on a diagonal.
pub(super) fn eye_like<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let x = call.input(0)?;
    let extents = on.extents(x);
    let [rows, columns] = extents.as_slice() else {
        return Err(call.wrong(NodePart::Operand(0), "is no matrix").into());
    };
    let mask =
        bb_core::ext::create::diagonal(on, [rows, columns], call.int_or("k", 0)?, |j, i| on.equal(j, i))?;
    Ok(one(math::to(on, &mask, call.dtype("dtype")?.unwrap_or(x.dtype()))?))
}

/// `Trilu`: what lies above a diagonal, or below, and 0 elsewhere.
pub(super) fn trilu<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
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

fn gather_elements_types(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(0), at.dims(1).map(<[Dim]>::to_vec))
}

/// `GatherElements`.
pub(super) fn gather_elements<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    Ok(one(on.gather_elements(call.input(0)?, call.input(1)?, call.int_or("axis", 0)?)?))
}

pub(super) fn gather_nd_types(at: At<'_>) -> Option<Types> {
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
pub(super) fn gather_nd<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    Ok(one(on.gather_nd(call.input(0)?, call.input(1)?, call.int_or("batch_dims", 0)?)?))
}

fn one_hot_types(at: At<'_>) -> Option<Types> {
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

/// `OneHot`: the second value where an index names the place, the first elsewhere.
pub(super) fn one_hot<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
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

pub(super) fn pad_types(at: At<'_>) -> Option<Types> {
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

/// `Pad`: paddings as an attribute before opset 11, an operand since; named axes since opset 18.
pub(super) fn pad<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
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

/// Reads `blocksize`, of whose square (or itself) an extent must be a multiple.
fn block<T: Tensor>(call: &Call<'_, T>) -> Result<usize, Error> {
    let size = call.int("blocksize")?;
    usize::try_from(size)
        .ok()
        .filter(|&b| (1..1 << 20).contains(&b))
        .ok_or_else(|| call.wrong("blocksize", format!("is {size}, expected a positive number")))
}

/// Reads the order of the channels that are blocks: places in a block before channels of the image, or after them.
fn blocks_first<T>(call: &Call<'_, T>) -> Result<bool, Error> {
    match call.text_or("mode", "DCR")? {
        "DCR" => Ok(true),
        "CRD" => Ok(false),
        other => Err(call.wrong("mode", format!("is `{other}`, expected `DCR` or `CRD`"))),
    }
}

fn depth_to_space_types(at: At<'_>) -> Option<Types> {
    let block = at.int("blocksize", 0).filter(|b| *b > 0)?;
    let shape = |x: &[Dim]| {
        let [n, c, h, w] = x else { return None };
        let channels = rule::divided(c, block.checked_mul(block)?);
        Some(vec![n.clone(), channels, rule::scaled(h, block), rule::scaled(w, block)])
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// `DepthToSpace`: channels become blocks.
pub(super) fn depth_to_space<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
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

fn space_to_depth_types(at: At<'_>) -> Option<Types> {
    let block = at.int("blocksize", 0).filter(|b| *b > 0)?;
    let shape = |x: &[Dim]| {
        let [n, c, h, w] = x else { return None };
        let channels = rule::scaled(c, block.checked_mul(block)?);
        Some(vec![n.clone(), channels, rule::divided(h, block), rule::divided(w, block)])
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// `SpaceToDepth`: blocks become channels.
pub(super) fn space_to_depth<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
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
