//! Wraps integers that are stored in a wider type, as arithmetic in their own type does.

use super::{NarrowedOn, Range};
use crate::ext::{ErasedBackend, ErasedError, ErasedTensor};
use crate::{Backend, Tensor};
use bb_ir::{DataType, TensorData, convert};

impl NarrowedOn<'_> {
    /// Returns the elements modulo 2 to the power of the bits of `dtype`, in the range of `dtype`. They stay in their wider
    /// integer type.
    ///
    /// # Errors
    ///
    /// The backend's own errors.
    pub(super) fn wrapped(&self, x: &ErasedTensor, dtype: DataType) -> Result<ErasedTensor, ErasedError> {
        let Some(range) = Range::of(dtype) else { return Ok(x.clone()) };
        let on = ErasedBackend(self.device());
        let holder = x.dtype();
        let number = |value: i128| -> Result<ErasedTensor, ErasedError> {
            let value = TensorData::scalar(i64::try_from(value).unwrap_or(0));
            on.constant(
                &convert::cast(&value, holder, convert::Rounding::default()).map_err(crate::Error::from)?,
            )
        };
        let modulus = number(1 << dtype.bits())?;
        // Division truncates, so the remainder has the sign of the element.
        let rest = on.sub(x, &on.mul(&on.div(x, &modulus)?, &modulus)?)?;
        let below = on.less(&rest, &number(range.least)?)?;
        let rest = on.r#where(&below, &on.add(&rest, &modulus)?, &rest)?;
        if dtype.is_unsigned_integer() {
            return Ok(rest);
        }
        let above = on.greater(&rest, &number(range.greatest)?)?;
        on.r#where(&above, &on.sub(&rest, &modulus)?, &rest)
    }
}
