//! `NonMaxSuppression`, on the host: how many boxes are kept depends on data.

use super::call::{Call, OpOutputs, one};
use super::infer;
use super::rows::operators;
use crate::Error;
use crate::error::NodePart;
use bb_ir::convert::{Rounding, cast};
use bb_ir::pace::{Pace, STRETCH};
use bb_ir::{DataType, TensorData, memory};

operators! {
    "" {
        NonMaxSuppression => Host(non_max_suppression), infer: By(infer::ml::suppression);
    }
}

/// A box by its least and greatest coordinates.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    x: (f32, f32),
    y: (f32, f32),
}

impl Bounds {
    /// Reads two opposite corners `y, x, y, x`, or a centre and the extents `x, y, w, h`.
    fn new(numbers: [f32; 4], centred: bool) -> Bounds {
        let [a, b, c, d] = numbers;
        if centred {
            Bounds { x: (a - c / 2.0, a + c / 2.0), y: (b - d / 2.0, b + d / 2.0) }
        } else {
            Bounds { x: (b.min(d), b.max(d)), y: (a.min(c), a.max(c)) }
        }
    }

    fn area(self) -> f32 {
        (self.x.1 - self.x.0) * (self.y.1 - self.y.0)
    }

    /// Whether the share of the union that both cover exceeds `threshold`.
    fn overlaps(self, other: Bounds, threshold: f32) -> bool {
        let width = self.x.1.min(other.x.1) - self.x.0.max(other.x.0);
        let height = self.y.1.min(other.y.1) - self.y.0.max(other.y.0);
        if !(width > 0.0 && height > 0.0 && self.area() > 0.0 && other.area() > 0.0) {
            return false;
        }
        let both = width * height;
        let either = self.area() + other.area() - both;
        either > 0.0 && both / either > threshold
    }
}

/// `NonMaxSuppression`: of boxes that overlap too much, the one with the greatest score.
///
/// Of equal scores the first wins. A score must exceed the threshold, as in ONNX's reference, whose text says that
/// lesser ones are removed. A score that is no number comes last.
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
    const OP: &str = "NonMaxSuppression";
    let bounds: Vec<Bounds> = memory::collected(OP, corners.iter().map(|&c| Bounds::new(c, centred)))?;
    let (mut selected, mut pace): (Vec<i64>, _) = (Vec::new(), Pace::new());
    for (row, scores) in scores.as_slice::<f32>()?.chunks(count.max(1)).enumerate() {
        let (image, class) = (row / classes, row % classes);
        let bounds = bounds.get(image * count..).unwrap_or_default();
        let candidates = scores
            .iter()
            .zip(bounds)
            .enumerate()
            .filter(|(_, (score, _))| least.is_none_or(|least| **score > least))
            .map(|(i, (&score, &bounds))| {
                (if score.is_nan() { f32::NEG_INFINITY } else { score }, i, bounds)
            });
        let mut candidates: Vec<(f32, usize, Bounds)> = memory::collected(OP, candidates)?;
        // Of equal scores the first box counts. A stable sort would allocate without reporting a failure.
        candidates.sort_unstable_by(|a, b| {
            pace.step(1);
            b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
        });
        let mut kept: Vec<Bounds> = Vec::new();
        for (_, index, bounds) in candidates {
            if kept.len() >= most {
                break;
            }
            let any = kept.chunks(STRETCH).any(|kept| {
                pace.step(kept.len());
                kept.iter().any(|k| bounds.overlaps(*k, overlap))
            });
            if any {
                continue;
            }
            memory::push(OP, &mut kept, bounds)?;
            memory::append(OP, &mut selected, &[image as i64, class as i64, index as i64])?;
        }
    }
    Ok(one(TensorData::new(&[selected.len() / 3, 3], &selected)?))
}
