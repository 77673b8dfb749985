//! Tensors whose memory belongs to the program, an allocator, or the CPU backend.

use crate::allocator::{Allocator, OrtAllocator};
use crate::error::CallError;
use crate::status::Result;
use bb::{DataType, TensorData};
use bb_core::ir::{StringsBuilder, element_count};
use bb_cpu::SoleElements;
use bb_ort_plugin::lending::Lending;
use bytes::Bytes;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The maximum size in bytes of operands that are copied. A copy of few bytes is cheaper than lending them, and plans may keep small
/// operands.
const SMALL: usize = 4096;

/// Whether a run copies or borrows the elements of an operand.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OperandElements<'a> {
    /// The elements are copied.
    Copied,
    /// The elements are borrowed.
    Lent(&'a Lending),
}

/// The owner of the elements of a tensor.
#[derive(Debug)]
enum Owner {
    /// The program.
    Program,
    /// An allocator. The program keeps it alive until the tensor is dropped.
    Allocator(*mut OrtAllocator),
    /// The CPU backend.
    Backend { _elements: SoleElements },
}

/// The elements of a tensor.
#[derive(Debug)]
enum Memory {
    /// Elements of a fixed size.
    Elements { first: *mut u8, length: usize, owner: Owner },
    /// Strings. A program may write their bytes directly.
    Strings(Mutex<Vec<Vec<u8>>>),
}

/// A tensor. As in ONNX Runtime, a program must not write elements while a call in another thread reads them.
#[derive(Debug)]
pub(crate) struct ValueTensor {
    dtype: DataType,
    shape: Vec<usize>,
    /// The shape in ONNX Runtime's type.
    extents: Vec<i64>,
    memory: Memory,
}

// SAFETY: the elements belong to the tensor or live as long as it. A thread that writes them ensures that no other code uses them at the
// same time.
unsafe impl Send for ValueTensor {}
// SAFETY: as above.
unsafe impl Sync for ValueTensor {}

impl Drop for ValueTensor {
    fn drop(&mut self) {
        if let Memory::Elements { first, owner: Owner::Allocator(allocator), .. } = &self.memory {
            // SAFETY: the header requires that the allocator lives until its blocks are freed, and the elements are one of its blocks.
            unsafe {
                if let Ok(allocator) = Allocator::of(*allocator) {
                    allocator.free(first.cast());
                }
            }
        }
    }
}

impl ValueTensor {
    fn new(dtype: DataType, shape: Vec<usize>, memory: Memory) -> ValueTensor {
        let extents = shape.iter().map(|&extent| i64::try_from(extent).unwrap_or(i64::MAX)).collect();
        ValueTensor { dtype, shape, extents, memory }
    }

    /// Computes the size of the elements in bytes.
    ///
    /// # Errors
    ///
    /// [`bb::ir::Error::TooLarge`].
    pub(crate) fn size(dtype: DataType, shape: &[usize]) -> Result<usize> {
        let size = element_count(shape).and_then(|count| dtype.bytes_for(count));
        let too_large =
            || bb::ir::Error::TooLarge { dtype, shape: shape.into(), limit: usize::MAX, name: None };
        Ok(size.ok_or_else(too_large)?)
    }

    /// Creates a tensor of empty strings.
    ///
    /// # Errors
    ///
    /// [`bb::ir::Error::TooLarge`].
    pub(crate) fn empty_strings(shape: Vec<usize>) -> Result<ValueTensor> {
        // Checks the size of a tensor of numbers with this shape: if that is too large, the strings are too large, because a string takes
        // more memory.
        let count = ValueTensor::size(DataType::U64, &shape)? / 8;
        Ok(ValueTensor::new(DataType::String, shape, Memory::Strings(Mutex::new(vec![Vec::new(); count]))))
    }

    /// Creates a tensor of strings.
    pub(crate) fn of_strings(data: &TensorData) -> ValueTensor {
        let texts = data.iter_bytes().map(<[u8]>::to_vec).collect();
        ValueTensor::new(DataType::String, data.shape().to_vec(), Memory::Strings(Mutex::new(texts)))
    }

    /// Creates a tensor whose memory comes from an allocator. The elements are set to 0.
    ///
    /// # Errors
    ///
    /// [`bb::ir::Error::TooLarge`]; [`CallError::Memory`].
    ///
    /// # Safety
    ///
    /// The allocator belongs to this library or to the program, and lives as long as the tensor.
    pub(crate) unsafe fn allocated(
        dtype: DataType,
        shape: Vec<usize>,
        allocator: *mut OrtAllocator,
    ) -> Result<ValueTensor> {
        let length = ValueTensor::size(dtype, &shape)?;
        let (mut first, mut owner) = (std::ptr::without_provenance_mut::<u8>(64), Owner::Program);
        if length > 0 {
            // SAFETY: the caller upholds the safety contract of this function.
            let block = unsafe { Allocator::of(allocator) }?.block(length)?;
            // SAFETY: the block has `length` bytes.
            unsafe { block.write_bytes(0, length) };
            (first, owner) = (block.as_ptr(), Owner::Allocator(allocator));
        }
        Ok(ValueTensor::new(dtype, shape, Memory::Elements { first, length, owner }))
    }

