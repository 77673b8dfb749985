//! Filters that use the neighbourhood of each element.

use super::Border;
use super::pixels::{PIXELS, on_pixels};
use crate::ext::{ConvOptions, Extent, SharpenOptions, SobelOptions, fail, math, product, types};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{Error, Tensor};

/// The maximum standard deviation. The weights of greater ones would exceed the size of any image.
const MOST: f64 = 10_000.0;

fn wrong(op: &'static str, part: &'static str, problem: String) -> Error {
    Error::Operator { op: op.to_owned(), part: part.into(), problem }
}

/// Returns an error if an image has fewer than two dimensions.
fn checked(op: &'static str, x: &TracedTensor) -> Result<(), TraceStop> {
    types::take(op, x, PIXELS)?;
    if x.rank() < 2 {
        return fail(wrong(op, "x", format!("has rank {}, expected 2 or more", x.rank())));
    }
    Ok(())
}

/// Returns whether an image has no elements, so that nothing has to be computed.
fn is_empty(on: &Tracer, x: &TracedTensor) -> bool {
    on.extents(x).iter().any(|extent| extent.is(0))
}

/// Correlates the last two dimensions with filters that extend `reach` elements on each side of the centre. The
/// operand is `[.., h, w]`, and the result has one channel per filter, `[n, filters, h, w]`.
fn correlated(
    on: &Tracer,
    x: &TracedTensor,
    reach: [usize; 2],
    weights: &[f64],
    border: Border,
) -> Result<TracedTensor, TraceStop> {
    let extents = on.extents(x);
    let (outer, image) = extents.split_at(extents.len().saturating_sub(2));
    let flat: Vec<Extent> = [product(outer), 1i64.into()].into_iter().chain(image.iter().cloned()).collect();
    let [rows, columns] = reach.map(|reach| reach as i64);
    let pads = [0, 0, rows, columns, 0, 0, rows, columns];
    let padded = on.pad(&on.reshape_to(x, &flat)?, None, &pads, border)?;
    let window = reach.map(|reach| 2 * reach + 1);
    let count = weights.len() / (window[0] * window[1]).max(1);
    // The filters are created as `f32`, so that the host needs no wider floats unless the image is `f64`.
    let filters =
        on.host(&[count, 1, window[0], window[1]], &weights.iter().map(|&w| w as f32).collect::<Vec<_>>())?;
    let filters = if x.dtype() == crate::DataType::F64 {
        on.host(&[count, 1, window[0], window[1]], weights)?
    } else {
        math::to(on, &filters, x.dtype())?
    };
    on.conv(&padded, &filters, None, ConvOptions::default())
}

/// Computes the normalized weights of a Gaussian function.
fn gaussian(sigma: f64) -> Vec<f64> {
    let reach = (3.0 * sigma).ceil() as i64;
    let weight = |i: i64| {
        let distance = if i == 0 { 0.0 } else { i as f64 / sigma };
        (-0.5 * distance * distance).exp()
    };
    let weights: Vec<f64> = (-reach..=reach).map(weight).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

/// Blurs an image of floats.
fn blurred(on: &Tracer, x: &TracedTensor, sigma: f64, border: Border) -> Result<TracedTensor, TraceStop> {
    let weights = gaussian(sigma);
    let reach = weights.len() / 2;
    if reach == 0 {
        return on.identity(x);
    }
    // A Gaussian filter is separable: it is applied along the width and then along the height.
    let y = correlated(on, x, [0, reach], &weights, border)?;
    on.reshape_to(&correlated(on, &y, [reach, 0], &weights, border)?, &on.extents(x))
}

fn checked_sigma(op: &'static str, sigma: f64) -> Result<(), TraceStop> {
    if (0.0..=MOST).contains(&sigma) {
        return Ok(());
    }
    fail(wrong(op, "sigma", format!("is {sigma}, expected 0 to {MOST}")))
}

/// The body of [`Image::gaussian_blur`](crate::ext::Image::gaussian_blur).
pub fn gaussian_blur(
    on: &Tracer,
    x: &TracedTensor,
    sigma: f64,
    border: Border,
) -> Result<TracedTensor, TraceStop> {
    const OP: &str = "gaussian_blur";
    checked(OP, x)?;
    checked_sigma(OP, sigma)?;
    if is_empty(on, x) {
        return on.identity(x);
    }
    on_pixels(on, OP, x, |x| blurred(on, x, sigma, border))
}

/// The body of [`Image::sharpen`](crate::ext::Image::sharpen).
pub fn sharpen(
    on: &Tracer,
    x: &TracedTensor,
    SharpenOptions { amount, sigma, border }: SharpenOptions,
) -> Result<TracedTensor, TraceStop> {
    const OP: &str = "sharpen";
    checked(OP, x)?;
    checked_sigma(OP, sigma)?;
    if is_empty(on, x) {
        return on.identity(x);
    }
    on_pixels(on, OP, x, |x| {
        let detail = on.sub(x, &blurred(on, x, sigma, border)?)?;
        on.add(x, &math::times(on, &detail, amount)?)
    })
}

/// The Sobel filters for the derivatives along the width and the height.
const ALONG_WIDTH: [f64; 9] = [-1.0, 0.0, 1.0, -2.0, 0.0, 2.0, -1.0, 0.0, 1.0];
const ALONG_HEIGHT: [f64; 9] = [-1.0, -2.0, -1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 1.0];

/// The body of [`Image::sobel`](crate::ext::Image::sobel).
pub fn sobel(
    on: &Tracer,
    x: &TracedTensor,
    SobelOptions { direction, border }: SobelOptions<'_>,
) -> Result<TracedTensor, TraceStop> {
    const OP: &str = "sobel";
    checked(OP, x)?;
    let weights = match direction {
        "x" => ALONG_WIDTH.to_vec(),
        "y" => ALONG_HEIGHT.to_vec(),
        "magnitude" => [ALONG_WIDTH, ALONG_HEIGHT].concat(),
        other => {
            let problem = format!("is `{other}`, expected `x`, `y` or `magnitude`");
            return fail(wrong(OP, "direction", problem));
        }
    };
    if is_empty(on, x) {
        return on.identity(x);
    }
    on_pixels(on, OP, x, |x| {
        let y = correlated(on, x, [1, 1], &weights, border)?;
        let y = if direction == "magnitude" {
            on.sqrt(&on.reduce_sum(&on.mul(&y, &y)?, &[1], true)?)?
        } else {
            y
        };
        on.reshape_to(&y, &on.extents(x))
    })
}
