//! Convolutions with deformed windows.

use super::movement::strides as steps;
use super::sample::{Between, Beyond, sample, wide};
use super::types;
use super::window::windows;
use crate::ext::{DeformConvOptions, fail, math};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{Error, Tensor};
use bb_ir::memory;

/// The body of [`Image::deform_conv`](super::Image::deform_conv). It samples the positions of all windows in one
/// pass, and then computes a matrix product.
pub fn deform_conv(
    on: &Tracer,
    x: &TracedTensor,
    w: &TracedTensor,
    offset: &TracedTensor,
    bias: Option<&TracedTensor>,
    mask: Option<&TracedTensor>,
    DeformConvOptions { strides, pads, dilations, group, offset_group }: DeformConvOptions<'_>,
) -> Result<TracedTensor, TraceStop> {
    for operand in [Some(x), Some(w), Some(offset), bias, mask].into_iter().flatten() {
        types::take("deform_conv", operand, types::FLOATS)?;
    }
    let shapes =
        || bb_ir::Error::Shapes { op: "deform_conv", left: x.shape().into(), right: w.shape().into() };
    let ([n, c, dims @ ..], [m, depth, kernel @ ..]) = (x.shape(), w.shape()) else {
        return fail(shapes());
    };
    let (n, c, m, rank) = (*n, *c, *m, dims.len());
    let all = windows("deform_conv", x.shape(), kernel, strides, pads, dilations, false)?;
    let divisor = |count: i64, parts: &[usize]| -> Result<usize, Error> {
        let fits = |&g: &usize| g > 0 && parts.iter().all(|p| p.is_multiple_of(g));
        Ok(usize::try_from(count).ok().filter(fits).ok_or_else(shapes)?)
    };
    let (group, sets) = (divisor(group, &[c, m])?, divisor(offset_group, &[c])?);
    let places: usize = kernel.iter().product();
    let out: Vec<usize> = all.iter().map(|w| w.out).collect();
    let count: usize = out.iter().product();
    let shaped = |channels: usize| [n, channels].into_iter().chain(out.iter().copied()).collect::<Vec<_>>();
    let deformed = || bb_ir::Error::Shapes {
        op: "deform_conv",
        left: offset.shape().into(),
        right: shaped(sets * places * rank).into(),
    };
    if c != depth * group {
        return fail(shapes());
    }
    if offset.shape() != shaped(sets * places * rank) {
        return fail(deformed());
    }
    // If there are no images, the operands have no elements, so nothing else limits the number of positions in an
    // image.
    if places.checked_mul(count).is_none_or(|places| places > 1 << 26) {
        return fail(deformed());
    }
    let float = wide([x.dtype(), offset.dtype()]);
    let offsets = on.reshape(&math::to(on, offset, float)?, &[n * sets, places, rank, count])?;
    let kernel_steps = steps(kernel);
    let out_steps = steps(&out);
    let mut positions = Vec::with_capacity(rank);
    for (i, window) in all.iter().enumerate() {
        let step = |steps: &[i64]| steps.get(i).copied().unwrap_or(1) as usize;
        let (inner, outer) = (step(&kernel_steps), step(&out_steps));
        let base = (0..places).flat_map(|k| {
            (0..count).map(move |o| window.position(k / inner % window.kernel, o / outer % window.out) as f64)
        });
        let base = memory::collected("deform_conv", base).map_err(Error::from)?;
        let base = math::to(on, &on.host(&[places, count], &base)?, float)?;
        let shift = on.slice(&offsets, &[i as i64], &[i as i64 + 1], &[2], &[])?;
        let at = on.add(&on.reshape(&shift, &[n * sets, places, count])?, &base)?;
        positions.push(on.reshape(&at, &[n * sets, places * count])?);
    }
    let grouped: Vec<usize> = [n * sets, c / sets].into_iter().chain(dims.iter().copied()).collect();
    let mut read = sample(on, &on.reshape(x, &grouped)?, &positions, Between::Linear, Beyond::Zeros)?;
    if let Some(mask) = mask {
        let mask = on.reshape(&math::to(on, mask, float)?, &[n * sets, 1, places * count])?;
        read = on.mul(&read, &mask)?;
    }
    let columns = on.reshape(&read, &[n, group, depth * places, count])?;
    let filters = on.reshape(&math::to(on, w, float)?, &[group, m / group, depth * places])?;
    let mut y = on.reshape(&on.matmul(&filters, &columns)?, &shaped(m))?;
    if let Some(bias) = bias {
        let trailing: Vec<i64> = (1..=rank as i64).collect();
        y = on.add(&y, &on.unsqueeze(&math::to(on, bias, float)?, &trailing)?)?;
    }
    math::to(on, &y, x.dtype())
}
