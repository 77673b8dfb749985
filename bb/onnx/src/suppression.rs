//! `NonMaxSuppression`, which runs on the host because the number of kept boxes depends on the data.

use super::rows::operators;
use bb_core::Error;
use bb_core::error::NodePart;
use bb_core::operator::{Call, OpOutputs, one};
use bb_ir::convert::{Rounding, cast};
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{NodeFacts, Types};
use bb_ir::pace::{Pace, STRETCH};
use bb_ir::{DataType, TensorData, memory};

operators! {
    "" {
        NonMaxSuppression => Host(non_max_suppression), infer: By(non_max_suppression_types);
    }
}

/// A box, by its minimum and maximum coordinates.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    x: (f32, f32),
    y: (f32, f32),
}

impl Bounds {
    /// Creates a box from two opposite corners `y, x, y, x`, or from a centre and a size `x, y, w, h`.
    fn new(numbers: [f32; 4], centred: bool) -> Bounds {
        let [a, b, c, d] = numbers;
        if centred {
            Bounds { x: (a - c / 2.0, a + c / 2.0), y: (b - d / 2.0, b + d / 2.0) }
        } else {
            Bounds { x: (b.min(d), b.max(d)), y: (a.min(c), a.max(c)) }
        }
    }

    fn is_finite(self) -> bool {
        [self.x.0, self.x.1, self.y.0, self.y.1].iter().all(|v| v.is_finite())
    }

    /// Returns whether the box is finite and its width and height are not negative.
    fn is_proper(self) -> bool {
        self.is_finite() && self.x.0 <= self.x.1 && self.y.0 <= self.y.1
    }

    fn area(self) -> f32 {
        (self.x.1 - self.x.0) * (self.y.1 - self.y.0)
    }

    /// Returns whether the intersection over union of two boxes exceeds `threshold`.
    #[inline]
    fn overlaps(self, other: Bounds, threshold: f32) -> bool {
        // The methods of `f32` take more instructions, because they ignore NaN. With NaN, the area is NaN here.
        let least = |a: f32, b: f32| if a < b { a } else { b };
        let greatest = |a: f32, b: f32| if a > b { a } else { b };
        let width = least(self.x.1, other.x.1) - greatest(self.x.0, other.x.0);
        let height = least(self.y.1, other.y.1) - greatest(self.y.0, other.y.0);
        if !(width > 0.0 && height > 0.0 && self.area() > 0.0 && other.area() > 0.0) {
            return false;
        }
        let both = width * height;
        let either = self.area() + other.area() - both;
        either > 0.0 && both / either > threshold
    }
}

const OP: &str = "NonMaxSuppression";

/// The minimum number of candidates that are put in order at once.
const PART: usize = 64;

/// The maximum number of candidates for comparing each box with all kept boxes. Larger numbers use a grid.
const FEW: usize = 256;

/// The maximum number of cells that list a box.
const CELLS: usize = 16;

/// The division of the `x` or the `y` axis into cells.
#[derive(Debug, Clone, Copy)]
struct Side {
    /// The minimum coordinate.
    origin: f32,
    /// The number of cells per unit of length.
    scale: f32,
    cells: usize,
}

impl Side {
    /// Creates cells of about the average size of a box, but at most `most` cells.
    fn of(intervals: impl Iterator<Item = (f32, f32)>, most: usize) -> Side {
        let (mut least, mut greatest) = (f32::INFINITY, f32::NEG_INFINITY);
        let (mut lengths, mut count) = (0f64, 0f64);
        for (from, to) in intervals {
            (least, greatest) = (least.min(from), greatest.max(to));
            (lengths, count) = (lengths + f64::from(to) - f64::from(from), count + 1.0);
        }
        let wanted = (f64::from(greatest) - f64::from(least)) * count / lengths;
        let cells = (wanted as usize).clamp(1, most.max(1));
        Side { origin: least, scale: cells as f32 / (greatest - least), cells }
    }

    /// Returns the cell of a coordinate. NaN and coordinates outside the grid are assigned to one of the outermost cells.
    fn cell(self, v: f32) -> usize {
        (((v - self.origin) * self.scale) as usize).min(self.cells - 1)
    }
}

