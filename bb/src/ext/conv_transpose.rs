//! The convolution that undoes the shape of another: a convolution of what is spread out, by filters turned around.

use super::window::REACH;
use super::{Ops, fail};
use crate::{Error, Tensor};
use bb_ir::Shape;

/// The body of [`Nn::conv_transpose`](super::Nn::conv_transpose): a convolution of the operand with zeros between
/// its elements, by the filters turned around.
#[expect(clippy::too_many_arguments, reason = "the row has them")]
pub fn conv_transpose<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    w: &B::Tensor,
    bias: Option<&B::Tensor>,
    strides: &[i64],
    pads: &[i64],
    dilations: &[i64],
    output_padding: &[i64],
    group: i64,
) -> Result<B::Tensor, B::Error> {
    let shapes =
        || bb_ir::Error::Shapes { op: "conv_transpose", left: x.shape().into(), right: w.shape().into() };
    let ([_, c, spatial @ ..], [depth, m, kernel @ ..]) = (x.shape(), w.shape()) else {
        return fail::<B, _>(shapes());
    };
    let n = spatial.len();
    let g = usize::try_from(group).ok().filter(|&g| g > 0 && c.is_multiple_of(g) && c == depth);
    let fits = kernel.len() == n && strides.len() == n && dilations.len() == n && output_padding.len() == n;
    let (Some(g), true) = (g, fits && pads.len() == 2 * n) else { return fail::<B, _>(shapes()) };
    let numbers = [strides, pads, dilations, output_padding].into_iter().flatten().map(|v| v.unsigned_abs());
    if let Some(v) = strides.iter().chain(dilations).find(|&&v| v < 1) {
        return fail::<B, _>(Error::Operator {
            op: "conv_transpose".to_owned(),
            what: "strides and dilations".to_owned(),
            problem: format!("have {v}, expected positive numbers"),
        });
    }
    if numbers.chain(spatial.iter().chain(kernel).map(|&d| d as u64)).any(|v| v >= REACH) {
        return fail::<B, _>(shapes());
    }
    let mut y = x.clone();
    for (i, (&extent, &stride)) in spatial.iter().zip(strides).enumerate() {
        if stride > 1 && extent > 0 {
            y = spread(on, &y, 2 + i, stride)?;
        }
    }
    let (starts, ends) = pads.split_at(n);
    let span = |i: usize| Some((*kernel.get(i)? as i64 - 1) * dilations.get(i)?);
    let before = (0..n).filter_map(|i| Some(span(i)? - starts.get(i)?));
    let after = (0..n).filter_map(|i| Some(span(i)? - ends.get(i)? + output_padding.get(i)?));
    let pads: Vec<i64> = before.chain(after).collect();
    let filters = turned(on, w, g, c / g, *m, kernel)?;
    on.conv(&y, &filters, bias, &vec![1; n], &pads, dilations, group)
}

/// Puts `stride - 1` zeros between neighbours along `axis`.
fn spread<B: Ops + ?Sized>(on: &B, x: &B::Tensor, axis: usize, stride: i64) -> Result<B::Tensor, B::Error> {
    let extent = x.shape().get(axis).copied().unwrap_or(0);
    let after = on.unsqueeze(x, &[axis as i64 + 1])?;
    let mut pads = vec![0; 2 * after.rank()];
    if let Some(end) = pads.get_mut(after.rank() + axis + 1) {
        *end = stride - 1;
    }
    let wide = on.pad(&after, None, &pads, "constant")?;
    let mut shape = Shape::from_slice(x.shape());
    if let Some(slot) = shape.get_mut(axis) {
        *slot = extent * stride as usize;
    }
    let wide = on.reshape(&wide, &shape)?;
    on.slice(&wide, &[0], &[(extent as i64 - 1) * stride + 1], &[axis as i64], &[1])
}

/// Filters `[g * c, m, k…]` as those of the convolution that undoes them: `[g * m, c, k…]`, reversed along `k…`.
fn turned<B: Ops + ?Sized>(
    on: &B,
    w: &B::Tensor,
    g: usize,
    c: usize,
    m: usize,
    kernel: &[usize],
) -> Result<B::Tensor, B::Error> {
    let axes: Vec<i64> = (2..2 + kernel.len() as i64).collect();
    let count = axes.len();
    let reversed = on.slice(w, &vec![-1; count], &vec![i64::MIN; count], &axes, &vec![-1; count])?;
    let grouped: Vec<usize> = [g, c, m].into_iter().chain(kernel.iter().copied()).collect();
    let perm: Vec<i64> = [0, 2, 1].into_iter().chain(3..3 + kernel.len() as i64).collect();
    let swapped = on.transpose(&on.reshape(&reversed, &grouped)?, &perm)?;
    let shape: Vec<usize> = [g * m, c].into_iter().chain(kernel.iter().copied()).collect();
    on.reshape(&swapped, &shape)
}
