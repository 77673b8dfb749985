//! The backend under test, and the element types that it claims.

use super::host::{Value, host_numbers};
use crate::{Backend, DataType, TensorData};
use bb_ir::infer;
use bb_ir::op::Primitive;
use std::ops::Deref;

/// A backend under test; its operations are called as on the backend itself.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a, B> {
    backend: &'a B,
    types: &'a [DataType],
}

impl<'a, B: Backend> Subject<'a, B> {
    /// Names the element types that the backend supports; cases use no others.
    pub fn new(backend: &'a B, types: &'a [DataType]) -> Self {
        Subject { backend, types }
    }

    /// Returns the backend.
    pub fn backend(&self) -> &'a B {
        self.backend
    }

    /// Tells whether the backend supports all of the element types.
    pub fn supports(&self, dtypes: &[DataType]) -> bool {
        dtypes.iter().all(|dtype| self.types.contains(dtype))
    }

    /// Returns the supported types that an operand of an operation may have.
    pub fn taken(&self, op: Primitive, operand: usize) -> Vec<DataType> {
        let all = DataType::ALL.iter().copied();
        all.filter(|&dtype| infer::accepts(op, operand, dtype) && self.supports(&[dtype])).collect()
    }

    /// Brings a host tensor to the backend.
    ///
    /// # Panics
    ///
    /// If the backend refuses it.
    #[track_caller]
    pub fn bring(&self, x: &TensorData) -> B::Tensor {
        match self.backend.constant(x) {
            Ok(tensor) => tensor,
            Err(error) => panic!("`constant` refused {x:?}: {error}"),
        }
    }

    /// Takes a tensor to the host.
    ///
    /// # Panics
    ///
    /// If the backend cannot.
    #[track_caller]
    pub fn fetch(&self, x: &B::Tensor) -> TensorData {
        match self.backend.to_host(x) {
            Ok(host) => host,
            Err(error) => panic!("`to_host` failed: {error}"),
        }
    }
}

impl<B> Deref for Subject<'_, B> {
    type Target = B;

    fn deref(&self) -> &B {
        self.backend
    }
}

/// Makes a tensor of the backend from values; their Rust type says the element type.
///
/// # Panics
///
/// If the backend refuses it, or the number of values is not that of the shape.
#[track_caller]
pub fn tensor<B: Backend, T: Value>(
    on: &Subject<'_, B>,
    shape: impl AsRef<[usize]>,
    values: impl AsRef<[T]>,
) -> B::Tensor {
    on.bring(&T::host(shape.as_ref(), values.as_ref()))
}

/// Makes a tensor of any compute type from small numbers, which each type represents as it can.
///
/// # Panics
///
/// If the backend refuses it, or `dtype` is a storage type.
#[track_caller]
pub fn numbers<B: Backend>(
    on: &Subject<'_, B>,
    dtype: DataType,
    shape: impl AsRef<[usize]>,
    values: impl AsRef<[f64]>,
) -> B::Tensor {
    on.bring(&host_numbers(dtype, shape.as_ref(), values.as_ref()))
}
