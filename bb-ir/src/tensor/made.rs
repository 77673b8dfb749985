//! Elements that are computed on use. They are freed with their last handle, and then computed again on the next use.

use super::TensorData;
use super::elements::SharedBytes;
use crate::{DataType, Error, Shape, element_count};
use bytes::Bytes;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// A function that computes the elements of a tensor in the layout that [`TensorData`] documents.
type Maker = Box<dyn Fn() -> Result<Bytes, Error> + Send + Sync>;

/// Bytes that a function computes.
pub(super) struct ComputedBytes {
    dtype: DataType,
    shape: Shape,
    length: usize,
    make: Maker,
    /// The bytes, if a caller requested them for the lifetime of the tensor.
    kept: OnceLock<Bytes>,
    /// The bytes, as long as a handle to them exists.
    lent: Mutex<Weak<Bytes>>,
}

impl ComputedBytes {
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Computes the bytes, and validates them against the element type and the shape.
    fn made(&self) -> Result<Bytes, Error> {
        TensorData::adopt(self.dtype, &self.shape, (self.make)()?)?.elements.lent()
    }

    /// Returns the bytes, and stores them for the lifetime of the tensor.
    pub(super) fn kept(&self) -> Result<&Bytes, Error> {
        if let Some(bytes) = self.kept.get() {
            return Ok(bytes);
        }
        let bytes = self.lent()?;
        // If another thread was faster, `get_or_init` returns the bytes of that thread.
        Ok(self.kept.get_or_init(|| bytes))
    }

    /// Returns the bytes, which are freed with their last handle unless `kept` stored them.
    pub(super) fn lent(&self) -> Result<Bytes, Error> {
        if let Some(bytes) = self.kept.get() {
            return Ok(bytes.clone());
        }
        // The bytes are computed under the lock, so that concurrent callers do not all compute them.
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = match lent.upgrade() {
            Some(bytes) => bytes,
            None => {
                let bytes = Arc::new(self.made()?);
                *lent = Arc::downgrade(&bytes);
                bytes
            }
        };
        Ok(Bytes::from_owner(SharedBytes(bytes)))
    }
}

impl TensorData {
    /// Returns a tensor whose elements `make` computes when they are used.
    ///
    /// The elements that [`aligned`](Self::aligned) returns are freed with their last handle, and computed again for the next call.
    /// So weights that are stored in another format can be passed to a backend without staying in memory in both formats. All other
    /// accessors store the elements for the lifetime of the tensor. `make` must return the same bytes each time.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if the number of elements overflows; [`Error::DataType`] for strings, because their size is unknown
    /// until they are computed. The accessors of the elements return the errors of `make` and of [`adopt`](Self::adopt).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), bb_ir::Error> {
    /// use bb_ir::{DataType, TensorData};
    /// let x = TensorData::made_later(DataType::U8, &[3], || Ok(vec![1, 2, 3].into()))?;
    /// assert_eq!(x.as_slice::<u8>()?, [1, 2, 3]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn made_later(
        dtype: DataType,
        shape: &[usize],
        make: impl Fn() -> Result<Bytes, Error> + Send + Sync + 'static,
    ) -> Result<TensorData, Error> {
        if dtype == DataType::String {
            return Err(Error::DataType { expected: DataType::U8, got: dtype });
        }
        let too_large = || Error::TooLarge { dtype, shape: shape.into(), limit: usize::MAX, name: None };
        let length = element_count(shape).and_then(|n| dtype.bytes_for(n)).ok_or_else(too_large)?;
        let shape = Shape::from_slice(shape);
        let (kept, lent) = (OnceLock::new(), Mutex::default());
        let made = ComputedBytes { dtype, shape: shape.clone(), length, make: Box::new(make), kept, lent };
        Ok(TensorData { dtype, shape, elements: super::Elements::Made(Arc::new(made)) })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Returns a tensor, and a counter of how often its elements are computed.
    fn counted(bytes: Vec<u8>) -> (TensorData, Arc<AtomicUsize>) {
        let times = Arc::new(AtomicUsize::new(0));
        let count = times.clone();
        let make = move || {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(Bytes::from(bytes.clone()))
        };
        (TensorData::made_later(DataType::F32, &[2], make).unwrap(), times)
    }

    #[test]
    fn elements_are_made_again_once_nobody_holds_them() {
        let (x, times) = counted(vec![0; 8]);
        assert_eq!(x.byte_len(), 8);
        assert_eq!(times.load(Ordering::Relaxed), 0);
        let [first, second] = [x.aligned().unwrap(), x.clone().aligned().unwrap()];
        assert_eq!(first.bytes().unwrap().as_ptr(), second.bytes().unwrap().as_ptr());
        assert_eq!(times.load(Ordering::Relaxed), 1);
        drop((first, second));
        x.aligned().unwrap();
        assert_eq!(times.load(Ordering::Relaxed), 2);
        assert_eq!(x.as_slice::<f32>().unwrap(), [0.0; 2]);
        assert_eq!(x.reshaped(&[1, 2]).unwrap().as_slice::<f32>().unwrap(), [0.0; 2]);
        assert_eq!(times.load(Ordering::Relaxed), 3, "what was read is kept");
        x.aligned().unwrap();
        assert_eq!(times.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn what_is_made_in_the_wrong_form_is_an_error_each_time() {
        let (x, _) = counted(vec![0; 7]);
        for _ in 0..2 {
            assert!(matches!(x.aligned(), Err(Error::ByteLength { expected: 8, got: 7, .. })));
            assert!(matches!(x.bytes(), Err(Error::ByteLength { .. })));
            assert!(x.try_to_proto("x").is_err());
        }
        let truths = TensorData::made_later(DataType::Bool, &[1], || Ok(vec![2].into())).unwrap();
        assert!(matches!(truths.to_bools(), Err(Error::BoolByte { index: 0, value: 2 })));
        let failed = || Err(Error::Segment);
        let failed = TensorData::made_later(DataType::U8, &[1], failed).unwrap();
        assert!(matches!(failed.prepare(), Err(Error::Segment)));
        assert!(TensorData::made_later(DataType::String, &[1], || Ok(Bytes::new())).is_err());
        assert!(TensorData::made_later(DataType::U8, &[usize::MAX, 2], || Ok(Bytes::new())).is_err());
    }

    #[test]
    fn tensors_that_are_made_have_an_identity_of_their_own() {
        let [(x, _), (y, _)] = [counted(vec![0; 8]), counted(vec![0; 8])];
        assert_eq!(x.identity(), x.clone().identity());
        assert_ne!(x.identity(), y.identity());
        assert_eq!(x, y);
    }
}
