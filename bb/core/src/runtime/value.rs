//! Type-erased tensors of running backends.

use super::{BackendId, DispatchResult};
use crate::ext::ErasedTensor;
use crate::{Error, Tensor};
use bb_ir::op::{OpSpec, Param};
use bb_ir::wire::Checksum;
use bb_ir::{DataType, Shape, TensorData};

/// A tensor of any running backend. A clone refers to the same tensor.
///
/// Every operation is a method, and Rust's operators call the methods with the same names. The backend that owns the
/// value runs the operation. Operands of another backend are an error;
/// [`BackendHandle::adopt`](crate::BackendHandle::adopt) transfers them.
///
/// # Examples
///
/// ```no_run
/// use bb::{Error, Value};
///
/// /// Attention of one head: the mean of `v`, weighted by how well each row of `k` fits the rows of `q`.
/// fn attention(q: &Value, k: &Value, v: &Value) -> Result<Value, Error> {
///     let scale = q.scalar_like((k.shape()[1] as f64).sqrt())?;
///     let scores = (q.matmul(&k.transpose(&[1, 0])?)? / scale)?;
///     scores.softmax(-1)?.matmul(v)
/// }
///
/// # fn main() -> Result<(), Error> {
/// let cpu = bb::backend("cpu")?;
/// let x = cpu.tensor(&[2, 2], &[1f32, 0.0, 0.0, 1.0])?;
/// assert_eq!(attention(&x, &x, &x)?.shape(), [2, 2]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Value {
    tensor: ErasedTensor,
    owner: BackendId,
}

impl Value {
    pub(super) fn new(tensor: ErasedTensor, owner: BackendId) -> Value {
        Value { tensor, owner }
    }

    pub(super) fn tensor(&self) -> &ErasedTensor {
        &self.tensor
    }

    /// Returns the id of the instance that the tensor belongs to.
    pub fn owner(&self) -> BackendId {
        self.owner
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DataType {
        self.tensor.dtype()
    }

    /// Returns the shape, outermost extent first.
    pub fn shape(&self) -> &[usize] {
        self.tensor.shape()
    }

    /// Returns the number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape().len()
    }

    /// Calls an operation of any family on the backend that owns the value.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`] if the backend's instance was dropped; [`Error::ForeignTensor`] if an operand belongs to another
    /// instance; the operation's own errors.
    #[inline]
    pub fn call(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&Value>],
        params: &[Param<'_>],
    ) -> DispatchResult {
        let runtime =
            super::instances::running(self.owner).ok_or_else(|| Error::Gone { owner: self.owner })?;
        runtime.dispatch_atomic(op, inputs, params)
    }

    /// Calls an operation on the backend that owns the first value of a list.
    #[inline]
    pub(crate) fn call_first(
        values: &[&Value],
        op: &'static OpSpec,
        inputs: &[Option<&Value>],
        params: &[Param<'_>],
    ) -> DispatchResult {
        match values.first() {
            Some(first) => first.call(op, inputs, params),
            None => Err(Error::Operand { op: op.method, index: 0, expected: "a tensor" }),
        }
    }

    /// Copies the elements to the host in row-major order.
    ///
    /// Units: `limit` counts bytes, not elements. Strings are counted only after they are copied.
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
        let runtime =
            super::instances::running(self.owner).ok_or_else(|| Error::Gone { owner: self.owner })?;
        let host = runtime.to_host(self)?;
        if host.byte_len() > limit {
            return Err(too_large().into());
        }
        Ok(host)
    }

    /// Copies the tensor to the host and writes it as a frame.
    ///
    /// # Errors
    ///
    /// The errors of [`to_host`](Self::to_host) and [`write()`](bb_ir::wire::write()).
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
