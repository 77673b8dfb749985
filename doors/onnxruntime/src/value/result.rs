//! Converts the results of a run to values.

use super::{HeldValue, ValueTensor};
use crate::allocator::own;
use crate::error::CallError;
use crate::status::Result;
use bb::ir::graph::ValueType;
use bb::onnx::OnnxValue;
use bb::{BackendHandle, DataType, TensorData, Value};
use bb_cpu::Cpu;
use std::sync::Arc;

/// Returns a function that converts an error of a run. The backend determines the kind of the error.
pub(crate) fn failed(on: &BackendHandle) -> impl Fn(bb::Error) -> CallError + '_ {
    |source| CallError::Run { kind: on.error_kind(&source), source }
}

/// Converts a result to a value of the type `ty`. Elements of the CPU backend are used without copying.
///
/// # Errors
///
/// The backend's errors; [`CallError::Memory`].
pub(crate) fn of(on: &BackendHandle, result: OnnxValue<Value>, ty: &ValueType) -> Result<Arc<HeldValue>> {
    Ok(Arc::new(match result {
        OnnxValue::Tensor(x) => HeldValue::Tensor(tensor(on, x)?),
        OnnxValue::Sequence(items) => {
            let of_items = match ty {
                ValueType::Sequence(of) => of.as_ref(),
                ValueType::Optional(of) => match of.as_ref() {
                    ValueType::Sequence(of) => of.as_ref(),
                    other => other,
                },
                other => other,
            };
            let items: Vec<_> =
                items.into_iter().map(|item| of(on, item, of_items)).collect::<Result<_>>()?;
            let of = match (of_items, items.first()) {
                (ValueType::Unknown, Some(item)) => item.ty(),
                _ => of_items.clone(),
            };
            HeldValue::Sequence { items, of }
        }
        OnnxValue::Map { keys, values } => HeldValue::Map {
            keys: Arc::new(HeldValue::Tensor(of_host(&keys)?)),
            values: Arc::new(HeldValue::Tensor(tensor(on, values)?)),
        },
        OnnxValue::Absent => HeldValue::Absent(match ty {
            ValueType::Optional(of) => of.as_ref().clone(),
            other => other.clone(),
        }),
    }))
}

fn tensor(on: &BackendHandle, value: Value) -> Result<ValueTensor> {
    if value.dtype() != DataType::String
        && let Some(cpu) = on.typed::<Cpu>()
        && !value.dtype().is_sub_byte()
    {
        let array = cpu.restore(&value).map_err(failed(on))?;
        // Releases the value's reference to the array, so that the array may be its sole owner.
        drop(value);
        return match array.into_sole() {
            Ok(elements) => Ok(ValueTensor::of_backend(elements)),
            Err(array) => of_host(&on.to_host(&cpu.erase(array)).map_err(failed(on))?),
        };
    }
    of_host(&on.to_host(&value).map_err(failed(on))?)
}

/// Copies a host tensor into a new tensor.
fn of_host(data: &TensorData) -> Result<ValueTensor> {
    if data.dtype() == DataType::String {
        return Ok(ValueTensor::of_strings(data));
    }
    // SAFETY: the allocator of this library lives as long as the process.
    let tensor = unsafe { ValueTensor::allocated(data.dtype(), data.shape().to_vec(), own()) }?;
    tensor.fill(data)?;
    Ok(tensor)
}