    /// Creates a tensor over memory of the program. If an allocator is passed, the allocator frees the memory when the tensor is dropped.
    ///
    /// # Errors
    ///
    /// [`CallError::Room`] if the memory is too small, [`CallError::Null`], and [`CallError::Kind`] for strings.
    ///
    /// # Safety
    ///
    /// The memory has `room` bytes and lives at least as long as the tensor, and so does the allocator.
    pub(crate) unsafe fn over(
        dtype: DataType,
        shape: Vec<usize>,
        memory: *mut u8,
        room: usize,
        allocator: Option<*mut OrtAllocator>,
    ) -> Result<ValueTensor> {
        if dtype == DataType::String {
            return Err(CallError::Kind { expected: "an element type of a size", got: "strings" });
        }
        let length = ValueTensor::size(dtype, &shape)?;
        if length > room {
            return Err(CallError::Room { what: "a tensor", needed: length, got: room });
        }
        if memory.is_null() && length > 0 {
            return Err(CallError::Null { what: "the memory of a tensor" });
        }
        let first = if memory.is_null() { std::ptr::without_provenance_mut(64) } else { memory };
        let owner = allocator.filter(|_| !memory.is_null()).map_or(Owner::Program, Owner::Allocator);
        Ok(ValueTensor::new(dtype, shape, Memory::Elements { first, length, owner }))
    }

    /// Creates a tensor that owns elements of the CPU backend.
    pub(crate) fn of_backend(mut elements: SoleElements) -> ValueTensor {
        let (dtype, shape) = (elements.dtype(), elements.shape().to_vec());
        let (first, length) = (elements.as_mut_ptr(), elements.byte_len());
        let owner = Owner::Backend { _elements: elements };
        ValueTensor::new(dtype, shape, Memory::Elements { first, length, owner })
    }

    /// Returns the element type.
    pub(crate) fn dtype(&self) -> DataType {
        self.dtype
    }

    /// Returns the shape, outermost extent first.
    pub(crate) fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the shape in ONNX Runtime's type.
    pub(crate) fn extents(&self) -> &[i64] {
        &self.extents
    }

    /// Returns a pointer to the first byte of the elements, and the number of bytes.
    ///
    /// # Errors
    ///
    /// [`CallError::Kind`] for strings.
    pub(crate) fn memory(&self) -> Result<(*mut u8, usize)> {
        match &self.memory {
            Memory::Elements { first, length, .. } => Ok((*first, *length)),
            Memory::Strings(_) => {
                Err(CallError::Kind { expected: "elements of a size", got: "a tensor of strings" })
            }
        }
    }

    /// Returns the strings.
    ///
    /// # Errors
    ///
    /// [`CallError::Kind`] for other elements.
    pub(crate) fn strings(&self) -> Result<MutexGuard<'_, Vec<Vec<u8>>>> {
        match &self.memory {
            Memory::Strings(texts) => Ok(texts.lock().unwrap_or_else(PoisonError::into_inner)),
            Memory::Elements { .. } => {
                Err(CallError::Kind { expected: "a tensor of strings", got: "other elements" })
            }
        }
    }

    /// Converts the tensor to a host tensor of bb.
    ///
    /// # Errors
    ///
    /// [`bb::ir::Error::BoolByte`] for a boolean other than 0 and 1.
    pub(crate) fn data(&self, elements: OperandElements<'_>) -> Result<TensorData> {
        let (first, length) = match &self.memory {
            Memory::Elements { first, length, .. } => (*first, *length),
            Memory::Strings(_) => return self.texts(),
        };
        let bytes = match elements {
            // SAFETY: the elements live as long as the tensor, which the caller keeps until `lending` ends.
            OperandElements::Lent(lending) if length > SMALL => unsafe { lending.lend(first, length) },
            // SAFETY: the tensor has `length` bytes, or none and a pointer that is not null.
            _ => Bytes::copy_from_slice(unsafe { std::slice::from_raw_parts(first, length) }),
        };
        Ok(TensorData::adopt(self.dtype, &self.shape, bytes)?)
    }

    /// Converts the tensor to a host tensor of bb, with copied elements.
    ///
    /// # Errors
    ///
    /// As [`data`](Self::data).
    pub(crate) fn copied(&self) -> Result<TensorData> {
        self.data(OperandElements::Copied)
    }

    fn texts(&self) -> Result<TensorData> {
        let texts = self.strings()?;
        let mut made = StringsBuilder::with_room("a tensor of strings", texts.len())?;
        texts.iter().try_for_each(|text| made.push(text))?;
        Ok(made.finish(&self.shape)?)
    }

    /// Copies the elements of a host tensor with the same element type and shape into this tensor.
    ///
    /// # Errors
    ///
    /// An error of reading the host tensor's elements.
    pub(crate) fn fill(&self, data: &TensorData) -> Result<()> {
        match &self.memory {
            Memory::Strings(texts) => {
                let mut texts = texts.lock().unwrap_or_else(PoisonError::into_inner);
                *texts = data.iter_bytes().map(<[u8]>::to_vec).collect();
            }
            Memory::Elements { first, length, .. } => {
                let bytes = data.unaligned_bytes()?;
                // SAFETY: both buffers have at least this length. `copy` allows overlap, because an operand of the run may use the same
                // memory.
                unsafe { std::ptr::copy(bytes.as_ptr(), *first, bytes.len().min(*length)) };
            }
        }
        Ok(())
    }

    /// Returns whether two tensors use the same memory.
    pub(crate) fn overlaps(&self, other: &ValueTensor) -> bool {
        let (Ok((own, length)), Ok((other, other_length))) = (self.memory(), other.memory()) else {
            return std::ptr::eq(self, other);
        };
        own.addr() < other.addr().saturating_add(other_length)
            && other.addr() < own.addr().saturating_add(length)
    }
}
