//! Convolutions and pooling of `f32` over up to three spatial dimensions.

use super::arithmetic::dense;
use super::launch::{bind, grid, params, write_dims};
use super::result;
use crate::device::Gpu;
use crate::device::pipelines::Key;
use crate::device::stream::{Binding, KernelCall, Params};
use crate::elem::Elem;
use crate::wgsl::GROUP;
use crate::wgsl::conv::ConvKey;
use crate::wgsl::matmul::SIDE;
use crate::wgsl::window::{Window, WindowKey};
use crate::{Result, Tensor, WgpuError};
use bb::Shape;
use bb::ir::infer::Step;
use smallvec::SmallVec;
use std::sync::Arc;

/// The number of spatial dimensions in a kernel.
const SPATIAL: usize = 3;
/// If a group has at least this number of filters, a convolution is computed as a matrix product.
const FILTERS: usize = 8;

/// The parameters of a window operation.
pub(crate) struct Windows<'a> {
    pub(crate) op: &'static str,
    pub(crate) window: Window,
    pub(crate) kernel: &'a [usize],
    pub(crate) strides: &'a [i64],
    pub(crate) pads: &'a [i64],
    pub(crate) dilations: &'a [i64],
    /// The number of filters, of channels per group, and of groups. For pooling, they are the number of channels, 1,
    /// and the number of channels.
    pub(crate) filters: usize,
    pub(crate) depth: usize,
    pub(crate) groups: usize,
}

/// Computes a window operation. Returns `None` for extents that do not fit or are not supported, which the
/// operation's body handles.
pub(crate) fn windows(
    gpu: &Arc<Gpu>,
    own: &Windows<'_>,
    x: &Tensor,
    others: &[&Tensor],
) -> Result<Option<Tensor>> {
    let Some((&[n, c], spatial)) = x.shape().split_first_chunk::<2>() else { return Ok(None) };
    if spatial.is_empty() || spatial.len() > SPATIAL || spatial.len() != own.kernel.len() {
        return Ok(None);
    }
    let Some(steps) = Step::of(own.kernel, own.strides, own.pads, own.dilations) else { return Ok(None) };
    let lead = SPATIAL - spatial.len();
    let mut rows = [[1u32, 1, 1, 1]; 2 * SPATIAL];
    for row in rows.iter_mut().skip(SPATIAL) {
        *row = [1, 0, 0, 0];
    }
    let mut shape = Shape::from_slice(&[n, own.filters]);
    for (s, (step, &extent)) in steps.zip(spatial).enumerate() {
        let Some(out) = results(&step, extent) else { return Ok(None) };
        shape.push(out);
        let (at, places) = (lead + s, step.kernel);
        let [stride, dilation, before] = [step.stride, step.dilation, step.before].map(|v| v as u32);
        if let Some(row) = rows.get_mut(at) {
            *row = [extent as u32, out as u32, places as u32, stride];
        }
        if let Some(row) = rows.get_mut(SPATIAL + at) {
            *row = [dilation, before, 0, 0];
        }
    }
    let y = result(gpu, own.op, Elem::F32, shape)?;
    if y.len() == 0 {
        return Ok(Some(y));
    }
    // If there is nothing to sum, the body computes the result, which consists of the bias.
    if x.len() == 0 || own.kernel.contains(&0) {
        return Ok(None);
    }
    let x = dense(gpu, own.op, x)?;
    let mut dense_others: SmallVec<[Tensor; 2]> = SmallVec::new();
    for other in others {
        dense_others.push(dense(gpu, own.op, other)?);
    }
    let size: usize = spatial.iter().product();
    let places: usize = own.kernel.iter().product();
    let mut params = params();
    let given = [own.filters, own.depth, own.filters / own.groups.max(1), size, c, places];
    for (to, word) in params.iter_mut().skip(8).zip(given) {
        *to = word as u32;
    }
    write_dims(&mut params, 0, rows.into_iter());
    WindowCall { gpu, own, x: &x, y: &y, others: &dense_others }.images(params, 0, n)?;
    Ok(Some(y))
}

