//! Calls kernels that use one thread for each result and access their operands by strides. If the operands are too large for one
//! binding, the results are computed in parts.

use crate::device::Gpu;
use crate::device::pipelines::Key;
use crate::device::pool::Storage;
use crate::device::stream::{Binding, KernelCall, Params, WORDS};
use crate::layout::{Dim, reach};
use crate::wgsl::GROUP;
use crate::{Result, Tensor, WgpuError};
use smallvec::SmallVec;
use std::sync::Arc;

/// The maximum number of tensors of a kernel: the result and up to six operands.
pub(crate) const SIDES: usize = 1 + crate::wgsl::map::OPERANDS;

/// The dimensions of a kernel call, outermost first, with the strides of the result and of the operands.
pub(crate) type Dims = SmallVec<[Dim<SIDES>; 6]>;

/// The result or an operand of a kernel call: a buffer and the index of the first element in it.
#[derive(Clone)]
pub(crate) struct Side {
    pub(crate) storage: Arc<Storage>,
    pub(crate) start: isize,
    /// The distance in elements that the kernel reads beyond the dimensions: the entries of a gather.
    pub(crate) more: isize,
}

impl Side {
    /// Returns the side for a tensor; `None` if it has no elements.
    pub(crate) fn of(x: &Tensor) -> Option<Side> {
        let storage = x.0.storage.clone()?;
        Some(Side { storage, start: x.0.offset as isize, more: 0 })
    }
}

/// Binds the elements from index `first` to index `last`. Returns the binding and its offset in elements from the start of the buffer.
/// Returns `None` if the binding would be too large.
pub(crate) fn bind(gpu: &Gpu, storage: &Arc<Storage>, first: isize, last: isize) -> Option<(Binding, isize)> {
    let align = u64::from(gpu.limits.min_storage_buffer_offset_alignment).max(4);
    let start = first.max(0).unsigned_abs() as u64 * 4;
    let offset = start / align * align;
    let size = (last.max(0).unsigned_abs() as u64 + 1) * 4 - offset;
    (size <= gpu.binding).then(|| {
        let binding = Binding { storage: storage.clone(), offset, size };
        (binding, (offset / 4) as isize)
    })
}

/// Returns the grid of workgroups for `threads` threads with `of` threads each, and the number of threads in a row of the grid.
pub(crate) fn grid(gpu: &Gpu, threads: u64, of: u32) -> ([u32; 3], u32) {
    let groups = threads.div_ceil(u64::from(of)).max(1);
    let most = u64::from(gpu.limits.max_compute_workgroups_per_dimension);
    let rows = groups.div_ceil(most);
    let width = groups.div_ceil(rows);
    ([width as u32, rows as u32, 1], (width * u64::from(of)) as u32)
}

/// A kernel call with dimensions and strides.
pub(crate) struct Walk<'a> {
    pub(crate) op: &'static str,
    pub(crate) key: Key,
    /// The result and the operands; the result is first.
    pub(crate) sides: &'a [Side],
    /// The parameters that do not depend on dimensions and strides.
    pub(crate) params: Params,
    /// Whether the kernel reads the dimensions.
    pub(crate) strided: bool,
    /// Whether the kernel writes its results by strides. Other kernels write contiguous results, so only the outermost dimension may be
    /// halved.
    pub(crate) anywhere: bool,
}