/// The kept boxes, listed by the grid cells that they cover, so that a box is compared only with boxes near it.
///
/// Boxes that overlap share a cell, because cell indices increase monotonically with coordinates.
struct KeptBoxes {
    all: Vec<Bounds>,
    /// The cells along `x` and `y`, if there is a grid.
    sides: Option<[Side; 2]>,
    /// For each cell, row by row, the indices in `all` of the boxes in the cell.
    cells: Vec<Vec<u32>>,
    /// The indices in `all` of boxes that cover many cells, or are not finite.
    wide: Vec<u32>,
}

/// The cells in the columns from `left` to `right` and the rows from `top` to `bottom`.
#[derive(Debug, Clone, Copy)]
struct Near {
    left: usize,
    right: usize,
    top: usize,
    bottom: usize,
    /// The number of cells in a row of the grid.
    row: usize,
}

impl Near {
    /// Returns the number of cells. The width and height of a box may be negative; then it covers no cell and overlaps
    /// nothing.
    fn count(&self) -> usize {
        (self.right + 1).saturating_sub(self.left).saturating_mul((self.bottom + 1).saturating_sub(self.top))
    }

    /// Returns the range of cell indices in each row.
    fn rows(self) -> impl Iterator<Item = std::ops::Range<usize>> {
        (self.top..=self.bottom).map(move |at| at * self.row + self.left..at * self.row + self.right + 1)
    }
}

impl KeptBoxes {
    /// Creates a list for at most `count` of these candidates.
    fn new(candidates: impl Iterator<Item = Bounds>, count: usize) -> Result<KeptBoxes, Error> {
        let candidates = candidates.filter(|bounds| bounds.is_proper() && count > FEW);
        let proper: Vec<Bounds> = memory::collected(OP, candidates)?;
        let sides = (!proper.is_empty()).then(|| {
            let x = Side::of(proper.iter().map(|bounds| bounds.x), count);
            let y = Side::of(proper.iter().map(|bounds| bounds.y), count);
            // Reduce both sides if there are many more cells than boxes.
            let times = (x.cells as f64 * y.cells as f64 / count as f64).sqrt().max(1.0);
            let fewer = |cells: usize| ((cells as f64 / times) as usize).max(1);
            let x = Side::of(proper.iter().map(|bounds| bounds.x), fewer(x.cells));
            let y = Side::of(proper.iter().map(|bounds| bounds.y), (2 * count / x.cells).max(1));
            [x, y]
        });
        let cells = sides.map_or(0, |[x, y]| x.cells * y.cells);
        Ok(KeptBoxes {
            all: Vec::new(),
            sides,
            cells: memory::filled(OP, Vec::new(), cells)?,
            wide: Vec::new(),
        })
    }

    /// Returns the cells that a box covers, if there is a grid and the box is finite.
    fn near(&self, bounds: Bounds) -> Option<Near> {
        let [x, y] = self.sides.filter(|_| bounds.is_finite())?;
        let (left, right) = (x.cell(bounds.x.0), x.cell(bounds.x.1));
        let (top, bottom) = (y.cell(bounds.y.0), y.cell(bounds.y.1));
        Some(Near { left, right, top, bottom, row: x.cells })
    }

    /// Returns whether one of the kept boxes overlaps this box by more than `threshold`.
    fn any_overlaps(&self, bounds: Bounds, threshold: f32, pace: &mut Pace) -> bool {
        let overlaps = |kept: &Bounds| bounds.overlaps(*kept, threshold);
        let Some(near) = self.near(bounds).filter(|near| near.count() < self.all.len()) else {
            return self.all.chunks(STRETCH).any(|kept| {
                pace.step(kept.len());
                kept.iter().any(overlaps)
            });
        };
        let cells = near.rows().flat_map(|row| self.cells.get(row).unwrap_or_default());
        std::iter::once(&self.wide).chain(cells).any(|cell| {
            pace.step(1 + cell.len());
            cell.iter().filter_map(|at| self.all.get(*at as usize)).any(overlaps)
        })
    }

