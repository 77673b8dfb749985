//! Rules of primitives that concatenate tensors or take parts of them, over extents that may be
//! unknown.

use super::contents::{Entry, Given, given};
use super::rules::Shaped;
use super::{Facts, shape_of};
use crate::graph::{Dim, Node};
use crate::infer::{self, Bound, Extent, current};
use crate::{Axis, Error};

pub(super) fn concat(node: &Node, facts: &Facts) -> Result<Shaped, Error> {
    let shapes: Option<Vec<&[Dim]>> = (0..node.inputs.len()).map(|i| shape_of(facts.ty(node, i))).collect();
    match shapes {
        Some(shapes) if !shapes.is_empty() => {
            let axis = node.attributes.int("axis")?.unwrap_or(1);
            Ok(Some(infer::concat(shapes, axis)?.shape.into_vec()))
        }
        _ => Ok(None),
    }
}

pub(super) fn slice(node: &Node, facts: &Facts, x: &[Dim]) -> Result<Shaped, Error> {
    let list = |name, at| match given(node, facts, name, at) {
        Given::Ints(v) => Some(v),
        Given::Absent => Some(Vec::new()),
        Given::Unknown => None,
    };
    let (axes, steps) = (list("axes", 3), list("steps", 4));
    // A bound that is an extent counts from the start. The bound is unknown if it may be negative,
    // because it would then count from the end.
    let bound = |entry: &Entry| match (entry.int(), entry.formula()) {
        (Some(n), _) => Some(Bound::of(n)),
        (None, Some(at)) if at.at_least(0) || facts.is_extent(at) => {
            Some(Bound::FromStart(Dim::from(at.clone())))
        }
        _ => None,
    };
    let count = shape_of(facts.ty(node, 1)).and_then(current).and_then(|s| s.first().copied());
    let bounds = |name, at| match (given(node, facts, name, at), facts.contents(node, at)) {
        (Given::Ints(v), _) => Some(v.into_iter().map(|n| bound(&n.into())).collect()),
        (_, Some(contents)) => Some(contents.entries.iter().map(bound).collect()),
        _ => None,
    };
    let (starts, ends): (Option<Vec<_>>, Option<Vec<_>>) = (bounds("starts", 1), bounds("ends", 2));
    // If only one list is known, the unknown list has the same length.
    let lengths = [&starts, &ends].map(|list| list.as_ref().map(Vec::len));
    let count =
        lengths.into_iter().flatten().next().or(count).or(axes.as_ref().map(Vec::len).filter(|n| *n > 0));
    let (Some(axes), Some(count)) = (axes, count) else {
        // The axes are unknown, so any extent may change.
        return Ok(Some(vec![Dim::Unknown; x.len()]));
    };
    let open = || vec![None; count];
    let (starts, ends) = (starts.unwrap_or_else(open), ends.unwrap_or_else(open));
    match steps {
        Some(steps) => infer::slice_by(x, &starts, &ends, &axes, &steps),
        None => infer::slice_by(x, &open(), &open(), &axes, &[]),
    }
    .map(|shape| Some(shape.into_vec()))
}

pub(super) fn gather(
    node: &Node,
    facts: &Facts,
    data: Option<&[Dim]>,
    indices: Option<&[Dim]>,
) -> Result<Shaped, Error> {
    let Some(data) = data else { return Ok(None) };
    let axis = node.attributes.int("axis")?.unwrap_or(0);
    let along = data.get(Axis::new(axis, data.len())?.get());
    if let (Some(Dim::Known(extent)), Some(contents)) = (along, facts.contents(node, 1)) {
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
    Ok(Some(infer::gather(data, indices, axis)?.shape.into_vec()))
}

pub(super) fn split(node: &Node, facts: &Facts) -> Result<Vec<Shaped>, Error> {
    let parts = node.outputs.len();
    let Some(x) = shape_of(facts.ty(node, 0)) else {
        return Ok(vec![None; parts]);
    };
    let axis = node.attributes.int("axis")?.unwrap_or(0);
    let at = Axis::new(axis, x.len())?.get();
    let wrong = |problem| Error::Param {
        op: "split",
        param: "sizes",
        problem,
        shape: current(x).unwrap_or_default().into_boxed_slice(),
    };
    let sizes: Vec<Dim> = match given(node, facts, "split", 1) {
        Given::Ints(sizes) => {
            let size = |&n: &i64| Dim::of(n).ok_or_else(|| wrong("has a negative extent"));
            let sizes = sizes.iter().map(size).collect::<Result<Vec<_>, _>>()?;
            if sizes.len() != parts {
                return Err(wrong("has another length than there are outputs"));
            }
            sizes
        }
        Given::Absent => infer::split_evenly(x.get(at).unwrap_or(&Dim::Unknown), parts)?.into_vec(),
        Given::Unknown => match facts.contents(node, 1) {
            Some(sizes) if sizes.entries.len() == parts => {
                let size = |e: &Entry| e.formula().map_or(Dim::Unknown, |f| Dim::from(f.clone()));
                sizes.entries.iter().map(size).collect()
            }
            _ => vec![Dim::Unknown; parts],
        },
    };
    infer::split(x, axis, &sizes)?;
    let part = |size: Dim| {
        let mut out = x.to_vec();
        if let Some(slot) = out.get_mut(at) {
            *slot = size;
        }
        Some(out)
    };
    Ok(sizes.into_iter().map(part).collect())
}
