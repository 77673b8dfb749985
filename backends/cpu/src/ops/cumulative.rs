//! Cumulative sums.

use super::{convert, dense, made};
use crate::array::Array;
use crate::error::Result;
use crate::kernels::cumulate::{self, Cumulation};
use crate::pool::Pool;
use bb::ir::Axis;
use bb::{DataType, RoundMode, Shape, Tensor};
use std::sync::Arc;

/// Computes cumulative sums along `axis`. Returns `None` for element types that have no kernel, and if the
/// axis does not exist.
pub(crate) fn sums(
    pool: &Arc<Pool>,
    x: &Array,
    axis: i64,
    exclusive: bool,
    reverse: bool,
) -> Result<Option<Array>> {
    let dtype = x.dtype();
    let Ok(at) = Axis::new(axis, x.shape().len()).map(Axis::get) else { return Ok(None) };
    if matches!(dtype, DataType::F16 | DataType::BF16) {
        let wide = convert::cast(pool, x, DataType::F32, true, RoundMode::Up)?;
        let Some(y) = sums(pool, &wide, axis, exclusive, reverse)? else { return Ok(None) };
        return convert::cast(pool, &y, dtype, true, RoundMode::Up).map(Some);
    }
    let Some(run) = cumulate::sums(dtype) else { return Ok(None) };
    let (before, from) = x.shape().split_at_checked(at).unwrap_or_default();
    let Some((&extent, after)) = from.split_first() else { return Ok(None) };
    let [outer, inner] = [before, after].map(|extents| extents.iter().product());
    let x = dense(pool, x)?;
    // SAFETY: the function was chosen for the type of `x`, which has these extents, as has `out`.
    made(pool, dtype, Shape::from_slice(x.shape()), |out| unsafe {
        run(Cumulation { outer, extent, inner, exclusive, reverse }, out, x.ptr());
    })
    .map(Some)
}
