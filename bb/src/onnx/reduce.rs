//! Reductions, whose axes moved from an attribute to an operand.

use super::call::{Answer, Call, one};
use crate::ext::Ops;

/// What a call reduces.
pub(super) struct Reduced {
    /// The axes; all if empty.
    pub(super) axes: Vec<i64>,
    /// Whether reduced extents stay, as 1.
    pub(super) keepdims: bool,
}

/// Reads the axes, `None` where nothing is reduced.
pub(super) fn reduced<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> Result<Option<Reduced>, B::Error> {
    let axes = call.list(on, "axes", 1)?.unwrap_or_default();
    if axes.is_empty() && call.flag("noop_with_empty_axes", false)? {
        return Ok(None);
    }
    Ok(Some(Reduced { axes, keepdims: call.flag("keepdims", true)? }))
}

/// Declares operators that are one primitive reduction.
macro_rules! direct {
    ($( $name:ident = $method:ident; )*) => {$(
        pub(super) fn $name<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> Answer<B> {
            let x = call.input(0)?;
            Ok(one(match reduced(on, call)? {
                Some(r) => on.$method(x, &r.axes, r.keepdims)?,
                None => on.identity(x)?,
            }))
        }
    )*};
}

direct! {
    max = reduce_max;
    mean = reduce_mean;
    min = reduce_min;
    sum = reduce_sum;
}
