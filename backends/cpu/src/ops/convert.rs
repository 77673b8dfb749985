//! Casts between element types.

use super::{dense, made, text};
use crate::array::{Array, element_size};
use crate::error::Result;
use crate::kernels::element_loop::GRAIN;
use crate::kernels::{self, Shared, walk};
use crate::pool::Pool;
use bb::ir::convert::{Rounding, cast_into};
use bb::{DataType, RoundMode, Shape, Tensor};
use std::slice;
use std::sync::{Arc, OnceLock};

/// Converts each element to the type `to`.
pub(crate) fn cast(
    pool: &Arc<Pool>,
    x: &Array,
    to: DataType,
    saturate: bool,
    mode: RoundMode,
) -> Result<Array> {
    let from = x.dtype();
    if from == to {
        return Ok(x.clone());
    }
    let rounding = Rounding { saturate, mode };
    if from == DataType::String {
        return text::parse(pool, x, to, rounding);
    }
    let x = dense(pool, x)?;
    // SAFETY: a contiguous array has `len` elements from its first element on.
    let bytes = unsafe { elements(&x) };
    if to == DataType::String {
        return text::print(pool, from, x.shape(), bytes);
    }
    if let Some(run) = kernels::cast::kernel(from, to) {
        let [read, written] = [from, to].map(element_size);
        return made(pool, to, Shape::from_slice(x.shape()), |out| {
            let shared = Shared((out, x.ptr()));
            walk::split(x.len(), 1, GRAIN, |start, end| {
                let (out, x) = shared.get();
                // SAFETY: both arrays have `len` contiguous elements of these types, and no other call writes these.
                unsafe { run(out.add(start * written), [x.add(start * read)], end - start) };
            });
        });
    }
    let failed = OnceLock::new();
    let sizes = [from, to].map(element_size);
    let out = made(pool, to, Shape::from_slice(x.shape()), |out| {
        let shared = Shared(out);
        walk::split(x.len(), 1, GRAIN / 4, |start, end| {
            let [read, written] = sizes.map(|size| start * size..end * size);
            // SAFETY: `out` has room for `len` elements of the type `to`, and no other call writes these. They are zeroed
            // before they become a slice.
            let out = unsafe {
                let out = shared.get().add(written.start);
                out.write_bytes(0, written.len());
                slice::from_raw_parts_mut(out, written.len())
            };
            if let Err(error) = cast_into(from, bytes.get(read).unwrap_or_default(), to, rounding, out) {
                let _ = failed.set(error);
            }
        });
    })?;
    failed.into_inner().map_or(Ok(out), |error| Err(error.into()))
}

/// Returns the bytes of the elements of a contiguous array.
///
/// # Safety
///
/// `x` is contiguous.
pub(super) unsafe fn elements(x: &Array) -> &[u8] {
    if x.is_empty() {
        return &[];
    }
    // SAFETY: the elements are contiguous, were written when the array was created, and are not written again while it
    // exists.
    unsafe { slice::from_raw_parts(x.ptr(), x.len() * element_size(x.dtype())) }
}
