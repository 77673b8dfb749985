//! The functions for values of any kind, and for sequences and maps.
#![expect(non_snake_case, reason = "the names of ONNX Runtime")]

use super::{HeldValue, OrtValue};
use crate::allocator::OrtAllocator;
use crate::arguments::{OutPlace, list, object};
use crate::error::CallError;
use crate::release::releases;
use crate::status::{Result, functions};
use crate::types::{OrtTypeInfo, kinds};
use bb::DataType;
use bb::ir::graph::ValueType;
use std::ffi::c_int;
use std::sync::Arc;

/// Returns a value.
///
/// # Safety
///
/// As [`object`].
unsafe fn held<'a>(value: *const OrtValue) -> Result<&'a Arc<HeldValue>> {
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { object(value, "a value") }.map(|value| &value.held)
}

/// Returns the parts of a value: the items of a sequence, or the keys and the values of a map.
fn parts(value: &HeldValue) -> Result<Vec<&Arc<HeldValue>>> {
    match value {
        HeldValue::Sequence { items, .. } => Ok(items.iter().collect()),
        HeldValue::Map { keys, values } => Ok(vec![keys, values]),
        other => Err(CallError::Kind { expected: "a sequence or a map", got: other.kind() }),
    }
}

/// Creates a sequence. All items must have the same type.
fn sequence(items: Vec<Arc<HeldValue>>) -> Result<HeldValue> {
    let kind = |ty: &ValueType| match ty {
        ValueType::Tensor { dtype, .. } => Some(ValueType::Tensor { dtype: *dtype, shape: None }),
        ValueType::Map(key, of) => Some(ValueType::Map(*key, of.clone())),
        _ => None,
    };
    let mut of: Option<ValueType> = None;
    for item in &items {
        let ty = item.ty();
        let found = kind(&ty);
        match (&of, found) {
            (_, None) => return Err(CallError::Kind { expected: "tensors or maps", got: item.kind() }),
            (None, Some(found)) => of = Some(found),
            (Some(ValueType::Map(key, _)), Some(ValueType::Map(other, _))) if *key == other => {}
            (Some(known), Some(found)) if *known == found => {}
            _ => return Err(CallError::Kind { expected: "values of one type", got: "values of several" }),
        }
    }
    let of = of.ok_or(CallError::Count { what: "values at least", expected: 1, got: 0 })?;
    Ok(HeldValue::Sequence { items, of })
}

/// Creates a map from a tensor of keys and a tensor of values.
fn map(items: &[Arc<HeldValue>]) -> Result<HeldValue> {
    let [keys, values] = items else {
        return Err(CallError::Count {
            what: "values, the keys and the values",
            expected: 2,
            got: items.len(),
        });
    };
    let (first, second) = (keys.tensor()?, values.tensor()?);
    if !matches!(first.dtype(), DataType::I64 | DataType::String) {
        return Err(CallError::Kind { expected: "keys of i64 or string", got: first.dtype().name() });
    }
    let ([count], [other]) = (first.shape(), second.shape()) else {
        return Err(CallError::Kind { expected: "keys and values of rank 1", got: "another rank" });
    };
    if count != other {
        return Err(CallError::Count { what: "values", expected: *count, got: *other });
    }
    Ok(HeldValue::Map { keys: keys.clone(), values: values.clone() })
}

functions! {
    /// Returns whether a value is a tensor.
    IsTensor(value: *const OrtValue, out: *mut c_int) {
        let is = matches!(**held(value)?, HeldValue::Tensor(_));
        OutPlace::at(out, "a place for the answer")?.put(c_int::from(is));
        Ok(())
    }

    /// Returns 0, because bb has no sparse tensors.
    IsSparseTensor(value: *const OrtValue, out: *mut c_int) {
        held(value)?;
        OutPlace::at(out, "a place for the answer")?.put(0);
        Ok(())
    }

    /// Returns whether a value has content. Only an optional may have none.
    HasValue(value: *const OrtValue, out: *mut c_int) {
        let has = !matches!(**held(value)?, HeldValue::Absent(_));
        OutPlace::at(out, "a place for the answer")?.put(c_int::from(has));
        Ok(())
    }

    /// Returns the type of a value.
    GetTypeInfo(value: *const OrtValue, out: *mut *mut OrtTypeInfo) {
        let (value, out) = (held(value)?, OutPlace::at(out, "a place for a type")?);
        out.give(OrtTypeInfo::of(&value.ty())?);
        Ok(())
    }

    /// Returns the kind of a value.
    GetValueType(value: *const OrtValue, out: *mut c_int) {
        let kind = match **held(value)? {
            HeldValue::Tensor(_) => kinds::TENSOR,
            HeldValue::Sequence { .. } => kinds::SEQUENCE,
            HeldValue::Map { .. } => kinds::MAP,
            HeldValue::Absent(_) => kinds::OPTIONAL,
        };
        OutPlace::at(out, "a place for a kind")?.put(kind);
        Ok(())
    }

    /// Returns an item of a sequence, or the keys or the values of a map. The result shares the tensor with the container.
    GetValue(value: *const OrtValue, index: c_int, _allocator: *mut OrtAllocator, out: *mut *mut OrtValue) {
        let (parts, out) = (parts(held(value)?)?, OutPlace::at(out, "a place for a value")?);
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let part = parts.get(index).ok_or(CallError::Index { what: "values", index, count: parts.len() })?;
        out.give(OrtValue { held: Arc::clone(part) });
        Ok(())
    }

    /// Returns the number of parts of a value, which is 2 for a map.
    GetValueCount(value: *const OrtValue, out: *mut usize) {
        let count = parts(held(value)?)?.len();
        OutPlace::at(out, "a place for a count")?.put(count);
        Ok(())
    }

    /// Creates a sequence from its items, or a map from its keys and its values. The container shares their tensors.
    CreateValue(values: *const *const OrtValue, count: usize, kind: c_int, out: *mut *mut OrtValue) {
        let (values, out) = (list(values, count, "values")?, OutPlace::at(out, "a place for a value")?);
        let items = values.iter().map(|value| held(*value).cloned()).collect::<Result<Vec<_>>>()?;
        let made = match kind {
            kinds::SEQUENCE => sequence(items)?,
            kinds::MAP => map(&items)?,
            other => return Err(CallError::Number { expected: "the kind of sequences or of maps", got: other.into() }),
        };
        out.give(OrtValue { held: Arc::new(made) });
        Ok(())
    }
}

releases! {
    ReleaseValue(OrtValue);
}
