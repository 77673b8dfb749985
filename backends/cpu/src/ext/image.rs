//! Implements `Image`: sampling between elements.

use super::floats;
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::kernels::sample::{self, Beyond, Sampling};
use crate::ops::{dense, made};
use bb::ext::{GridSampleOptions, Interpolation, SamplePadding};
use bb::{DataType, Shape, Tensor};

#[bb::native]
impl bb::ext::Image for Cpu {
    fn grid_sample(&self, x: &Array, grid: &Array, options: GridSampleOptions) -> Result<Array> {
        match sampled(self, x, grid, options)? {
            Some(y) => Ok(y),
            None => self.body().grid_sample(x, grid, options),
        }
    }
}

/// Samples an `f32` operand. Returns `None` for operands that the kernel does not support or that do not fit.
fn sampled(on: &Cpu, x: &Array, grid: &Array, options: GridSampleOptions) -> Result<Option<Array>> {
    let GridSampleOptions { mode, padding, align_corners: centres } = options;
    let nearest = match mode {
        Interpolation::Nearest => true,
        Interpolation::Linear => false,
        Interpolation::Cubic => return Ok(None),
    };
    let beyond = match padding {
        SamplePadding::Zeros => Beyond::Zeros,
        SamplePadding::Border => Beyond::Border { centres },
        SamplePadding::Reflection => Beyond::Mirror { centres },
    };
    let ([n, c, dims @ ..], [batch, out @ .., r]) = (x.shape(), grid.shape()) else { return Ok(None) };
    let fits = n == batch && *r == dims.len() && out.len() == dims.len() && (1..=sample::MOST).contains(r);
    let singles = x.dtype() == DataType::F32 && grid.dtype() == DataType::F32;
    let small = dims.iter().try_fold(1u32, |size, &d| size.checked_mul(d.try_into().ok()?));
    let shape: Shape = [*n, *c].iter().chain(out).copied().collect();
    let empty = shape.contains(&0) || dims.contains(&0);
    if !fits || !singles || empty || small.is_none_or(|size| size > 1 << 30) {
        return Ok(None);
    }
    let (x, grid) = (dense(on.pool(), x)?, dense(on.pool(), grid)?);
    let sampling = Sampling { nearest, beyond, centres };
    // SAFETY: the operands are contiguous and have these extents, none of which is 0; the result has room for a value of each
    // channel at each position.
    made(on.pool(), DataType::F32, shape, |to| unsafe {
        let extents = [*n, *c, out.iter().product()];
        sample::sample(sampling, extents, dims, floats(&x), floats(&grid), to.cast());
    })
    .map(Some)
}
