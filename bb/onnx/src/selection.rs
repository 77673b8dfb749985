//! Operators whose output size depends on data (Compress, NonZero, Unique). They run on the host.

use super::rows::operators;
use bb_core::Error;
use bb_core::ext::sort::{around, keys};
use bb_core::operator::{Call, OpOutputs, one};
use bb_ir::convert::{Rounding, cast};
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{self, NodeFacts, Types};
use bb_ir::pace::{Pace, STRETCH};
use bb_ir::{Axis, DataType, Shape, TensorData, memory};
use smallvec::smallvec;
use std::cmp::Ordering;

operators! {
    "" {
        Compress => Host(compress), infer: By(compress_types);
        NonZero => Host(non_zero), infer: By(non_zero_types);
        Unique => Host(unique), infer: By(unique_types);
    }
}

fn non_zero_types(at: NodeFacts<'_>) -> Option<Types> {
    let rank = at.dims(0).map_or(Dim::Unknown, |x| Dim::Known(x.len()));
    at.one(Some(DataType::I64), Some(vec![rank, Dim::Unknown]))
}

/// `NonZero`: the coordinates of nonzero elements, one column per element. The column of a scalar is empty.
pub(super) fn non_zero(call: &Call<'_, TensorData>) -> Result<OpOutputs<TensorData>, Error> {
    let x = call.input(0)?;
    let truths = cast(x, DataType::Bool, Rounding::default())?;
    let truths = truths.unaligned_bytes()?;
    let mut pace = Pace::new();
    let mut count = 0;
    for truths in truths.chunks(STRETCH) {
        pace.step(truths.len());
        count += truths.iter().map(|&truth| usize::from(truth)).sum::<usize>();
    }
    let rank = x.shape().len();
    let mut bytes =
        memory::filled("NonZero", 0u8, count.saturating_mul(rank).saturating_mul(size_of::<i64>()))?;
    let mut shape = x.shape();
    // The coordinates of the last dimensions stay 0 if their extent is 1.
    while let [rest @ .., 1] = shape {
        shape = rest;
    }
    if let [outer @ .., extent] = shape {
        let (coordinates, _) = bytes.as_chunks_mut::<{ size_of::<i64>() }>();
        let (firsts, last) = coordinates.split_at_mut(outer.len().saturating_mul(count));
        let mut last = last.get_mut(..count).unwrap_or_default();
        let (mut at, mut found) = (Shape::from_elem(0, outer.len()), 0);
        for row in truths.chunks((*extent).max(1)) {
            for (part, truths) in row.chunks(STRETCH).enumerate() {
                pace.step(1 + truths.len());
                let mut of_part = 0;
                for (i, &truth) in (part * STRETCH..).zip(truths) {
                    // Each coordinate is written, and overwritten unless its element is nonzero, because a branch would often
                    // be mispredicted.
                    if let Some(coordinate) = last.get_mut(of_part) {
                        *coordinate = (i as i64).to_ne_bytes();
                    }
                    of_part += usize::from(truth);
                }
                last = last.split_at_mut(of_part).1;
                for (coordinates, &at) in firsts.chunks_mut(count.max(1)).zip(&at) {
                    let here = coordinates.get_mut(found..found + of_part).unwrap_or_default();
                    here.fill((at as i64).to_ne_bytes());
                }
                found += of_part;
            }
            for (index, &extent) in at.iter_mut().zip(outer).rev() {
                *index += 1;
                if *index < extent {
                    break;
                }
                *index = 0;
            }
        }
    }
    Ok(one(TensorData::adopt(DataType::I64, &[rank, count], bytes.into())?))
}

/// Gathers entries along an axis.
fn taken(x: &TensorData, axis: usize, entries: &[usize]) -> Result<TensorData, Error> {
    let [outer, extent, inner] = around(x.shape(), axis);
    let mut shape = x.shape().to_vec();
    if let Some(slot) = shape.get_mut(axis) {
        *slot = entries.len();
    }
    let starts = (0..outer).flat_map(|o| entries.iter().map(move |e| (o * extent + e) * inner));
    if x.dtype() == DataType::String {
        let texts = memory::collected("take", x.iter_bytes())?;
        let chosen = starts.filter_map(|at| texts.get(at..at + inner)).flatten().copied();
        let chosen: Vec<&[u8]> = memory::collected("take", chosen)?;
        return Ok(TensorData::strings(&shape, &chosen)?);
    }
    if !x.dtype().bits().is_multiple_of(8) {
        return Err(bb_ir::Error::Unsupported { op: "take", dtype: x.dtype() }.into());
    }
    let width = x.dtype().bits() / 8;
    let count = outer.saturating_mul(entries.len()).saturating_mul(inner).saturating_mul(width);
    let mut bytes: Vec<u8> = memory::room("take", count)?;
    let elements = x.unaligned_bytes()?;
    // Copy slices, because an iterator over single bytes would copy one byte at a time.
    let mut pace = Pace::new();
    starts.filter_map(|at| elements.get(at * width..(at + inner) * width)).for_each(|run| {
        pace.step(1 + run.len() / 64);
        bytes.extend_from_slice(run);
    });
    Ok(TensorData::adopt(x.dtype(), &shape, bytes.into())?)
}

