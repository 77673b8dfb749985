//! Filters of bytes in the packed layout of matrix products, built once for many convolutions.

use super::conv::Plan;
use super::signed;
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::gemm::Strided;
use crate::gemm::integer::{Bytes, Left};
use crate::ops::dense;
use crate::pool::Pool;
use bb::Tensor;
use std::sync::Arc;

/// The packed filters of each group, with the sums of their weights.
#[derive(Debug)]
pub(crate) struct Filters {
    /// The original filters. The packed groups may refer to their memory.
    _w: Array,
    groups: Vec<Left>,
    extents: [usize; 2],
}

// SAFETY: nothing writes the filters after they are created.
unsafe impl Send for Filters {}
// SAFETY: nothing writes the filters after they are created.
unsafe impl Sync for Filters {}

impl Filters {
    /// Packs filters of shape `[groups * filters, …]` with `k` weights each. Returns `None` if they are not bytes. If `summed`,
    /// also computes the sums of their weights.
    pub(super) fn new(
        pool: &Arc<Pool>,
        w: &Array,
        groups: usize,
        [filters, k]: [usize; 2],
        summed: bool,
    ) -> Result<Option<Filters>> {
        let Some(bytes) = Filters::bytes_of(w) else { return Ok(None) };
        let w = dense(pool, w)?;
        let group = |g: usize| {
            let ptr = w.ptr().wrapping_add(g * filters * k);
            // SAFETY: the weights of the group have these extents, and live as long as `w`, which is stored together with the
            // groups.
            unsafe { Left::new(pool, [filters, k], Strided::dense(ptr, k), bytes, summed) }
        };
        let groups = bb::ir::memory::try_collected("conv_integer", (0..groups).map(group))?;
        Ok(Some(Filters { _w: w, groups, extents: [filters, k] }))
    }

    /// Returns how matrix products read the weights: as signed bytes.
    pub(super) fn bytes_of(w: &Array) -> Option<Bytes> {
        Some(Bytes { signed: true, flipped: !signed(w.dtype())? })
    }

    /// Returns the filters of each group, if they have the extents of the plan.
    pub(super) fn of(&self, plan: &Plan) -> Option<&[Left]> {
        let alike = self.groups.len() == plan.groups && self.extents == [plan.filters, plan.terms()];
        alike.then_some(self.groups.as_slice())
    }

    /// Returns the size in bytes of the packed filters.
    pub(crate) fn bytes(&self) -> usize {
        self.groups.iter().map(Left::bytes).sum()
    }
}

impl Cpu {
    /// Packs filters in `groups` groups for convolutions of bytes. Returns `None` for filters whose convolutions are not computed
    /// with matrix products.
    pub(crate) fn byte_filters(&self, w: &Array, groups: i64) -> Result<Option<Filters>> {
        let (&[m, depth, ref kernel @ ..], Ok(groups)) = (w.shape(), usize::try_from(groups)) else {
            return Ok(None);
        };
        // Depthwise filters are converted in each run, which takes little time compared with the convolution.
        if w.is_empty() || depth == 1 || groups == 0 || !m.is_multiple_of(groups) {
            return Ok(None);
        }
        let extents = [m / groups, depth * kernel.iter().product::<usize>()];
        self.pool().run(|| Filters::new(self.pool(), w, groups, extents, true))?
    }
}
