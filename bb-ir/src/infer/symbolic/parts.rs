//! The rules of primitives that join tensors and take parts of them, over extents that may not be known.

use super::contents::{Entry, Given, given};
use super::dims::{concrete, known, map, mismatch, same, sum};
use super::rules::Shaped;
use super::{Facts, shape_of};
use crate::graph::{Dim, DimExpr, Node};
use crate::{Axis, Error, infer};

pub(super) fn concat(node: &Node, facts: &Facts) -> Result<Shaped, Error> {
    let shapes: Option<Vec<&[Dim]>> = (0..node.inputs.len()).map(|i| shape_of(facts.ty(node, i))).collect();
    let Some(shapes) = shapes else {
        return Ok(None);
    };
    let Some((first, rest)) = shapes.split_first() else {
        return Ok(None);
    };
    let axis = Axis::new(node.attributes.int("axis")?.unwrap_or(1), first.len())?.get();
    let mut out = first.to_vec();
    for shape in rest {
        if shape.len() != out.len() {
            return Err(mismatch("concat", &shapes));
        }
        for (i, (slot, dim)) in out.iter_mut().zip(*shape).enumerate() {
            *slot = if i == axis {
                sum(slot, dim)
            } else {
                same(slot, dim).ok_or_else(|| mismatch("concat", &shapes))?
            };
        }
    }
    Ok(Some(out))
}

/// The bounds of a slice, as far as they are known.
type Bounds = Vec<Option<DimExpr>>;

pub(super) fn slice(node: &Node, facts: &Facts, x: &[Dim]) -> Result<Shaped, Error> {
    let list = |name, at| match given(node, facts, name, at) {
        Given::Ints(v) => Some(v),
        Given::Absent => Some(Vec::new()),
        Given::Unknown => None,
    };
    let (axes, steps) = (list("axes", 3), list("steps", 4));
    if let (Some(starts), Some(ends), Some(axes), Some(steps), Some(extents)) =
        (list("starts", 1), list("ends", 2), &axes, &steps, concrete(x))
    {
        return infer::slice(&extents, &starts, &ends, axes, steps).map(|s| Some(known(&s.shape)));
    }
    let bounds = |name, at| match (given(node, facts, name, at), facts.contents(node, at)) {
        (Given::Ints(v), _) => Some(v.into_iter().map(|v| Some(DimExpr::from(v))).collect()),
        (_, Some(contents)) => Some(contents.entries.iter().map(|e| e.formula().cloned()).collect()),
        _ => None,
    };
    let count = shape_of(facts.ty(node, 1)).and_then(concrete).and_then(|s| s.first().copied());
    let (starts, ends): (Option<Bounds>, Option<Bounds>) = (bounds("starts", 1), bounds("ends", 2));
    let bound = |list: &Option<Bounds>, i: usize| list.as_ref()?.get(i)?.clone();
    let mut out = x.to_vec();
    let named: Vec<i64> = match (axes, starts.as_ref().map(Vec::len).or(count)) {
        (Some(axes), _) if !axes.is_empty() => axes,
        (Some(_), Some(count)) => (0..count as i64).collect(),
        // Any axis may change.
        _ => return Ok(Some(vec![Dim::Unknown; x.len()])),
    };
    for (i, axis) in named.into_iter().enumerate() {
        let Some(dim) = out.get_mut(Axis::new(axis, x.len())?.get()) else { continue };
        let step = steps.as_ref().map(|steps| steps.get(i).copied().unwrap_or(1));
        *dim = match (bound(&starts, i), bound(&ends, i), step) {
            (Some(start), Some(end), Some(step)) => sliced(facts, dim, &start, &end, step),
            _ => Dim::Unknown,
        };
    }
    Ok(Some(out))
}

