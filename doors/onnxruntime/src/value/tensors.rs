//! The functions for tensors in general.
#![expect(non_snake_case, reason = "the names of ONNX Runtime")]

use super::{HeldValue, OrtValue, ValueTensor};
use crate::allocator::{Allocator, OrtAllocator};
use crate::arguments::{OutPlace, list, object, shape};
use crate::elements::{number, of_number};
use crate::environment::OrtEnv;
use crate::error::CallError;
use crate::memory::OrtMemoryInfo;
use crate::status::{Result, functions};
use crate::types::OrtTensorTypeAndShapeInfo;
use bb::DataType;
use bb_core::ir::element_count;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// Returns the tensor of a value.
///
/// # Safety
///
/// As [`object`].
pub(super) unsafe fn tensor<'a>(value: *const OrtValue) -> Result<&'a ValueTensor> {
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { object(value, "a value") }?.held.tensor()
}

fn give(out: &OutPlace<*mut OrtValue>, tensor: ValueTensor) {
    out.give(OrtValue { held: Arc::new(HeldValue::Tensor(tensor)) });
}

functions! {
    /// Creates a tensor whose memory comes from an allocator.
    CreateTensorAsOrtValue(
        allocator: *mut OrtAllocator, extents: *const i64, rank: usize, element: c_int, out: *mut *mut OrtValue,
    ) {
        Allocator::of(allocator)?;
        let (dtype, shape, out) = (of_number(element)?, shape(extents, rank)?, OutPlace::at(out, "a place for a value")?);
        let tensor = match dtype {
            DataType::String => ValueTensor::empty_strings(shape)?,
            _ => ValueTensor::allocated(dtype, shape, allocator)?,
        };
        give(&out, tensor);
        Ok(())
    }

    /// Creates a tensor over memory of the program.
    CreateTensorWithDataAsOrtValue(
        info: *const OrtMemoryInfo, memory: *mut c_void, room: usize, extents: *const i64, rank: usize, element: c_int,
        out: *mut *mut OrtValue,
    ) {
        object(info, "a kind of memory")?.check_host()?;
        let (dtype, shape, out) = (of_number(element)?, shape(extents, rank)?, OutPlace::at(out, "a place for a value")?);
        give(&out, ValueTensor::over(dtype, shape, memory.cast(), room, None)?);
        Ok(())
    }

    /// Creates a tensor over memory that the allocator frees when the tensor is released.
    CreateTensorWithDataAndDeleterAsOrtValue(
        allocator: *mut OrtAllocator, memory: *mut c_void, room: usize, extents: *const i64, rank: usize, element: c_int,
        out: *mut *mut OrtValue,
    ) {
        Allocator::of(allocator)?;
        let (dtype, shape, out) = (of_number(element)?, shape(extents, rank)?, OutPlace::at(out, "a place for a value")?);
        give(&out, ValueTensor::over(dtype, shape, memory.cast(), room, Some(allocator))?);
        Ok(())
    }

    /// Returns a pointer to the elements, which a program may modify.
    GetTensorMutableData(value: *mut OrtValue, out: *mut *mut c_void) {
        let (first, _) = tensor(value)?.memory()?;
        OutPlace::at(out, "a place for a pointer")?.put(first.cast());
        Ok(())
    }

    /// Returns a pointer to the elements.
    GetTensorData(value: *const OrtValue, out: *mut *const c_void) {
        let (first, _) = tensor(value)?.memory()?;
        OutPlace::at(out, "a place for a pointer")?.put(first.cast_const().cast());
        Ok(())
    }

    /// Returns a pointer to one element.
    TensorAt(value: *mut OrtValue, at: *const i64, rank: usize, out: *mut *mut c_void) {
        let (tensor, at) = (tensor(value)?, list(at, rank, "indices")?);
        let (first, _) = tensor.memory()?;
        let extents = tensor.shape();
        if at.len() != extents.len() {
            return Err(CallError::Count { what: "indices", expected: extents.len(), got: at.len() });
        }
        let bytes = tensor.dtype().bits() / 8;
        if bytes == 0 {
            return Err(CallError::Kind { expected: "elements of whole bytes", got: "smaller ones" });
        }
        let mut place = 0;
        for (&index, &count) in at.iter().zip(extents) {
            let negative = |_| CallError::Number { expected: "an index that is not negative", got: index };
            let index = usize::try_from(index).map_err(negative)?;
            if index >= count {
                return Err(CallError::Index { what: "elements", index, count });
            }
            place = place * count + index;
        }
        OutPlace::at(out, "a place for a pointer")?.put(first.add(place * bytes).cast());
        Ok(())
    }

    /// Returns the size of the elements in bytes.
    GetTensorSizeInBytes(value: *const OrtValue, out: *mut usize) {
        let (_, length) = tensor(value)?.memory()?;
        OutPlace::at(out, "a place for a size")?.put(length);
        Ok(())
    }

    /// Returns the element type and the shape.
    GetTensorTypeAndShape(value: *const OrtValue, out: *mut *mut OrtTensorTypeAndShapeInfo) {
        let (tensor, out) = (tensor(value)?, OutPlace::at(out, "a place for a type")?);
        out.give(OrtTensorTypeAndShapeInfo::of(number(tensor.dtype())?, tensor.extents().to_vec()));
        Ok(())
    }

    /// Returns the element type and the shape. The shape lives as long as the value.
    GetTensorElementTypeAndShapeDataReference(
        value: *const OrtValue, element: *mut c_int, extents: *mut *const i64, rank: *mut usize,
    ) {
        let tensor = tensor(value)?;
        let (element, extents) = (OutPlace::at(element, "a place for a type")?, OutPlace::at(extents, "a place for extents")?);
        OutPlace::at(rank, "a place for a rank")?.put(tensor.extents().len());
        element.put(number(tensor.dtype())?);
        extents.put(tensor.extents().as_ptr());
        Ok(())
    }

    /// Returns the memory type of the elements.
    GetTensorMemoryInfo(value: *const OrtValue, out: *mut *const OrtMemoryInfo) {
        tensor(value)?;
        OutPlace::at(out, "a place for a kind of memory")?.put(OrtMemoryInfo::host());
        Ok(())
    }

    /// Copies the elements of tensors to other tensors of the same element types and sizes.
    CopyTensors(
        env: *mut OrtEnv, from: *const *const OrtValue, to: *const *mut OrtValue, _stream: *mut c_void, count: usize,
    ) {
        object(env, "an environment")?;
        for (from, to) in list(from, count, "values")?.iter().zip(list(to, count, "values")?) {
            let (from, to) = (tensor(*from)?, tensor(*to)?);
            if from.dtype() != to.dtype() {
                return Err(CallError::Kind { expected: "the same element type", got: to.dtype().name() });
            }
            let count = |tensor: &ValueTensor| element_count(tensor.shape()).unwrap_or(usize::MAX);
            if count(to) != count(from) {
                return Err(CallError::Count { what: "elements", expected: count(from), got: count(to) });
            }
            to.fill(&from.copied()?)?;
        }
        Ok(())
    }
}
