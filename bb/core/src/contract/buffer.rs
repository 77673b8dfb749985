//! Memory of a caller into which a run writes its results.

use super::{Port, Tensor};
use crate::error::{BufferMismatch, BufferProblem};
use crate::{Backend, Error};
use bb_ir::graph::{Dim, ValueType};
use bb_ir::{DataType, Element, Shape, TensorData};
use smallvec::SmallVec;

/// Memory of the caller for one result of a run.
///
/// A buffer has an element type. It accepts either one shape, or any shape that fits its memory. It borrows the memory
/// for as long as it exists, so that one buffer serves many runs.
///
/// # Examples
///
/// ```
/// let mut scores = vec![0f32; 10];
/// let exact = bb::ResultBuffer::new(&[2, 5], &mut scores)?;
/// assert_eq!(exact.result(), None, "no run has written it");
/// let mut longest = [0i64; 512];
/// let open = bb::ResultBuffer::open(&mut longest);
/// # let _ = open;
/// assert!(bb::ResultBuffer::new(&[3], &mut longest).is_err());
/// # Ok::<(), bb::Error>(())
/// ```
#[derive(Debug)]
pub struct ResultBuffer<'a> {
    dtype: DataType,
    bytes: &'a mut [u8],
    /// The shape that the result must have; `None` if any shape is accepted.
    shape: Option<Shape>,
    result: Option<Shape>,
    /// Why the last run's result did not fit.
    refused: Option<Box<BufferMismatch>>,
}

