//! Functions that treat each pixel separately.

use crate::ext::{fail, math, types};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{DataType, Error, Tensor};
use DataType::{BF16, F16, F32, F64, U8};

/// The element types of images.
pub(super) const PIXELS: &[DataType] = &[F16, BF16, F32, F64, U8];

/// Applies `f` to an image of floats. 16-bit floats and bytes are converted to `f32`; byte results are
/// rounded and clamped.
pub(super) fn on_pixels(
    on: &Tracer,
    op: &'static str,
    x: &TracedTensor,
    f: impl FnOnce(&TracedTensor) -> Result<TracedTensor, TraceStop>,
) -> Result<TracedTensor, TraceStop> {
    types::take(op, x, PIXELS)?;
    if x.dtype() != U8 {
        return math::widened(on, x, F32, f);
    }
    let y = on.round(&f(&math::to(on, x, F32)?)?)?;
    math::to(on, &limited(on, &y, 255.0)?, U8)
}

/// Clamps floats to the range from 0 to `most`.
fn limited(on: &Tracer, x: &TracedTensor, most: f64) -> Result<TracedTensor, TraceStop> {
    on.clip(x, Some(&on.scalar_like(x, 0.0)?), Some(&on.scalar_like(x, most)?))
}

/// Returns the maximum value of a pixel.
fn greatest(dtype: DataType) -> f64 {
    if dtype == U8 { 255.0 } else { 1.0 }
}

/// The body of [`Image::grayscale`](crate::ext::Image::grayscale).
pub fn grayscale(
    on: &Tracer,
    x: &TracedTensor,
    axis: i64,
    standard: &str,
) -> Result<TracedTensor, TraceStop> {
    const OP: &str = "grayscale";
    let weights = match standard {
        "bt601" => BT601,
        "bt709" => [0.2126, 0.7152, 0.0722],
        other => {
            let problem = format!("is `{other}`, expected `bt601` or `bt709`");
            return fail(Error::Operator { op: OP.to_owned(), part: "standard".into(), problem });
        }
    };
    let at = bb_ir::Axis::new(axis, x.rank()).map_err(Error::from)?.get();
    let channels = on.extent(x, at);
    if !channels.is(3) {
        let problem = format!("has {} channels, expected 3", channels.present());
        return fail(Error::Operator { op: OP.to_owned(), part: "x".into(), problem });
    }
    on_pixels(on, OP, x, |x| luminance(on, x, at as i64, weights))
}

/// The luminance weights of red, green and blue. Source: ITU-R BT.601.
const BT601: [f64; 3] = [0.299, 0.587, 0.114];

/// Returns the weighted sum of three channels of floats.
fn luminance(on: &Tracer, x: &TracedTensor, axis: i64, weights: [f64; 3]) -> Result<TracedTensor, TraceStop> {
    let channels = on.split(x, axis, &[1, 1, 1])?;
    let mut sum = None;
    for (channel, weight) in channels.iter().zip(weights) {
        let part = math::times(on, channel, weight)?;
        sum = Some(match sum {
            None => part,
            Some(sum) => on.add(&sum, &part)?,
        });
    }
    match sum {
        Some(sum) => Ok(sum),
        None => on.identity(x),
    }
}

/// The body of [`Image::threshold`](crate::ext::Image::threshold).
pub fn threshold(on: &Tracer, x: &TracedTensor, value: f64) -> Result<TracedTensor, TraceStop> {
    const OP: &str = "threshold";
    types::take(OP, x, PIXELS)?;
    // 16-bit floats are compared as `f32`, because the value may be between two 16-bit floats.
    let wide = if x.dtype() == F64 { x.clone() } else { math::to(on, x, F32)? };
    let above = on.greater(&wide, &on.scalar_like(&wide, value)?)?;
    on.r#where(&above, &on.scalar_like(x, greatest(x.dtype()))?, &on.scalar_like(x, 0.0)?)
}

/// The body of [`Image::brightness`](crate::ext::Image::brightness).
pub fn brightness(on: &Tracer, x: &TracedTensor, factor: f64) -> Result<TracedTensor, TraceStop> {
    let most = greatest(x.dtype());
    on_pixels(on, "brightness", x, |x| limited(on, &math::times(on, x, factor)?, most))
}

/// The body of [`Image::contrast`](crate::ext::Image::contrast).
pub fn contrast(on: &Tracer, x: &TracedTensor, factor: f64) -> Result<TracedTensor, TraceStop> {
    const OP: &str = "contrast";
    types::take(OP, x, PIXELS)?;
    let wrong = |problem| Error::Operator { op: OP.to_owned(), part: "x".into(), problem };
    let coloured = match x.rank() {
        0 | 1 => return fail(wrong(format!("has rank {}, expected 2 or more", x.rank()))),
        2 => None,
        rank => {
            let channels = on.extent(x, rank - 3);
            match (channels.is(3), channels.is(1)) {
                (true, _) => Some(rank as i64 - 3),
                (false, true) => None,
                _ => {
                    let problem = format!("has {} channels, expected 1 or 3", channels.present());
                    return fail(wrong(problem));
                }
            }
        }
    };
    if on.extents(x).iter().any(|extent| extent.is(0)) {
        return on.identity(x);
    }
    let most = greatest(x.dtype());
    on_pixels(on, OP, x, |x| {
        let grey = match coloured {
            Some(axis) => luminance(on, x, axis, BT601)?,
            None => x.clone(),
        };
        let mean = on.reduce_mean(&grey, &[-2, -1], true)?;
        let y = on.add(&math::times(on, &on.sub(x, &mean)?, factor)?, &mean)?;
        limited(on, &y, most)
    })
}

/// The body of [`Image::invert`](crate::ext::Image::invert).
pub fn invert(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    types::take("invert", x, PIXELS)?;
    on.sub(&on.scalar_like(x, greatest(x.dtype()))?, x)
}
