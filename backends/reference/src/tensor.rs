//! The tensor type: a shared ndarray of one of the element types. Cloning it copies no elements.
//!
//! Each of the thirteen compute types is stored as the Rust type of the same name, and strings as `Arc<[u8]>`.
//! Storage types are stored as bytes; an element of less than 8 bits uses a whole byte.

use crate::Error;
use bb::ir::{Error as IrError, element_count, memory};
use bb::{DataType, TensorData, bf16, f16};
use ndarray::{ArcArray, ArrayD, ArrayViewD, IxDyn};
use std::borrow::Cow;
use std::sync::Arc;

/// A shared array of any rank.
pub(crate) type Array<T> = ArcArray<T, IxDyn>;

/// A tensor of the reference backend.
#[derive(Debug, Clone)]
pub struct Tensor {
    dtype: DataType,
    values: Values,
}

/// A Rust type that stores elements.
pub(crate) trait Held: Clone + Send + Sync + 'static {
    /// Wraps an array.
    fn hold(array: Array<Self>) -> Values;
    /// Unwraps an array; `None` if it has another type.
    fn held(values: &Values) -> Option<&Array<Self>>;
    /// Returns a placeholder for an element that was not computed yet.
    fn blank() -> Self;
    /// Reads the elements of a host tensor.
    fn from_host(x: &TensorData) -> Result<Vec<Self>, IrError>;
    /// Creates a host tensor from elements in row-major order.
    fn to_host(dtype: DataType, shape: &[usize], elements: &[Self]) -> Result<TensorData, IrError>;
}

impl Tensor {
    /// Creates a tensor from an array.
    pub(crate) fn new<T: Held>(dtype: DataType, array: Array<T>) -> Tensor {
        Tensor { dtype, values: T::hold(array) }
    }

    /// Returns the array if its elements are stored as `T`, which stores the element type `expected`; otherwise an
    /// error.
    pub(crate) fn array<T: Held>(&self, expected: DataType) -> Result<&Array<T>, Error> {
        let other = IrError::DataType { expected, got: self.dtype };
        Ok(T::held(&self.values).ok_or(other)?)
    }
}

impl bb::Tensor for Tensor {
    fn dtype(&self) -> DataType {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        self.values.shape()
    }
}

/// Creates an array from elements in row-major order.
pub(crate) fn array<T: Clone>(shape: &[usize], elements: Vec<T>) -> Result<Array<T>, Error> {
    ArrayD::from_shape_vec(IxDyn(shape), elements)
        .map(ArrayD::into_shared)
        .map_err(|source| Error::Extents { shape: shape.into(), source })
}

/// Creates an array with placeholder elements, which the caller overwrites.
pub(crate) fn blank<T: Held>(op: &'static str, shape: &[usize]) -> Result<ArrayD<T>, Error> {
    let elements = memory::filled(op, T::blank(), element_count(shape).unwrap_or(0))?;
    ArrayD::from_shape_vec(IxDyn(shape), elements)
        .map_err(|source| Error::Extents { shape: shape.into(), source })
}

/// Returns the elements in row-major order. They are copied only if they are in another order.
pub(crate) fn row_major<'a, T: Clone>(
    op: &'static str,
    x: &'a ArrayViewD<'_, T>,
) -> Result<Cow<'a, [T]>, Error> {
    match x.as_slice() {
        Some(elements) => Ok(Cow::Borrowed(elements)),
        None => Ok(Cow::Owned(memory::collected(op, x.iter().cloned())?)),
    }
}

/// Broadcasts an array to a shape without copying elements.
pub(crate) fn stretched<'a, T>(x: &'a Array<T>, shape: &[usize]) -> Result<ArrayViewD<'a, T>, Error> {
    let overflow = ndarray::ShapeError::from_kind(ndarray::ErrorKind::Overflow);
    x.broadcast(IxDyn(shape)).ok_or(Error::Extents { shape: shape.into(), source: overflow })
}

/// Copies a host tensor.
pub(crate) fn from_host(x: &TensorData) -> Result<Tensor, Error> {
    any!("constant", x.dtype(), T => {
        Ok(Tensor::new(x.dtype(), array(x.shape(), T::from_host(x)?)?))
    })
}

/// Copies a tensor to the host.
pub(crate) fn to_host(x: &Tensor) -> Result<TensorData, Error> {
    any!("to_host", x.dtype, T => {
        let array = x.array::<T>(x.dtype)?.view();
        Ok(T::to_host(x.dtype, array.shape(), &row_major("to_host", &array)?)?)
    })
}

/// Declares [`Values`], with one variant per Rust type that stores elements.
macro_rules! values {
    ($( $variant:ident($type:ty), $blank:expr, |$x:ident| $from:expr, |$dtype:ident, $shape:ident, $elements:ident| $to:expr; )*) => {
        /// An array of one of the Rust types that store elements.
        #[derive(Debug, Clone)]
        pub(crate) enum Values { $( $variant(Array<$type>), )* }

        impl Values {
            fn shape(&self) -> &[usize] {
                match self { $( Values::$variant(array) => array.shape(), )* }
            }
        }

        $( impl Held for $type {
            fn hold(array: Array<Self>) -> Values {
                Values::$variant(array)
            }

            fn held(values: &Values) -> Option<&Array<Self>> {
                match values {
                    Values::$variant(array) => Some(array),
                    _ => None,
                }
            }

            fn blank() -> Self {
                $blank
            }

            fn from_host($x: &TensorData) -> Result<Vec<Self>, IrError> {
                $from
            }

            fn to_host($dtype: DataType, $shape: &[usize], $elements: &[Self]) -> Result<TensorData, IrError> {
                $to
            }
        } )*
    };
}

/// Calls [`values!`] with a row for each storage type. The arguments are the types that host tensors store as plain Rust values.
macro_rules! all_values {
    ($( $plain:ident($type:ty), )*) => { values! {
        $( $plain($type), <$type>::default(),
            |x| memory::copied("constant", x.as_slice()?),
            |_dtype, shape, elements| TensorData::new(shape, elements); )*
        Bool(bool), false,
            |x| x.to_bools(),
            |_dtype, shape, elements| TensorData::bools(shape, elements);
        Text(Arc<[u8]>), Arc::default(),
            |x| {
                // Each string has its own allocation, and the standard library does not report a failure, so probe
                // the memory first.
                memory::probe_strings("constant", x.len(), x.byte_len())?;
                memory::collected("constant", x.iter_bytes().map(Arc::from))
            },
            |_dtype, shape, elements| TensorData::strings(shape, elements);
        Bytes1([u8; 1]), [0; 1],
            |x| memory::copied("constant", x.unpacked()?.as_chunks().0),
            |dtype, shape, elements| TensorData::pack(dtype, shape, elements.as_flattened());
        Bytes8([u8; 8]), [0; 8],
            |x| memory::copied("constant", x.unpacked()?.as_chunks().0),
            |dtype, shape, elements| TensorData::pack(dtype, shape, elements.as_flattened());
        Bytes16([u8; 16]), [0; 16],
            |x| memory::copied("constant", x.unpacked()?.as_chunks().0),
            |dtype, shape, elements| TensorData::pack(dtype, shape, elements.as_flattened());
    } };
}

all_values! {
    F16(f16), BF16(bf16), F32(f32), F64(f64),
    I8(i8), I16(i16), I32(i32), I64(i64),
    U8(u8), U16(u16), U32(u32), U64(u64),
}
