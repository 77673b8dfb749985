//! Casts from and to types that a backend lacks.

use super::{NarrowTensor, NarrowedOn, Range};
use crate::erased::TensorPlace;
use crate::ext::{ErasedBackend, ErasedError};
use crate::{Backend, Error, Outputs, Tensor};
use bb_ir::DataType;
use bb_ir::convert::Rounding;
use bb_ir::op::{Param, Primitive, take};

/// Reads the rounding mode of a cast from its parameters.
///
/// # Errors
///
/// [`Error::Ir`] if the parameters do not match the row.
pub(super) fn rounding(params: &[Param<'_>]) -> Result<Rounding, Error> {
    Ok(Rounding { saturate: take::Bool("cast", params.get(1))?, mode: take::Round("cast", params.get(2))? })
}

impl NarrowedOn<'_> {
    /// Casts a tensor.
    ///
    /// Floats become `i64` on the host, because their values are not known. A float that does not fit `i64` becomes its
    /// minimum, which is out of range for every narrower type.
    ///
    /// # Errors
    ///
    /// The backend's own errors; [`NarrowError`](crate::NarrowError).
    pub(super) fn cast_to(
        &self,
        x: &NarrowTensor,
        to: DataType,
        params: &[Param<'_>],
    ) -> Result<Outputs<NarrowTensor>, ErasedError> {
        let one = |y| Ok(Outputs::from_buf([y]));
        if x.dtype() == to {
            return one(x.clone());
        }
        let by_host = || {
            self.by_host(
                Primitive::Cast,
                &[Some(x)],
                params,
                self.lacks(Primitive::Cast, &[Some(x)], Some(to)),
            )
        };
        let (Some(held), TensorPlace::Device(inner)) = (self.holding().of(to), x.place()) else {
            return by_host();
        };
        let Rounding { saturate, mode } = rounding(params)?;
        let on = ErasedBackend(self.device());
        let (Some(all), Some(holder)) = (Range::of(to), Range::of(held)) else {
            // A cast to a float. The stored elements are exact, so this cast is the only rounding.
            return one(NarrowTensor::device(to, on.cast(inner, held, saturate, mode)?, None));
        };
        match x.range() {
            Some(range) if held == to => {
                let known = all.contains(range).then_some(range);
                one(NarrowTensor::device(to, on.cast(inner, to, saturate, mode)?, known))
            }
            Some(range) if all.contains(range) && holder.contains(range) => {
                one(NarrowTensor::device(to, on.cast(inner, held, saturate, mode)?, Some(range)))
            }
            // The wider type stores the low bits of every element, and `wrapped` reduces them to the narrow type.
            Some(_) if to.bits() < held.bits() && inner.dtype().bits() >= held.bits() => {
                let wide = on.cast(inner, held, saturate, mode)?;
                one(NarrowTensor::device(to, self.wrapped(&wide, to)?, Some(all)))
            }
            None if held == to => one(NarrowTensor::device(to, on.cast(inner, to, saturate, mode)?, None)),
            // A float is cast to an integer of at most 16 bits via `i32`, keeping the low bits.
            None if to.bits() <= 16 && held == DataType::I32 => {
                let wide = on.cast(inner, held, saturate, mode)?;
                one(NarrowTensor::device(to, self.wrapped(&wide, to)?, Some(all)))
            }
            _ => by_host(),
        }
    }
}