impl<'a> ResultBuffer<'a> {
    /// Borrows memory for a result of exactly this shape.
    ///
    /// # Errors
    ///
    /// [`bb_ir::Error::ByteLength`] if `shape` does not have `elements.len()` elements.
    pub fn new<T: Element>(shape: &[usize], elements: &'a mut [T]) -> Result<ResultBuffer<'a>, Error> {
        ResultBuffer::of_bytes(T::DTYPE, shape, bytemuck::cast_slice_mut(elements))
    }

    /// Borrows memory for a result of any shape with at most `elements.len()` elements.
    ///
    /// [`result`](Self::result) returns the shape after the run.
    pub fn open<T: Element>(elements: &'a mut [T]) -> ResultBuffer<'a> {
        ResultBuffer::open_bytes(T::DTYPE, bytemuck::cast_slice_mut(elements))
    }

    /// Borrows bytes for a result of this element type and shape. Use it for booleans, and for packed elements smaller
    /// than a byte, because Rust has no types for them. The bytes have the layout that
    /// [`TensorData`](crate::TensorData) describes.
    ///
    /// # Errors
    ///
    /// [`bb_ir::Error::ByteLength`] if a tensor of this type and shape takes another number of bytes;
    /// [`bb_ir::Error::TooLarge`] if that number is more than a processor can address.
    pub fn of_bytes(
        dtype: DataType,
        shape: &[usize],
        bytes: &'a mut [u8],
    ) -> Result<ResultBuffer<'a>, Error> {
        let known = Shape::from_slice(shape);
        let too_large =
            || bb_ir::Error::TooLarge { dtype, shape: shape.into(), limit: usize::MAX, name: None };
        let expected = size(dtype, shape).ok_or_else(too_large)?;
        if expected != bytes.len() {
            let shape = shape.into();
            return Err(bb_ir::Error::ByteLength { dtype, shape, expected, got: bytes.len() }.into());
        }
        Ok(ResultBuffer { dtype, bytes, shape: Some(known), result: None, refused: None })
    }

    /// Borrows bytes for a result of this element type and of any shape that fits.
    pub fn open_bytes(dtype: DataType, bytes: &'a mut [u8]) -> ResultBuffer<'a> {
        ResultBuffer { dtype, bytes, shape: None, result: None, refused: None }
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    /// Returns the shape of the result that the last run wrote; `None` if no run wrote one, or if the last run failed.
    ///
    /// The elements are at the beginning of the memory, in row-major order, without gaps.
    pub fn result(&self) -> Option<&[usize]> {
        self.result.as_deref()
    }

    /// Returns the type of the buffer as messages show it.
    fn ty(&self) -> ValueType {
        let dims = |shape: &Shape| shape.iter().map(|extent| Dim::Known(*extent)).collect();
        ValueType::Tensor { dtype: self.dtype, shape: self.shape.as_ref().map(dims) }
    }

    /// Checks the buffer against the declared type of an output before a run.
    fn check_port(&self, ty: &ValueType) -> Result<(), BufferProblem> {
        let (dtype, dims) = match ty {
            ValueType::Unknown => return self.check_dtype(self.dtype),
            ValueType::Tensor { dtype, shape } => (*dtype, shape.as_deref()),
            // Only the run shows whether the optional contains a tensor.
            ValueType::Optional(of) => return self.check_port(of),
            ValueType::Sequence(_) | ValueType::Map(..) => return Err(BufferProblem::Kind),
        };
        self.check_dtype(dtype)?;
        let Some(dims) = dims else { return Ok(()) };
        if let Some(shape) = &self.shape {
            check_rank(dims.len(), shape.len())?;
            for (axis, (dim, &got)) in dims.iter().zip(shape).enumerate() {
                if let Dim::Known(expected) = *dim {
                    check_extent(axis, expected, got)?;
                }
            }
        }
        let known = |dim: &Dim| if let Dim::Known(extent) = dim { Some(*extent) } else { None };
        match dims.iter().map(known).collect::<Option<Shape>>() {
            Some(shape) => self.check_room(&shape),
            None => Ok(()),
        }
    }

    /// Checks that the buffer can store a result of this type and shape.
    fn check_result(&self, dtype: DataType, shape: &[usize]) -> Result<(), BufferProblem> {
        self.check_dtype(dtype)?;
        if let Some(own) = &self.shape {
            check_rank(shape.len(), own.len())?;
            for (axis, (&expected, &got)) in shape.iter().zip(own).enumerate() {
                check_extent(axis, expected, got)?;
            }
        }
        self.check_room(shape)
    }

    fn check_dtype(&self, expected: DataType) -> Result<(), BufferProblem> {
        match (expected, self.dtype) {
            (DataType::String, _) | (_, DataType::String) => Err(BufferProblem::Text),
            (expected, got) if expected != got => Err(BufferProblem::DataType { expected, got }),
            _ => Ok(()),
        }
    }

    fn check_room(&self, shape: &[usize]) -> Result<(), BufferProblem> {
        let (expected, got) = (size(self.dtype, shape).unwrap_or(usize::MAX), self.bytes.len());
        if expected <= got { Ok(()) } else { Err(BufferProblem::Bytes { expected, got }) }
    }
}

/// Returns the number of bytes of a tensor that is not of strings.
fn size(dtype: DataType, shape: &[usize]) -> Option<usize> {
    let count = shape.iter().try_fold(1usize, |count, &extent| count.checked_mul(extent));
    // An extent of 0 makes the product 0, even if the product of the other extents overflows.
    let count = if shape.contains(&0) { Some(0) } else { count };
    dtype.bytes_for(count?)
}

fn check_rank(expected: usize, got: usize) -> Result<(), BufferProblem> {
    if expected == got { Ok(()) } else { Err(BufferProblem::Rank { expected, got }) }
}

fn check_extent(axis: usize, expected: usize, got: usize) -> Result<(), BufferProblem> {
    if expected == got { Ok(()) } else { Err(BufferProblem::Extent { axis, expected, got }) }
}

/// Copies a host tensor into memory.
///
/// # Errors
///
/// [`bb_ir::Error::ByteLength`] if the memory has the wrong number of bytes.
pub(crate) fn copy_from_host(data: &TensorData, into: &mut [u8]) -> Result<(), Error> {
    if data.byte_len() != into.len() {
        let (dtype, shape, expected) = (data.dtype(), data.shape().into(), data.byte_len());
        return Err(bb_ir::Error::ByteLength { dtype, shape, expected, got: into.len() }.into());
    }
    into.copy_from_slice(data.unaligned_bytes()?);
    Ok(())
}

/// The buffers of a run, in the order of the outputs; `None` for an output that is not requested.
pub(crate) type Buffers<'s, 'b, 'm> = &'s mut [Option<&'b mut ResultBuffer<'m>>];

/// Checks buffers against the declared types of the outputs before a run, and clears earlier results.
///
/// # Errors
///
/// [`Error::OutputCount`] if there are more buffers than outputs; [`Error::Buffer`] for the first buffer that no result
/// can fit.
pub(crate) fn begin(ports: &[Port], buffers: Buffers<'_, '_, '_>) -> Result<(), Error> {
    for buffer in buffers.iter_mut().flatten() {
        (buffer.result, buffer.refused) = (None, None);
    }
    if buffers.len() > ports.len() {
        return Err(Error::OutputCount { expected: ports.len(), got: buffers.len() });
    }
    for (port, buffer) in ports.iter().zip(buffers.iter()) {
        if let Some(buffer) = buffer {
            let problem = buffer.check_port(&port.ty).err();
            if let Some(problem) = problem {
                return Err(Error::Buffer(Box::new(mismatch(port, &port.ty, buffer, problem))));
            }
        }
    }
    Ok(())
}

/// Copies the results of a run into buffers, after checking that all of them fit.
///
/// # Errors
///
/// [`Error::Buffer`] for the first result that does not fit; the backend's own error if it cannot copy a result.
pub(crate) fn fill<B: Backend + ?Sized>(
    on: &B,
    ports: &[Port],
    results: &[B::Tensor],
    buffers: Buffers<'_, '_, '_>,
) -> Result<(), B::Error> {
    for ((port, x), buffer) in ports.iter().zip(results).zip(buffers.iter_mut()) {
        if let Some(buffer) = buffer {
            let dims = || x.shape().iter().map(|extent| Dim::Known(*extent)).collect();
            let ty = || ValueType::Tensor { dtype: x.dtype(), shape: Some(dims()) };
            let fits = buffer.check_result(x.dtype(), x.shape());
            if let Err(problem) = fits {
                let refused = mismatch(port, &ty(), buffer, problem);
                buffer.refused = Some(Box::new(refused.clone()));
                return Err(Error::Buffer(Box::new(refused)).into());
            }
        }
    }
    for (x, buffer) in results.iter().zip(buffers.iter_mut()) {
        if let Some(buffer) = buffer {
            let bytes = size(x.dtype(), x.shape()).and_then(|bytes| buffer.bytes.get_mut(..bytes));
            on.read_into(x, bytes.ok_or_else(|| Error::excluded("room for a result that was checked"))?)?;
        }
    }
    for (x, buffer) in results.iter().zip(buffers) {
        if let Some(buffer) = buffer {
            buffer.result = Some(Shape::from_slice(x.shape()));
        }
    }
    Ok(())
}

#[cold]
fn mismatch(
    port: &Port,
    output: &ValueType,
    buffer: &ResultBuffer<'_>,
    problem: BufferProblem,
) -> BufferMismatch {
    BufferMismatch { name: port.name.clone(), output: output.clone(), buffer: buffer.ty(), problem }
}

/// Returns the error of the buffer that a result did not fit. A backend may have wrapped this error into its own.
pub(crate) fn refused(buffers: Buffers<'_, '_, '_>) -> Option<Error> {
    buffers.iter_mut().flatten().find_map(|buffer| buffer.refused.take()).map(Error::Buffer)
}

/// The maximum number of inputs or outputs that are put in order without a heap allocation.
const FEW: usize = 8;

/// Values in the order of the ports; `None` for a port without a value.
pub(crate) type Ordered<T> = SmallVec<[Option<T>; FEW]>;

/// Puts buffers that are passed by name into the order of the outputs; an output that is not named is `None`.
///
/// # Errors
///
/// [`Error::UnknownOutput`] and [`Error::RepeatedOutput`].
pub(crate) fn by_output<'b, 'm>(
    ports: &[Port],
    buffers: &'b mut [(&str, &mut ResultBuffer<'m>)],
) -> Result<Ordered<&'b mut ResultBuffer<'m>>, Error> {
    let mut ordered: Ordered<&'b mut ResultBuffer<'m>> = ports.iter().map(|_| None).collect();
    for (name, buffer) in buffers {
        let place = ports.iter().zip(&mut ordered).find(|(port, _)| port.name == *name);
        let Some((_, place)) = place else {
            let expected = ports.iter().map(|port| port.name.clone()).collect();
            return Err(Error::UnknownOutput { name: (*name).to_owned(), expected });
        };
        if place.replace(buffer).is_some() {
            return Err(Error::RepeatedOutput { name: (*name).to_owned() });
        }
    }
    Ok(ordered)
}
