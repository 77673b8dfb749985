//! `CropAndResize`: regions of images, all resized to one size.

use super::only;
use bb_core::error::NodePart;
use bb_core::ext::{counted, math};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{NodeFacts, Types};
use bb_onnx::shared::operators;

operators! {
    "com.microsoft" {
        CropAndResize => Primitives(crop_and_resize), infer: By(crop_and_resize_types);
    }
}

/// The sampling positions of the rows or columns of all crops.
struct CropPositions {
    /// The index of the element before each position, and of the element after it.
    around: [TracedTensor; 2],
    /// The distance of each position from the element before it, as the interpolation weight.
    way: TracedTensor,
    /// Whether each position is outside the image.
    outside: TracedTensor,
}

/// Infers the type of `CropAndResize`: for each box an image, with the size in operand 3.
fn crop_and_resize_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = || {
        let ([_, channels, ..], [count, _]) = (at.dims(0)?, at.dims(1)?) else { return None };
        let size = at.extents(3).filter(|size| size.len() == 2).unwrap_or_else(|| vec![Dim::Unknown; 2]);
        Some([&[count.clone(), channels.clone()], size.as_slice()].concat())
    };
    at.one(at.dtype(0), shape())
}

/// `CropAndResize`: crops regions of `[n, c, h, w]` and resizes them. The boxes `[r, 4]` are `y, x, y, x`
/// from 0 to 1; the result is `[r, c, size…]`.
pub(crate) fn crop_and_resize(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["extrapolation_value", "mode"])?;
    let nearest = match call.text_or("mode", "bilinear")? {
        "bilinear" => false,
        "nearest" => true,
        other => {
            let problem = format!("is `{other}`, expected `bilinear` or `nearest`");
            return Err(call.wrong("mode", problem).into());
        }
    };
    let (x, boxes, images) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (&[_, channels, height, width], &[count, 4]) = (x.shape(), boxes.shape()) else {
        let problem = format!(
            "and 1 have the shapes {:?} and {:?}, expected [n, c, h, w] and [r, 4]",
            x.shape(),
            boxes.shape()
        );
        return Err(call.wrong(NodePart::Operand(0), problem).into());
    };
    let size = on.ints(call.input(3)?)?;
    let sizes: Vec<usize> =
        size.iter().filter_map(|&n| usize::try_from(n).ok().filter(|n| (1..1 << 20).contains(n))).collect();
    let (&[rows, columns], 2) = (sizes.as_slice(), size.len()) else {
        return Err(call.wrong("crop_size", format!("is {size:?}, expected two positive numbers")).into());
    };
    let y = math::widened(on, x, DataType::F32, |x| {
        let boxes = math::to(on, boxes, x.dtype())?;
        let side = |at: i64| on.slice(&boxes, &[at], &[at + 1], &[1], &[]);
        // The shapes are `[r, 1, rows, 1]` and `[r, 1, 1, columns]`, so that they broadcast with each
        // other.
        let vertical =
            places(on, [&side(0)?, &side(2)?], rows, height, nearest)?.shaped(on, &[count, 1, rows, 1])?;
        let horizontal = places(on, [&side(1)?, &side(3)?], columns, width, nearest)?
            .shaped(on, &[count, 1, 1, columns])?;
        let x = on.gather(x, images, 0)?;
        let index = |at: &TracedTensor, shape: &[usize]| on.add(at, &on.zeros(shape, DataType::I64)?);
        let lines =
            |at: &TracedTensor| on.gather_elements(&x, &index(at, &[count, channels, rows, width])?, 2);
        let between = |from: &TracedTensor, to: &TracedTensor, way: &TracedTensor| {
            on.add(from, &on.mul(&on.sub(to, from)?, way)?)
        };
        let along = |line: &TracedTensor| -> Result<TracedTensor, TraceStop> {
            let shape = [count, channels, rows, columns];
            let [before, after] = &horizontal.around;
            let before = on.gather_elements(line, &index(before, &shape)?, 3)?;
            if nearest {
                return Ok(before);
            }
            between(&before, &on.gather_elements(line, &index(after, &shape)?, 3)?, &horizontal.way)
        };
        let [above, below] = &vertical.around;
        let mut y = along(&lines(above)?)?;
        if !nearest {
            y = between(&y, &along(&lines(below)?)?, &vertical.way)?;
        }
        let outside = on.or(&vertical.outside, &horizontal.outside)?;
        on.r#where(&outside, &on.scalar_like(&y, call.float_or("extrapolation_value", 0.0)?)?, &y)
    })?;
    Ok(one(y))
}

/// Computes `count` sampling positions, `[r, count]`, between two sides of boxes, `[r, 1]` each, in an
/// image of `extent` rows or columns.
fn places(
    on: &Tracer,
    [start, end]: [&TracedTensor; 2],
    count: usize,
    extent: usize,
    nearest: bool,
) -> Result<CropPositions, TraceStop> {
    if extent == 0 {
        return Err(Error::from(bb_ir::Error::Index { op: "CropAndResize", index: 0, extent }).into());
    }
    let number = |value: f64| on.scalar_like(start, value);
    let last = number(extent as f64 - 1.0)?;
    let at = if count > 1 {
        let step = on.div(&on.mul(&on.sub(end, start)?, &last)?, &number(count as f64 - 1.0)?)?;
        let steps = math::to(on, &counted(on, &[1, count], 1)?, start.dtype())?;
        on.add(&on.mul(start, &last)?, &on.mul(&steps, &step)?)?
    } else {
        on.mul(&on.mul(&on.add(start, end)?, &number(0.5)?)?, &last)?
    };
    let zero = number(0.0)?;
    let within = on.and(&on.greater_or_equal(&at, &zero)?, &on.less_or_equal(&at, &last)?)?;
    let at = on.r#where(&within, &at, &zero)?;
    let before = on.floor(&if nearest { on.add(&at, &number(0.5)?)? } else { at.clone() })?;
    let way = on.sub(&at, &before)?;
    let index = |x: &TracedTensor| math::to(on, x, DataType::I64);
    Ok(CropPositions { around: [index(&before)?, index(&on.ceil(&at)?)?], way, outside: on.not(&within)? })
}

impl CropPositions {
    /// Reshapes all tensors.
    fn shaped(self, on: &Tracer, shape: &[usize]) -> Result<CropPositions, TraceStop> {
        let [before, after] = &self.around;
        Ok(CropPositions {
            around: [on.reshape(before, shape)?, on.reshape(after, shape)?],
            way: on.reshape(&self.way, shape)?,
            outside: on.reshape(&self.outside, shape)?,
        })
    }
}
