//! Tensors whose type does not name their backend.

use super::BackendId;
use crate::{Error, SlotValue};
use bb_ir::wire::Checksum;
use bb_ir::{DataType, Shape, TensorData};
use std::sync::Arc;

/// A tensor of some running backend; a clone refers to the same tensor.
#[derive(Clone)]
pub struct Value {
    slot: Arc<dyn SlotValue>,
    owner: BackendId,
}

impl Value {
    pub(super) fn new(slot: Arc<dyn SlotValue>, owner: BackendId) -> Value {
        Value { slot, owner }
    }

    pub(super) fn slot(&self) -> &Arc<dyn SlotValue> {
        &self.slot
    }

    /// Returns the id of the instance that the tensor belongs to.
    pub fn owner(&self) -> BackendId {
        self.owner
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DataType {
        self.slot.dtype()
    }

    /// Returns the shape, outermost extent first.
    pub fn shape(&self) -> &[usize] {
        self.slot.shape()
    }

    /// Copies the elements to the host in row-major order.
    ///
    /// Units: `limit` counts bytes, not elements. Strings are only counted after they were copied.
    ///
    /// # Errors
    ///
    /// [`bb_ir::Error::TooLarge`] if the copy would exceed `limit`; [`Error::Gone`] if the backend's
    /// instance was dropped; [`Error::Kernel`] if the device failed.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> Result<(), bb::Error> {
    /// let host = bb::backend("cpu")?.tensor(&[2, 2], &[1f32, 2., 3., 4.])?.to_host(1024)?;
    /// assert_eq!(host.as_slice::<f32>()?, [1., 2., 3., 4.]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn to_host(&self, limit: usize) -> Result<TensorData, Error> {
        let (dtype, shape) = (self.dtype(), self.shape());
        let too_large = || bb_ir::Error::TooLarge { dtype, shape: shape.into(), limit, name: None };
        if dtype != DataType::String {
            let elements = bb_ir::element_count(shape).ok_or_else(too_large)?;
            if dtype.bytes_for(elements).is_none_or(|bytes| bytes > limit) {
                return Err(too_large().into());
            }
        }
        let runtime = super::instances::running(self.owner).ok_or(Error::Gone { owner: self.owner })?;
        let host = runtime.to_host(self)?;
        if host.byte_len() > limit {
            return Err(too_large().into());
        }
        Ok(host)
    }

    /// Writes the tensor as a frame, through a copy on the host.
    ///
    /// # Errors
    ///
    /// As [`to_host`](Self::to_host) and [`write()`](bb_ir::wire::write()).
    pub fn write_frame(&self, to: &mut impl std::io::Write, checksum: Checksum) -> Result<(), Error> {
        Ok(bb_ir::wire::write(to, &self.to_host(usize::MAX)?, checksum)?)
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Value({}{:?} on {})", self.dtype(), Shape::from_slice(self.shape()), self.owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_three_words() {
        assert!(size_of::<Value>() <= 24);
        assert_eq!(size_of::<Option<Value>>(), size_of::<Value>());
    }
}
