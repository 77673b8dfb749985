//! The owner of a `DLManagedTensor`.

use crate::raw::{HOST, from_dlpack, to_dlpack};
use crate::{DLDevice, DLManagedTensor, DLTensor, DlpackError};
use bb_ir::{DataType, TensorData};
use bytes::Bytes;
use std::ffi::c_void;
use std::ptr::NonNull;

/// A DLPack tensor, which is released on drop.
#[derive(Debug)]
pub struct Managed(NonNull<DLManagedTensor>);

// SAFETY: the caller that passed the pointer guaranteed that any thread may read and release the tensor; a tensor that
// this crate created owns its memory, and only reads it.
unsafe impl Send for Managed {}
// SAFETY: shared references only read.
unsafe impl Sync for Managed {}

/// The owner of an exported tensor. DLPack's structure is its first field, so a pointer to that field is also a pointer to the
/// owner.
#[repr(C)]
struct Exported {
    managed: DLManagedTensor,
    shape: Vec<i64>,
    strides: Vec<i64>,
    data: TensorData,
}

/// Releases a structure that [`Managed::new`] created.
///
/// # Safety
///
/// The pointer is from [`Managed::new`], and no code uses it afterwards.
unsafe extern "C" fn release(managed: *mut DLManagedTensor) {
    // SAFETY: the pointer is that of an `Exported` in a box, because `managed` is its first field.
    drop(unsafe { Box::from_raw(managed.cast::<Exported>()) });
}

/// The checked contents of a DLPack structure.
struct View {
    dtype: DataType,
    shape: Vec<usize>,
    /// The strides in bytes.
    strides: Vec<isize>,
    /// A pointer to the first element; not null if there are elements.
    first: *const u8,
    /// The number of elements.
    count: usize,
    /// The size of an element in bytes.
    size: usize,
}

impl Managed {
    /// Creates a tensor for another library. It shares the elements.
    ///
    /// # Errors
    ///
    /// [`DlpackError::Export`] for strings and for element types of less than 8 bits; [`DlpackError::TooLarge`];
    /// [`DlpackError::Elements`] if the elements are damaged.
    pub fn new(data: &TensorData) -> Result<Managed, DlpackError> {
        let dtype = to_dlpack(data.dtype()).ok_or(DlpackError::Export(data.dtype()))?;
        let elements = data.bytes()?;
        let number = |extent: &usize| i64::try_from(*extent).map_err(|_| DlpackError::TooLarge);
        let shape: Vec<i64> = data.shape().iter().map(number).collect::<Result<_, _>>()?;
        let ndim = i32::try_from(shape.len()).map_err(|_| DlpackError::TooLarge)?;
        let mut strides = vec![1i64; shape.len()];
        for axis in (1..shape.len()).rev() {
            let step = |axis: usize| Some(strides.get(axis)?.saturating_mul((*shape.get(axis)?).max(1)));
            let step = step(axis).ok_or(DlpackError::TooLarge)?;
            if let Some(before) = strides.get_mut(axis - 1) {
                *before = step;
            }
        }
        let tensor = DLTensor {
            // The pointer is mutable only because DLPack requires it. The receiver of an export promises not to write.
            data: elements.as_ptr().cast_mut().cast::<c_void>(),
            device: DLDevice { device_type: HOST, device_id: 0 },
            ndim,
            dtype,
            shape: std::ptr::null_mut(),
            strides: std::ptr::null_mut(),
            byte_offset: 0,
        };
        let managed =
            DLManagedTensor { dl_tensor: tensor, manager_ctx: std::ptr::null_mut(), deleter: Some(release) };
        let mut exported = Box::new(Exported { managed, shape, strides, data: data.clone() });
        exported.managed.dl_tensor.shape = exported.shape.as_mut_ptr();
        exported.managed.dl_tensor.strides = exported.strides.as_mut_ptr();
        Ok(Managed(NonNull::from(Box::leak(exported)).cast()))
    }

    /// Takes ownership of a tensor from another library.
    ///
    /// # Errors
    ///
    /// [`DlpackError::Null`].
    ///
    /// # Safety
    ///
    /// The pointer is null or points to a valid structure that no other code releases. Its `shape` has `ndim` numbers, its `strides`
    /// are null or also have `ndim` numbers, and its memory contains all elements that they describe. Until the tensor is released,
    /// no code writes to any of this. Any thread may read it and call the deleter.
    pub unsafe fn from_raw(tensor: *mut DLManagedTensor) -> Result<Managed, DlpackError> {
        NonNull::new(tensor).map(Managed).ok_or(DlpackError::Null("the structure"))
    }

    /// Passes ownership to the receiver of the pointer, which must call the deleter once.
    pub fn into_raw(self) -> *mut DLManagedTensor {
        let pointer = self.0.as_ptr();
        std::mem::forget(self);
        pointer
    }

    /// Converts the structure to a host tensor. If the elements are contiguous in row-major order, the tensor shares them, and the
    /// structure is released when the last user of the elements is dropped. Otherwise, the elements are copied, and the structure is
    /// released before this returns.
    ///
    /// # Errors
    ///
    /// The first problem that is found. The structure is released in this case, too.
    pub fn into_tensor(self) -> Result<TensorData, DlpackError> {
        let view = self.view()?;
        let View { dtype, ref shape, count, size, .. } = view;
        let length = count.checked_mul(size).ok_or(DlpackError::TooLarge)?;
        let bytes = if length == 0 {
            Bytes::new()
        } else if view.is_dense() {
            Bytes::from_owner(Owner { first: view.first, length, _managed: self })
        } else {
            Bytes::from(view.copied(length)?)
        };
        Ok(TensorData::adopt(dtype, shape, bytes)?)
    }