    fn push(&mut self, bounds: Bounds) -> Result<(), Error> {
        let at = self.all.len() as u32;
        memory::push(OP, &mut self.all, bounds)?;
        match self.near(bounds).filter(|near| near.count() <= CELLS) {
            Some(near) => {
                for row in near.rows() {
                    for cell in self.cells.get_mut(row).unwrap_or_default() {
                        memory::push(OP, cell, at)?;
                    }
                }
            }
            None if self.sides.is_some() => memory::push(OP, &mut self.wide, at)?,
            None => {}
        }
        Ok(())
    }
}

/// Returns the key of a candidate. A higher score has a lower key, and so has, of equal scores, a lower index.
#[inline]
fn key(score: f32, index: u32) -> u64 {
    let bits = if score.is_nan() { f32::NEG_INFINITY } else { score }.to_bits();
    // The order of negative numbers is the reverse of the order of their bits.
    let rank = if bits >> 31 == 0 { bits ^ 0x7fff_ffff } else { bits };
    u64::from(rank) << 32 | u64::from(index)
}

/// Returns the index of the candidate with this key.
fn index(key: u64) -> usize {
    key as u32 as usize
}

/// Infers the type of `NonMaxSuppression`: batch, class and index of each kept box.
fn non_max_suppression_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(Some(DataType::I64), Some(vec![Dim::Unknown, Dim::Known(3)]))
}