/// Returns the number of windows along a dimension; `None` if no window fits.
fn results(step: &Step<usize>, extent: usize) -> Option<usize> {
    let span =
        (i64::try_from(step.kernel).ok()?.checked_sub(1)?).checked_mul(step.dilation)?.checked_add(1)?;
    let room = i64::try_from(extent).ok()?.checked_add(step.before)?.checked_add(step.after)?;
    let last = room.checked_sub(span).filter(|&last| last >= 0)?;
    // Kernels compute positions in 32 bits.
    let small = [step.before, step.after, span, room].iter().all(|v| i32::try_from(*v).is_ok());
    small.then_some((last / step.stride) as usize + 1)
}

struct WindowCall<'a> {
    gpu: &'a Arc<Gpu>,
    own: &'a Windows<'a>,
    x: &'a Tensor,
    y: &'a Tensor,
    others: &'a [Tensor],
}

impl WindowCall<'_> {
    /// Computes the results of a range of images. Halves the range if it needs too large bindings.
    fn images(&self, mut params: Params, first: usize, count: usize) -> Result<()> {
        let WindowCall { gpu, own, x, y, others } = *self;
        let images = |tensor: &Tensor| tensor.len() / tensor.shape().first().copied().unwrap_or(1).max(1);
        let (from, to) = (images(x), images(y));
        let mut bindings: SmallVec<[Binding; 4]> = SmallVec::new();
        let mut whole = |at: usize, tensor: &Tensor, first: usize, count: usize| -> bool {
            let start = (tensor.0.offset + first) as isize;
            let bound =
                tensor.0.storage.as_ref().and_then(|s| bind(gpu, s, start, start + count as isize - 1));
            let Some((binding, base)) = bound else { return false };
            bindings.push(binding);
            if let Some(word) = params.get_mut(at) {
                *word = (start - base) as u32;
            }
            true
        };
        let mut fits = whole(7, y, first * to, count * to) && whole(4, x, first * from, count * from);
        if fits {
            for (i, other) in others.iter().enumerate() {
                fits &= whole(5 + i, other, 0, other.len());
            }
        }
        if !fits {
            if count > 1 {
                let half = count / 2;
                self.images(params, first, half)?;
                return self.images(params, first + half, count - half);
            }
            let bytes = others.iter().map(Tensor::len).chain([from, to]).max().unwrap_or(0) as u64 * 4;
            return Err(WgpuError::Binding { op: own.op, bytes, limit: gpu.binding });
        }
        let filters = own.filters / own.groups.max(1);
        if let Window::Conv { bias } = own.window
            && filters >= FILTERS
        {
            let pixels = to / own.filters.max(1);
            let each = if filters >= 32 && pixels >= 32 { 4 } else { 1 };
            let tile = (SIDE * each) as usize;
            let most = gpu.limits.max_compute_workgroups_per_dimension as usize;
            let pairs = count * own.groups;
            let mut pair = 0;
            while pair < pairs {
                let some = most.min(pairs - pair);
                params[1] = pair as u32;
                params[3] = own.groups as u32;
                let groups = [pixels.div_ceil(tile) as u32, filters.div_ceil(tile) as u32, some as u32];
                let key = Key::Conv(ConvKey { bias, each });
                gpu.record(&KernelCall { op: own.op, key, params: &params, bindings: &bindings, groups })?;
                pair += some;
            }
            return Ok(());
        }
        let (groups, row) = grid(gpu, (count * to) as u64, GROUP);
        params[0] = (count * to) as u32;
        params[1] = row;
        let key = Key::Window(WindowKey(own.window));
        gpu.record(&KernelCall { op: own.op, key, params: &params, bindings: &bindings, groups })
    }
}
