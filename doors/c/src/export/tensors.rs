//! The backend's tensors, which the host accesses through pointers.

use crate::abi::{Data, Failure, Items, Raw, RawTensor, Slot, Status};
use crate::failure::{Failed, guarded};
use bb_core::ext::{ErasedError, ErasedTensor};
use bb_core::{Backend, DataType, Erased, ErrorKind, Tensor, TensorData};
use smallvec::SmallVec;

/// A list of operands. An absent operand is `None`.
pub(super) type Operands<'a> = SmallVec<[Option<&'a ErasedTensor>; 4]>;

/// Converts an error of the backend to a failure. If the error wraps an error of `bb`, the failure has the kind of that error.
pub(super) fn failed(error: &ErasedError) -> Failed {
    let kind = <Erased as Backend>::wrapped(error).map_or(ErrorKind::Device, bb_core::Error::kind);
    Failed::caused(kind, error)
}

/// Returns the tensor behind a pointer.
///
/// # Safety
///
/// [`give`] created the pointer, and it was not released.
pub(super) unsafe fn operand<'a>(x: *const RawTensor) -> Option<&'a ErasedTensor> {
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { x.cast::<ErasedTensor>().as_ref() }
}

/// Moves a result to its slot. The shape in the slot points into the tensor, which stays at its address until it is released.
pub(super) fn give(x: ErasedTensor, into: &mut Slot) {
    let tensor = Box::new(x);
    into.dtype = tensor.dtype().to_onnx();
    into.rank = tensor.shape().len();
    into.shape = tensor.shape().as_ptr();
    into.tensor = Box::into_raw(tensor).cast();
}

/// Returns the element type with ONNX's number, or a failure.
pub(super) fn dtype(number: i32) -> Result<DataType, Failed> {
    let unknown = || Failed::new(ErrorKind::WrongInput, format!("{number} is no element type"));
    DataType::from_onnx(number).ok_or_else(unknown)
}

/// Copies a host tensor that is borrowed from the host.
///
/// # Safety
///
/// The pointers of `data` fulfil the documentation of the structure.
///
/// # Errors
///
/// If the number is not an element type, or if the bytes are not elements of the type.
pub unsafe fn host(data: &Data) -> Result<TensorData, Failed> {
    let wrong = |e: bb_ir::Error| Failed::of(&e.into());
    let dtype = dtype(data.dtype)?;
    for (field, is_null, declared, count) in [
        ("shape", data.shape.is_null(), "`rank`", data.rank),
        ("bytes", data.bytes.is_null(), "`length` in bytes", data.length),
    ] {
        if is_null && count > 0 {
            let text = format!("`{field}` is null, but the {declared} is {count}");
            return Err(Failed::new(ErrorKind::WrongInput, text));
        }
    }
    // SAFETY: the caller upholds the safety contract of this function.
    let (shape, bytes) = unsafe {
        (
            Items { items: data.shape, count: data.rank }.slice(),
            Items { items: data.bytes, count: data.length }.slice(),
        )
    };
    let mut copy = bb_ir::memory::room("constant", bytes.len()).map_err(wrong)?;
    copy.extend_from_slice(bytes);
    TensorData::adopt(dtype, shape, bytes::Bytes::from(copy)).map_err(wrong)
}

/// `bb_library.to_host`.
pub(super) unsafe extern "C" fn to_host(
    backend: *mut Raw,
    x: *const RawTensor,
    bytes: *mut u8,
    capacity: usize,
    length: *mut usize,
    error: *mut Failure,
) -> Status {
    let body = || {
        // SAFETY: `open` created the backend, and `give` the tensor.
        let (opened, x) = unsafe { (super::opened(backend)?, operand(x)) };
        let x = x.ok_or_else(|| Failed::new(ErrorKind::WrongInput, "expected a tensor, got null"))?;
        let host = opened.erased.to_host(x).map_err(|e| failed(&e))?;
        let from = host.unaligned_bytes().map_err(|e| Failed::of(&e.into()))?;
        // SAFETY: the host lends both places for the call, and `bytes` holds `capacity` bytes.
        unsafe {
            length.write(from.len());
            if from.len() <= capacity {
                std::ptr::copy_nonoverlapping(from.as_ptr(), bytes, from.len());
            }
        }
        Ok(())
    };
    // SAFETY: the host lends `error` for the call.
    unsafe { guarded(error, body) }
}

/// `bb_library.release`.
pub(super) unsafe extern "C" fn release(_backend: *mut Raw, x: *mut RawTensor) {
    // SAFETY: `give` created the pointer, and the host releases it once. A panic while it is dropped must not leave the library.
    drop(bb_core::runtime::catch(|| unsafe { drop(Box::from_raw(x.cast::<ErasedTensor>())) }));
}
