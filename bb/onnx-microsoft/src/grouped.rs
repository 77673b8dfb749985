//! Keys of a cache whose heads are stored in groups of 16 bytes, element by element. ONNX Runtime uses this layout if the cache is
//! a shared buffer.

use bb_core::{Backend, DataType, Error, Tensor};

/// Reorders keys from `[batch, heads, room, size]` to `[batch, heads, size / n, room, n]`, where `n` elements take 16 bytes, or
/// back if `back`. The returned tensor keeps the shape `[batch, heads, room, size]` in both directions.
///
/// # Errors
///
/// [`Error::Operator`] if the size of a head is no multiple of 16 bytes; the errors of the backend.
pub(super) fn grouped_keys<B: Backend + ?Sized>(
    on: &B,
    keys: &B::Tensor,
    dtype: DataType,
    back: bool,
) -> Result<B::Tensor, B::Error> {
    let n = 16 * 8 / dtype.bits().max(1);
    let wrong = || Error::Operator {
        op: "DecoderMaskedSelfAttention".to_owned(),
        part: "past".into(),
        problem: format!("has the extents {:?}, expected keys of a multiple of {n} numbers", keys.shape()),
    };
    let &[batch, heads, room, size] = keys.shape() else { return Err(wrong().into()) };
    if !size.is_multiple_of(n) {
        return Err(wrong().into());
    }
    let from = if back { [batch, heads, size / n, room, n] } else { [batch, heads, room, size / n, n] };
    let turned = on.transpose(&on.reshape(keys, &from)?, &[0, 1, 3, 2, 4])?;
    on.reshape(&turned, &[batch, heads, room, size])
}
