//! The body of [`Nn::cum_sum`](super::Nn::cum_sum), and cumulative combinations in general.

use super::{math, open_results};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{DataType, Error, Tensor};
use bb_ir::Axis;

/// The body of [`Nn::cum_sum`](super::Nn::cum_sum).
pub fn cum_sum(
    on: &Tracer,
    x: &TracedTensor,
    axis: i64,
    exclusive: bool,
    reverse: bool,
) -> Result<TracedTensor, TraceStop> {
    Axis::new(axis, x.rank()).map_err(Error::from)?;
    if let Some([result]) = open_results(on, &[(x.dtype(), &on.extents(x))]).as_deref() {
        return Ok(result.clone());
    }
    cumulative(on, x, axis, [exclusive, reverse], 0.0, |a, b| on.add(a, b))
}

/// Combines each element with all elements before it, or after it if `reverse`. If `exclusive`, the element itself is
/// left out. `neutral` is the result for no elements. 16-bit floats are computed in `f32`.
///
/// Each pass doubles the number of elements that a result covers.
pub fn cumulative(
    on: &Tracer,
    x: &TracedTensor,
    axis: i64,
    [exclusive, reverse]: [bool; 2],
    neutral: f64,
    combine: impl Fn(&TracedTensor, &TracedTensor) -> Result<TracedTensor, TraceStop>,
) -> Result<TracedTensor, TraceStop> {
    let at = Axis::new(axis, x.rank()).map_err(Error::from)?.get();
    let extent = on.extent(x, at).number();
    let part = |x: &TracedTensor, from: i64, to: i64| on.slice(x, &[from], &[to], &[axis], &[]);
    let turned = |x: &TracedTensor| {
        if reverse { on.slice(x, &[-1], &[i64::MIN], &[axis], &[-1]) } else { Ok(x.clone()) }
    };
    let half = matches!(x.dtype(), DataType::F16 | DataType::BF16);
    let wide = if half { DataType::F32 } else { x.dtype() };
    let mut y = turned(&math::to(on, x, wide)?)?;
    if exclusive && extent > 0 {
        let first = on.full_to(&on.extents(&part(&y, 0, 1)?), neutral, wide)?;
        y = on.concat(&[&first, &part(&y, 0, extent - 1)?], axis)?;
    }
    let mut covered = 1;
    while covered < extent {
        let both = combine(&part(&y, covered, extent)?, &part(&y, 0, extent - covered)?)?;
        y = on.concat(&[&part(&y, 0, covered)?, &both], axis)?;
        covered *= 2;
    }
    math::to(on, &turned(&y)?, x.dtype())
}