/// Reads the axis. Without `axis`, returns the tensor flattened to a vector.
fn along(call: &Call<'_, TensorData>) -> Result<(TensorData, usize), Error> {
    let x = call.input(0)?;
    if !call.has("axis") {
        return Ok((x.reshaped(&[x.len()])?, 0));
    }
    Ok((x.clone(), Axis::new(call.int("axis")?, x.shape().len())?.get()))
}

fn compress_types(at: NodeFacts<'_>) -> Option<Types> {
    if at.node.attributes.get("axis").is_none() {
        return at.one(at.dtype(0), Some(vec![Dim::Unknown]));
    }
    let shape = |x: &[Dim]| at.with_axis(x, at.int("axis", 0)?, Dim::Unknown);
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// `Compress`: the entries whose condition is true. The condition may be shorter than the axis.
pub(super) fn compress(call: &Call<'_, TensorData>) -> Result<OpOutputs<TensorData>, Error> {
    let (x, axis) = along(call)?;
    let condition = call.input(1)?.to_bools()?;
    let entries = condition.into_iter().enumerate().filter(|(_, holds)| *holds).map(|(i, _)| i);
    let entries = memory::collected("Compress", entries)?;
    let extent = x.shape().get(axis).copied().unwrap_or(0);
    match entries.last() {
        Some(&last) if last >= extent => {
            Err(bb_ir::Error::Index { op: "Compress", index: last as i64, extent }.into())
        }
        _ => Ok(one(taken(&x, axis, &entries)?)),
    }
}

/// Infers the types of `Unique`: the distinct entries, the index of the first occurrence of each, the index of each original
/// entry among the distinct ones, and the counts.
fn unique_types(at: NodeFacts<'_>) -> Option<Types> {
    let (along, all) = if at.node.attributes.get("axis").is_some() {
        let along = at.int("axis", 0)?;
        let found = at.dims(0).and_then(|x| at.with_axis(x, along, Dim::Unknown));
        let extent = at.dims(0).and_then(|x| x.get(rule::axis(along, x.len())?).cloned());
        (found, extent.unwrap_or(Dim::Unknown))
    } else {
        (Some(vec![Dim::Unknown]), at.dims(0).map_or(Dim::Unknown, rule::product))
    };
    let counts = |extent| rule::tensor(Some(DataType::I64), Some(vec![extent]));
    Some(vec![rule::tensor(at.dtype(0), along), counts(Dim::Unknown), counts(all), counts(Dim::Unknown)])
}

/// `Unique`: the distinct entries, the index of the first occurrence of each, the index of each original entry among the
/// distinct ones, and the counts.
///
/// NaN equals itself and is greater than all other numbers. Entries of several elements are compared lexicographically.
pub(super) fn unique(call: &Call<'_, TensorData>) -> Result<OpOutputs<TensorData>, Error> {
    let (x, axis) = along(call)?;
    unique_by(&x, axis, call.flag("sorted", true)?)
}

/// Computes the results of `Unique`.
pub fn unique_by(x: &TensorData, axis: usize, sorted: bool) -> Result<OpOutputs<TensorData>, Error> {
    let groups = match x.dtype() {
        DataType::String => {
            let texts = memory::collected("Unique", x.iter_bytes())?;
            grouped(&texts, x.shape(), axis, sorted, |text| text.len() / 16, |a, b| a.cmp(b))?
        }
        DataType::Bool => grouped(x.bytes()?, x.shape(), axis, sorted, |_| 0, u8::cmp)?,
        DataType::C64 => complex(x, DataType::F32, axis, sorted)?,
        DataType::C128 => complex(x, DataType::F64, axis, sorted)?,
        _ => grouped(&keys("Unique", x)?, x.shape(), axis, sorted, |_| 0, u64::cmp)?,
    };
    let list = |list: &[usize]| {
        let list: Vec<i64> = memory::collected("Unique", list.iter().map(|&i| i as i64))?;
        TensorData::new(&[list.len()], &list)
    };
    Ok(smallvec![
        Some(taken(x, axis, &groups.first)?),
        Some(list(&groups.first)?),
        Some(list(&groups.of)?),
        Some(list(&groups.count)?),
    ])
}

/// Groups of equal entries.
struct Groups {
    /// The first entry of each group.
    first: Vec<usize>,
    /// The group of each entry, by index.
    of: Vec<usize>,
    /// The number of entries of each group.
    count: Vec<usize>,
}

/// Groups complex numbers, ordered by the real part and then by the imaginary part.
fn complex(x: &TensorData, part: DataType, axis: usize, sorted: bool) -> Result<Groups, Error> {
    let parts = keys("Unique", &TensorData::adopt(part, &[x.len(), 2], x.bytes()?.clone())?)?;
    grouped(parts.as_chunks::<2>().0, x.shape(), axis, sorted, |_| 0, <[u64; 2]>::cmp)
}

/// Groups the entries along an axis. `size` returns the extra work of comparing an element, relative to comparing two
/// numbers.
fn grouped<T: Copy>(
    elements: &[T],
    shape: &[usize],
    axis: usize,
    sorted: bool,
    size: impl Fn(&T) -> usize,
    compare: impl Fn(&T, &T) -> Ordering,
) -> Result<Groups, Error> {
    const OP: &str = "Unique";
    let compare = |pace: &mut Pace, a: &T, b: &T| {
        pace.step(1 + size(a).min(size(b)));
        compare(a, b)
    };
    let [outer, extent, inner] = around(shape, axis);
    let entry = |e: usize| {
        let starts = (0..outer).map(move |o| (o * extent + e) * inner);
        starts.flat_map(|at| elements.get(at..at + inner).unwrap_or_default())
    };
    let single = outer == 1 && inner == 1;
    let mut pace = Pace::new();
    let order = |pace: &mut Pace, &a: &usize, &b: &usize| {
        if single && let (Some(x), Some(y)) = (elements.get(a), elements.get(b)) {
            return compare(pace, x, y);
        }
        let mut orders = entry(a).zip(entry(b)).map(|(x, y)| compare(pace, x, y));
        orders.find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
    };
    // Ties are broken by index, so that the first of equal entries stays first. A stable sort would allocate memory and
    // abort if there is none.
    let entries: Vec<usize> = if single {
        // Sort pairs of element and index, so that comparisons need no indirect reads.
        let mut pairs: Vec<(T, usize)> = memory::collected(OP, elements.iter().copied().zip(0..extent))?;
        pairs.sort_unstable_by(|(x, a), (y, b)| compare(&mut pace, x, y).then(a.cmp(b)));
        memory::collected(OP, pairs.iter().map(|&(_, entry)| entry))?
    } else {
        let mut entries = memory::collected(OP, 0..extent)?;
        entries.sort_unstable_by(|a, b| order(&mut pace, a, b).then(a.cmp(b)));
        entries
    };
    let mut runs: Vec<&[usize]> =
        memory::collected(OP, entries.chunk_by(|a, b| order(&mut pace, a, b).is_eq()))?;
    if !sorted {
        runs.sort_unstable_by(|a, b| {
            pace.step(1);
            a.first().cmp(&b.first())
        });
    }
    let mut of = memory::filled(OP, 0, extent)?;
    for (group, run) in runs.iter().enumerate() {
        pace.step(run.len());
        for &e in *run {
            if let Some(slot) = of.get_mut(e) {
                *slot = group;
            }
        }
    }
    Ok(Groups {
        first: memory::collected(OP, runs.iter().filter_map(|run| run.first().copied()))?,
        of,
        count: memory::collected(OP, runs.iter().map(|run| run.len()))?,
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use bb_ir::graph::Node;

    #[test]
    fn coordinates_are_those_of_the_elements_that_are_not_zero() {
        let shapes: [&[usize]; 11] = [
            &[],
            &[0],
            &[1],
            &[1, 1],
            &[7],
            &[3, 0, 2],
            &[4, 5, 1],
            &[2, 1, 3, 5],
            &[5, 1, 1, 1],
            &[STRETCH + 3],
            &[2, STRETCH + 1],
        ];
        for shape in shapes {
            for some in [0usize, 1, 2, 3] {
                let special = [f32::NAN, -0.0, f32::from_bits(1), -1.0];
                let element = |i: usize| match (some, i * 7919 % 11) {
                    (0, _) => 0.0,
                    (1, _) => 1.0,
                    (_, n) => special.get((n + some) % 6).copied().unwrap_or(0.0),
                };
                let elements: Vec<f32> = (0..shape.iter().product()).map(element).collect();
                let found: Vec<usize> = (0..elements.len()).filter(|&i| element(i) != 0.0).collect();
                let mut expected: Vec<i64> = Vec::new();
                for (axis, &extent) in shape.iter().enumerate() {
                    let inner: usize = shape.iter().skip(axis + 1).product();
                    expected.extend(found.iter().map(|i| (i / inner % extent) as i64));
                }
                let node = Node { op_type: "NonZero".to_owned(), opset: 13, ..Node::default() };
                let x = TensorData::new(shape, &elements).unwrap();
                let bools = cast(&x, DataType::Bool, Rounding::default()).unwrap();
                let complex: Vec<f32> = elements.iter().flat_map(|&x| [0.0, x]).collect();
                let bytes = TensorData::new(&[complex.len()], &complex).unwrap().bytes().unwrap().clone();
                let complex = TensorData::adopt(DataType::C64, shape, bytes).unwrap();
                for x in [x, bools, complex] {
                    let inputs = [Some(x)];
                    let results = non_zero(&Call::new(&node, &inputs)).unwrap();
                    let result = results.first().unwrap().as_ref().unwrap();
                    assert_eq!(result.shape(), [shape.len(), found.len()]);
                    assert_eq!(result.as_slice::<i64>().unwrap(), expected, "{shape:?} {some}");
                }
            }
        }
    }
}