    /// Checks the contents of the structure.
    fn view(&self) -> Result<View, DlpackError> {
        // SAFETY: `from_raw` and `new` make sure that the structure is valid until it is released.
        let tensor = unsafe { &self.0.as_ref().dl_tensor };
        if tensor.device.device_type != HOST {
            return Err(DlpackError::Device(tensor.device.device_type));
        }
        let dtype = from_dlpack(tensor.dtype).ok_or(DlpackError::Type(tensor.dtype))?;
        let rank = usize::try_from(tensor.ndim).map_err(|_| DlpackError::Rank(tensor.ndim))?;
        if rank > 0 && tensor.shape.is_null() {
            return Err(DlpackError::Null("the shape"));
        }
        let numbers = |pointer: *mut i64| match rank {
            0 => &[],
            // SAFETY: the pointer is not null here, and then it has `ndim` numbers.
            _ => unsafe { std::slice::from_raw_parts(pointer, rank) },
        };
        let extent = |(axis, &extent): (usize, &i64)| {
            usize::try_from(extent).map_err(|_| DlpackError::Extent { axis, extent })
        };
        let shape: Vec<usize> =
            numbers(tensor.shape).iter().enumerate().map(extent).collect::<Result<_, _>>()?;
        let count = bb_ir::element_count(&shape).ok_or(DlpackError::TooLarge)?;
        let size = dtype.bits() / 8;
        count.checked_mul(size).filter(|&b| b <= isize::MAX as usize).ok_or(DlpackError::TooLarge)?;
        let strides = if tensor.strides.is_null() {
            row_major(&shape, size)
        } else {
            let bytes = |&stride: &i64| {
                let stride = isize::try_from(stride).ok()?;
                stride.checked_mul(size.cast_signed())
            };
            let strides: Option<Vec<isize>> = numbers(tensor.strides).iter().map(bytes).collect();
            strides.ok_or(DlpackError::TooLarge)?
        };
        let offset = usize::try_from(tensor.byte_offset).map_err(|_| DlpackError::TooLarge)?;
        if count > 0 {
            if tensor.data.is_null() {
                return Err(DlpackError::Null("the elements"));
            }
            // Check that the offsets of all elements fit `isize`.
            let far = |reach: isize, (&stride, &extent): (&isize, &usize)| {
                reach.checked_add(stride.checked_abs()?.checked_mul(isize::try_from(extent - 1).ok()?)?)
            };
            strides.iter().zip(&shape).try_fold(0isize, far).ok_or(DlpackError::TooLarge)?;
            isize::try_from(offset).map_err(|_| DlpackError::TooLarge)?;
        }
        Ok(View { dtype, shape, strides, first: tensor.data.cast::<u8>().wrapping_add(offset), count, size })
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        // SAFETY: the structure is valid, and this is its only owner.
        let deleter = unsafe { self.0.as_ref() }.deleter;
        if let Some(deleter) = deleter {
            // SAFETY: the deleter is called once, because `into_raw` forgets the owner.
            unsafe { deleter(self.0.as_ptr()) }
        }
    }
}

/// Elements in row-major order, and the tensor that owns their memory.
struct Owner {
    first: *const u8,
    length: usize,
    _managed: Managed,
}

// SAFETY: the pointer is into the memory of the tensor, which any thread may read.
unsafe impl Send for Owner {}

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the memory has this number of bytes from there, because the elements are in row-major order without gaps; no code
        // writes to it while the tensor is alive.
        unsafe { std::slice::from_raw_parts(self.first, self.length) }
    }
}

/// Returns the row-major strides in bytes.
fn row_major(shape: &[usize], size: usize) -> Vec<isize> {
    let mut step = size.cast_signed();
    let mut strides: Vec<isize> = shape
        .iter()
        .rev()
        .map(|&extent| {
            let stride = step;
            step = step.saturating_mul(extent.max(1).cast_signed());
            stride
        })
        .collect();
    strides.reverse();
    strides
}

impl View {
    fn is_dense(&self) -> bool {
        let dense = row_major(&self.shape, self.size);
        // The stride of a dimension with extent 1 does not matter.
        self.strides.iter().zip(&dense).zip(&self.shape).all(|((a, b), &extent)| extent == 1 || a == b)
    }

    /// Copies the elements in row-major order. There must be at least one element.
    ///
    /// # Errors
    ///
    /// [`DlpackError::Elements`] if there is no memory for the copy. It can exceed the original memory, because a stride of 0
    /// repeats elements.
    fn copied(&self, length: usize) -> Result<Vec<u8>, DlpackError> {
        let mut bytes: Vec<u8> = bb_ir::memory::room("dlpack", length)?;
        let mut index = vec![0usize; self.shape.len()];
        let mut place = 0isize;
        for _ in 0..self.count {
            // SAFETY: `index` is within the shape, so the memory has this element. The distance fits, as `view` checked.
            let element = unsafe { std::slice::from_raw_parts(self.first.wrapping_offset(place), self.size) };
            bytes.extend_from_slice(element);
            for ((at, &extent), &stride) in index.iter_mut().zip(&self.shape).zip(&self.strides).rev() {
                *at += 1;
                place = place.wrapping_add(stride);
                if *at < extent {
                    break;
                }
                place = place.wrapping_sub(stride.wrapping_mul(extent.cast_signed()));
                *at = 0;
            }
        }
        Ok(bytes)
    }
}
