//! Conversions between tensors and `ndarray` arrays, with the feature `ndarray`.

use super::TensorData;
use crate::{Element, Error};
use ndarray::{ArrayBase, ArrayViewD, CowArray, Data, Dimension, IxDyn};

impl TensorData {
    /// Views the elements as an array, without copying.
    ///
    /// # Errors
    ///
    /// [`Error::DataType`] if the elements are not of type `T`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), bb_ir::Error> {
    /// use bb_ir::TensorData;
    /// let x = TensorData::new(&[2, 2], &[1, 2, 3, 4])?;
    /// let array = x.to_ndarray::<i32>()?;
    /// assert_eq!(TensorData::from_ndarray(&array.t())?, TensorData::new(&[2, 2], &[1, 3, 2, 4])?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn to_ndarray<T: Element>(&self) -> Result<ArrayViewD<'_, T>, Error> {
        let elements = self.as_slice::<T>()?;
        ArrayViewD::from_shape(IxDyn(self.shape()), elements).map_err(|_| Error::TooLarge {
            dtype: self.dtype(),
            shape: self.shape().into(),
            limit: isize::MAX as usize,
            name: None,
        })
    }

    /// Copies an array of any strides into a tensor.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if the system has no memory for the copy.
    pub fn from_ndarray<T: Element, S: Data<Elem = T>, D: Dimension>(
        array: &ArrayBase<S, D>,
    ) -> Result<TensorData, Error> {
        let rows: CowArray<'_, T, D> = array.as_standard_layout();
        TensorData::new(array.shape(), rows.as_slice().unwrap_or_default())
    }
}