impl Walk<'_> {
    /// Calls the kernel to compute all results.
    pub(crate) fn run(&self, gpu: &Gpu, dims: &Dims) -> Result<()> {
        let mut starts = [0; SIDES];
        for (start, side) in starts.iter_mut().zip(self.sides) {
            *start = side.start;
        }
        self.part(gpu, dims, starts)
    }

    /// Calls the kernel to compute a part of the results. Halves the part if it needs too large bindings.
    fn part(&self, gpu: &Gpu, dims: &Dims, starts: [isize; SIDES]) -> Result<()> {
        let mut params = self.params;
        let mut bindings: SmallVec<[Binding; SIDES]> = SmallVec::new();
        let mut offsets = [0isize; SIDES];
        let mut largest = 0;
        for (i, (side, start)) in self.sides.iter().zip(starts).enumerate() {
            let (least, most) = reach(dims, i);
            let (first, last) = (start + least + side.more.min(0), start + most + side.more.max(0));
            match bind(gpu, &side.storage, first, last) {
                Some((binding, base)) => {
                    bindings.push(binding);
                    if let Some(offset) = offsets.get_mut(i) {
                        *offset = start - base;
                    }
                }
                None => largest = largest.max((last - first + 1).unsigned_abs() as u64 * 4),
            }
        }
        if largest > 0 {
            return self.halves(gpu, dims, starts, largest);
        }
        let [result, first, second, third, rest @ ..] = offsets;
        let elements: u64 = dims.iter().map(|dim| dim.extent as u64).product();
        let (groups, row) = grid(gpu, elements, GROUP);
        params[0] = elements as u32;
        params[1] = row;
        for (to, offset) in params.iter_mut().skip(4).zip([first, second, third, result]) {
            *to = offset as u32;
        }
        // The strides of up to three operands take one row of four words for each dimension; the strides of more operands take two rows.
        let wide = self.sides.len() > 4;
        if wide {
            for (to, offset) in params.iter_mut().skip(13).zip(rest) {
                *to = offset as u32;
            }
        }
        if self.strided {
            params[2] = dims.len() as u32;
            let copies = self.sides.len() == 2;
            let rows = dims.iter().rev().flat_map(|dim| {
                let [y, a, b, c, more @ ..] = dim.strides;
                // A copy has only one operand, so it passes the stride of the result in the slot of the second operand.
                let first = [dim.extent as u32, a as u32, if copies { y } else { b } as u32, c as u32];
                let [d, e, f] = more.map(|stride| stride as u32);
                std::iter::once(first).chain(wide.then_some([d, e, f, 0]))
            });
            write_dims(&mut params, 0, rows);
        }
        gpu.record(&KernelCall {
            op: self.op,
            key: self.key.clone(),
            params: &params,
            bindings: &bindings,
            groups,
        })
    }

    fn halves(&self, gpu: &Gpu, dims: &Dims, starts: [isize; SIDES], bytes: u64) -> Result<()> {
        // Halve the dimension that spans the largest distance, or the outermost one.
        let farthest = |dim: &Dim<SIDES>| {
            let steps = dim.strides.iter().map(|stride| stride.unsigned_abs());
            steps.max().unwrap_or(0) * (dim.extent - 1)
        };
        let at = match self.anywhere {
            true => (0..dims.len()).max_by_key(|&i| dims.get(i).map_or(0, farthest)),
            false => dims.iter().position(|dim| dim.extent > 1),
        };
        let Some(dim) = at.and_then(|at| dims.get(at)).copied().filter(|dim| dim.extent > 1) else {
            return Err(WgpuError::Binding { op: self.op, bytes, limit: gpu.binding });
        };
        let half = dim.extent / 2;
        for (from, extent) in [(0, half), (half, dim.extent - half)] {
            let mut part = dims.clone();
            if let Some(own) = at.and_then(|at| part.get_mut(at)) {
                own.extent = extent;
            }
            let mut moved = starts;
            for (start, stride) in moved.iter_mut().zip(dim.strides) {
                *start += stride * from as isize;
            }
            self.part(gpu, &part, moved)?;
        }
        Ok(())
    }
}

/// Writes dimensions to the parameters, innermost first, starting at the dimension slot `from`.
pub(crate) fn write_dims(params: &mut Params, from: usize, dims: impl Iterator<Item = [u32; 4]>) {
    for (to, dim) in params[16..].chunks_exact_mut(4).skip(from).zip(dims) {
        to.copy_from_slice(&dim);
    }
}

/// Returns whether all tensors of a kernel call fit into their bindings without division.
pub(crate) fn fits(gpu: &Gpu, sides: &[Side], dims: &Dims) -> bool {
    sides.iter().enumerate().all(|(i, side)| {
        let (least, most) = reach(dims, i);
        bind(gpu, &side.storage, side.start + least, side.start + most).is_some()
    })
}

/// Returns zeroed parameters for the caller to fill.
pub(crate) fn params() -> Params {
    [0; WORDS]
}