/// `NonMaxSuppression`: of boxes that overlap too much, keeps the box with the highest score.
///
/// Of boxes with equal scores, the first one is kept. A score must exceed the threshold, as in ONNX's reference
/// implementation, although ONNX's documentation only says that lower scores are removed. A NaN score comes last.
pub(super) fn non_max_suppression(call: &Call<'_, TensorData>) -> Result<OpOutputs<TensorData>, Error> {
    let (boxes, scores) = (call.input(0)?, call.input(1)?);
    let (&[batch, count, 4], &[batches, classes, scored]) = (boxes.shape(), scores.shape()) else {
        let problem = format!("has the shape {:?}, the scores {:?}", boxes.shape(), scores.shape());
        return Err(call.wrong(NodePart::Operand(0), problem));
    };
    if batch != batches || count != scored {
        let problem = format!("has the shape {:?}, the scores {:?}", boxes.shape(), scores.shape());
        return Err(call.wrong(NodePart::Operand(0), problem));
    }
    if u32::try_from(count).is_err() {
        let (dtype, shape) = (boxes.dtype(), boxes.shape().into());
        let limit = (u32::MAX as usize).saturating_mul(16);
        return Err(bb_ir::Error::TooLarge { dtype, shape, limit, name: None }.into());
    }
    let number = |index: usize| -> Result<Option<f32>, Error> {
        let Some(x) = call.optional(index) else { return Ok(None) };
        Ok(cast(x, DataType::F32, Rounding::default())?.as_slice::<f32>()?.first().copied())
    };
    let most = match call.optional(2) {
        Some(most) => most.as_slice::<i64>()?.first().copied().unwrap_or(0),
        None => 0,
    };
    let most = usize::try_from(most).unwrap_or(0);
    let (overlap, least) = (number(3)?.unwrap_or(0.0), number(4)?);
    let centred = call.flag("center_point_box", false)?;
    let (corners, _) = boxes.as_slice::<f32>()?.as_chunks::<4>();
    let (mut selected, mut pace): (Vec<i64>, _) = (Vec::new(), Pace::new());
    let mut keys = memory::filled(OP, 0u64, count)?;
    for (row, scores) in scores.as_slice::<f32>()?.chunks(count.max(1)).enumerate() {
        let (image, class) = (row / classes, row % classes);
        let corners = corners.get(image * count..).unwrap_or_default();
        let bounds = |key: u64| corners.get(index(key)).map(|&c| Bounds::new(c, centred));
        let mut passed = 0;
        for (i, &score) in (0u32..).zip(scores) {
            // Each key is written, and overwritten unless it passes, because a branch would often be mispredicted.
            if let Some(slot) = keys.get_mut(passed) {
                *slot = key(score, i);
            }
            passed += usize::from(least.is_none_or(|least| score > least));
        }
        pace.step(count);
        let mut rest = keys.get_mut(..passed).unwrap_or_default();
        let most = most.min(passed);
        let mut kept = KeptBoxes::new(rest.iter().filter_map(|&key| bounds(key)), most)?;
        // Most candidates come after the last box that is kept, so only the first ones are sorted. A stable sort would
        // allocate memory and abort if there is none.
        let mut part = PART.max(most.saturating_mul(2));
        while kept.all.len() < most && !rest.is_empty() {
            let mut compare = |a: &u64, b: &u64| {
                pace.step(1);
                a.cmp(b)
            };
            if part < rest.len() {
                rest.select_nth_unstable_by(part, &mut compare);
            }
            let (first, others) = rest.split_at_mut(part.min(rest.len()));
            first.sort_unstable_by(&mut compare);
            (rest, part) = (others, part.saturating_mul(2));
            for &key in &*first {
                let Some(bounds) = bounds(key).filter(|_| kept.all.len() < most) else { break };
                if !kept.any_overlaps(bounds, overlap, &mut pace) {
                    kept.push(bounds)?;
                    memory::append(OP, &mut selected, &[image as i64, class as i64, index(key) as i64])?;
                }
            }
        }
    }
    Ok(one(TensorData::new(&[selected.len() / 3, 3], &selected)?))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use bb_ir::graph::Node;

    /// Generates boxes of many sizes. Some are infinite, empty, or have swapped corners.
    fn drawn(count: usize, seed: u64) -> Vec<Bounds> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 24) as f32
        };
        let mut bounds = |i: usize| {
            let size = if i.is_multiple_of(7) { 30.0 } else { 2.0 };
            let [x, y, w, h] = [next() * 100.0, next() * 100.0, next() * size, next() * size];
            match i % 50 {
                3 => Bounds { x: (x, f32::INFINITY), y: (y, y + h) },
                13 => Bounds { x: (x, x - w), y: (y, y + h) },
                23 => Bounds { x: (f32::NAN, x), y: (f32::NEG_INFINITY, y) },
                33 => Bounds { x: (x, x), y: (y, y + h) },
                43 => Bounds { x: (-1e38, 3e38), y: (y, y + h) },
                _ => Bounds { x: (x, x + w), y: (y, y + h) },
            }
        };
        (0..count).map(&mut bounds).collect()
    }

    #[test]
    fn the_boxes_near_one_are_all_that_overlap_it() {
        for (seed, count) in [(1, 300), (2, 2000), (3, 257)] {
            for threshold in [-1.0, 0.0, 0.3, 0.9] {
                let boxes = drawn(count, seed);
                let (mut kept, mut pace) =
                    (KeptBoxes::new(boxes.iter().copied(), count).unwrap(), Pace::new());
                assert!(kept.sides.is_some());
                for bounds in boxes {
                    let expected = kept.all.iter().any(|k| bounds.overlaps(*k, threshold));
                    assert_eq!(kept.any_overlaps(bounds, threshold, &mut pace), expected, "{bounds:?}");
                    if !expected {
                        kept.push(bounds).unwrap();
                    }
                }
                assert!(kept.all.len() > 30, "{}", kept.all.len());
            }
        }
    }

    /// Returns whether the intersection of two boxes, divided by their union, exceeds `threshold`.
    fn exceeds(a: Bounds, b: Bounds, threshold: f32) -> bool {
        let width = f32::min(a.x.1, b.x.1) - f32::max(a.x.0, b.x.0);
        let height = f32::min(a.y.1, b.y.1) - f32::max(a.y.0, b.y.0);
        let proper = width > 0.0 && height > 0.0 && a.area() > 0.0 && b.area() > 0.0;
        let (both, all) = (width * height, a.area() + b.area());
        proper && all - both > 0.0 && both / (all - both) > threshold
    }

    /// Runs the operator, and returns the batch, the class and the index of each kept box.
    fn run(boxes: &TensorData, scores: &TensorData, most: i64, overlap: f32, least: Option<f32>) -> Vec<i64> {
        let node = Node { op_type: OP.to_owned(), opset: 11, ..Node::default() };
        let mut inputs = vec![
            Some(boxes.clone()),
            Some(scores.clone()),
            Some(TensorData::scalar(most)),
            Some(TensorData::scalar(overlap)),
        ];
        inputs.extend(least.map(|least| Some(TensorData::scalar(least))));
        let results = non_max_suppression(&Call::new(&node, &inputs)).unwrap();
        results[0].as_ref().unwrap().as_slice::<i64>().unwrap().to_vec()
    }

    #[test]
    fn the_highest_scores_without_overlap_are_kept_in_order() {
        let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 0.25, -0.25, -f32::NAN];
        for count in [0, 1, 63, 64, 129, 700] {
            let boxes = drawn(2 * count, 5);
            let corners: Vec<f32> = boxes.iter().flat_map(|b| [b.y.0, b.x.0, b.y.1, b.x.1]).collect();
            let score = |i: usize| match i * 7919 % 1009 {
                n if n % 5 == 0 => special[n / 5 % special.len()],
                n => n as f32 / 500.0 - 1.0,
            };
            let scores: Vec<f32> = (0..2 * 3 * count).map(score).collect();
            for (most, overlap, least) in [
                (0, 0.5, None),
                (1, 0.5, None),
                (40, 0.1, Some(0.25)),
                (300, 0.3, None),
                (9999, 0.9, Some(-0.0)),
            ] {
                let mut expected = Vec::new();
                for row in 0..if count == 0 { 0 } else { 6 } {
                    let (scores, image) = (&scores[row * count..][..count], row / 3);
                    let mut order: Vec<usize> = (0..count).collect();
                    let rank = |i: usize| if scores[i].is_nan() { f32::NEG_INFINITY } else { scores[i] };
                    order.sort_by(|&a, &b| rank(b).total_cmp(&rank(a)));
                    let bounds = |i: usize| {
                        let c = &corners[(image * count + i) * 4..][..4];
                        Bounds::new([c[0], c[1], c[2], c[3]], false)
                    };
                    let mut kept: Vec<usize> = Vec::new();
                    for i in order.into_iter().filter(|&i| least.is_none_or(|least| scores[i] > least)) {
                        if kept.len() < most && !kept.iter().any(|&k| exceeds(bounds(i), bounds(k), overlap))
                        {
                            kept.push(i);
                        }
                    }
                    expected.extend(kept.iter().flat_map(|&i| [image as i64, row as i64 % 3, i as i64]));
                }
                let boxes = TensorData::new(&[2, count, 4], &corners).unwrap();
                let scores = TensorData::new(&[2, 3, count], &scores).unwrap();
                let kept = run(&boxes, &scores, most as i64, overlap, least);
                assert_eq!(kept, expected, "{count} boxes, {most} {overlap} {least:?}");
            }
        }
    }

    /// If all boxes are kept, the work must grow with their number, not with its square.
    #[test]
    fn boxes_apart_from_each_other_are_compared_with_few() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        const COUNT: usize = 90_000;
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        for columns in [300, 1, COUNT] {
            let place = |i: usize| ((i % columns) as f32 * 2.0, (i / columns) as f32 * 2.0);
            let boxes: Vec<Bounds> =
                (0..COUNT).map(place).map(|(x, y)| Bounds { x: (x, x + 1.0), y: (y, y + 1.0) }).collect();
            let mut kept = KeptBoxes::new(boxes.iter().copied(), COUNT).unwrap();
            ASKED.store(0, Ordering::Relaxed);
            bb_ir::pace::asked(
                || {
                    ASKED.fetch_add(1, Ordering::Relaxed);
                },
                || {
                    let mut pace = Pace::new();
                    for bounds in boxes {
                        assert!(!kept.any_overlaps(bounds, 0.0, &mut pace));
                        kept.push(bounds).unwrap();
                    }
                },
            );
            let asked = ASKED.load(Ordering::Relaxed);
            assert!(asked * STRETCH < COUNT * 40, "{asked} with {columns} columns");
        }
    }
}