/// How many elements a slice takes of an extent.
fn sliced(facts: &Facts, extent: &Dim, start: &DimExpr, end: &DimExpr, step: i64) -> Dim {
    // What no extent reaches is beyond the end, or before the start.
    const FAR: i64 = i32::MAX as i64;
    // An extent counts from the start; what may be negative might count from the end.
    let forwards = |at: &DimExpr| at.at_least(0) || facts.is_extent(at);
    let first = |n: &DimExpr| match start.constant() {
        Some(FAR..) => Some(n.clone()),
        Some(at) if at <= -FAR => Some(0.into()),
        Some(..0) => n.plus(start)?.greater(&0.into()),
        _ => forwards(start).then(|| start.clone()),
    };
    let last = |n: &DimExpr| match end.constant() {
        Some(FAR..) => Some(n.clone()),
        Some(at) if at <= -FAR => Some(0.into()),
        Some(..0) => n.plus(end),
        _ => forwards(end).then(|| n.lesser(end))?,
    };
    let backwards = start.constant().is_some_and(|s| s == -1 || s >= FAR);
    match step {
        1.. => {
            let count = map(extent, |n| last(n)?.minus(&first(n)?)?.greater(&0.into()));
            map(&count, |n| n.ceil_div(step))
        }
        // Backwards it is followed from end to end only.
        -1 if backwards && end.constant().is_some_and(|e| e <= -FAR) => extent.clone(),
        _ => Dim::Unknown,
    }
}

pub(super) fn gather(
    node: &Node,
    facts: &Facts,
    data: Option<&[Dim]>,
    indices: Option<&[Dim]>,
) -> Result<Shaped, Error> {
    let Some(data) = data else { return Ok(None) };
    let axis = Axis::new(node.attributes.int("axis")?.unwrap_or(0), data.len())?.get();
    if let (Some(Dim::Known(extent)), Some(contents)) = (data.get(axis), facts.contents(node, 1)) {
        for entry in &contents.entries {
            if let Some(index) = entry.int() {
                let extent = *extent;
                Axis::new(index, extent).map_err(|_| Error::Index { op: "gather", index, extent })?;
            }
        }
    }
    let Some(indices) = indices else {
        return Ok(None);
    };
    let mut out = Vec::with_capacity(data.len() + indices.len());
    for (i, dim) in data.iter().enumerate() {
        if i == axis {
            out.extend_from_slice(indices);
        } else {
            out.push(dim.clone());
        }
    }
    Ok(Some(out))
}

/// The extent of one of the parts that an extent is split into evenly; the last ones may be less.
fn share(extent: &Dim, parts: usize, part: usize) -> Dim {
    let (Ok(parts), Ok(part)) = (i64::try_from(parts), i64::try_from(part)) else { return Dim::Unknown };
    map(extent, |n| {
        let size = n.ceil_div(parts)?;
        n.minus(&size.scaled(part)?)?.greater(&0.into())?.lesser(&size)
    })
}

pub(super) fn split(node: &Node, facts: &Facts) -> Result<Vec<Shaped>, Error> {
    let parts = node.outputs.len();
    let Some(x) = shape_of(facts.ty(node, 0)) else {
        return Ok(vec![None; parts]);
    };
    let axis = Axis::new(node.attributes.int("axis")?.unwrap_or(0), x.len())?.get();
    let extent = x.get(axis).cloned().unwrap_or(Dim::Unknown);
    let sizes: Vec<Dim> = match (given(node, facts, "split", 1), extent) {
        (Given::Ints(sizes), extent) => {
            let wrong = |problem| Error::Param {
                op: "split",
                param: "sizes",
                problem,
                shape: concrete(x).unwrap_or_default().into_boxed_slice(),
            };
            let sizes: Vec<usize> = sizes
                .iter()
                .map(|&s| usize::try_from(s).map_err(|_| wrong("has a negative extent")))
                .collect::<Result<_, _>>()?;
            if sizes.len() != parts {
                return Err(wrong("has another length than there are outputs"));
            }
            if let Dim::Known(extent) = extent {
                infer::split(&[extent], 0, &sizes)?;
            }
            sizes.into_iter().map(Dim::Known).collect()
        }
        (Given::Absent, Dim::Known(extent)) => known(&infer::split_evenly(extent, parts)),
        (Given::Absent, extent) => (0..parts).map(|part| share(&extent, parts, part)).collect(),
        (Given::Unknown, _) => match facts.contents(node, 1) {
            Some(sizes) if sizes.entries.len() == parts => {
                let size = |e: &Entry| e.formula().map_or(Dim::Unknown, |f| Dim::from(f.clone()));
                sizes.entries.iter().map(size).collect()
            }
            _ => vec![Dim::Unknown; parts],
        },
    };
    Ok(sizes
        .into_iter()
        .map(|size| {
            let mut out = x.to_vec();
            if let Some(slot) = out.get_mut(axis) {
                *slot = size;
            }
            Some(out)
        })
        .collect())
}
