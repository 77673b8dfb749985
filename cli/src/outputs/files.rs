//! Writes values to files: to `.npy` if NumPy has the type, else as an ONNX message to a `.pb` file.

use super::{Named, names};
use crate::error::{Error, Result};
use bb::onnx::OnnxValue;
use bb::{DataType, TensorData};
use bb_ir::proto::{ElementKind, MapProto, OptionalProto, SequenceProto};
use prost::Message;
use std::path::Path;

/// Writes each value to its own file in a folder.
pub(crate) fn write(folder: &Path, values: &[Named]) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|source| Error::Write { path: folder.to_owned(), source })?;
    let stems = names::stems(&values.iter().map(|value| value.name.as_str()).collect::<Vec<_>>());
    for (value, stem) in values.iter().zip(stems) {
        let (bytes, extension) = encode(value)?;
        let path = folder.join(format!("{stem}.{extension}"));
        std::fs::write(&path, bytes).map_err(|source| Error::Write { path, source })?;
    }
    Ok(())
}

fn encode(value: &Named) -> Result<(Vec<u8>, &'static str)> {
    if let OnnxValue::Tensor(x) = &value.item
        && let Ok(bytes) = x.to_npy()
    {
        return Ok((bytes, "npy"));
    }
    let name = &value.name;
    let bytes = match &value.item {
        // An optional output is written as an optional message, because a reader expects the type that the model declares.
        item if value.optional => optional(name, item)?.encode_to_vec(),
        OnnxValue::Tensor(x) => x.to_proto(name).encode_to_vec(),
        OnnxValue::Sequence(items) => sequence(name, items)?.encode_to_vec(),
        OnnxValue::Map { keys, values } => map(name, keys, values)?.encode_to_vec(),
        OnnxValue::Absent => optional(name, &OnnxValue::Absent)?.encode_to_vec(),
    };
    Ok((bytes, "pb"))
}

fn sequence(name: &str, items: &[OnnxValue<TensorData>]) -> Result<SequenceProto> {
    let mut proto = SequenceProto { name: Some(name.to_owned()), ..SequenceProto::default() };
    for item in items {
        proto.elem_type = Some(kind(item) as i32);
        match item {
            OnnxValue::Tensor(x) => proto.tensor_values.push(x.to_proto("")),
            OnnxValue::Sequence(items) => proto.sequence_values.push(sequence("", items)?),
            OnnxValue::Map { keys, values } => proto.map_values.push(map("", keys, values)?),
            OnnxValue::Absent => proto.optional_values.push(optional("", item)?),
        }
    }
    // If some elements are absent, the sequence is written as a sequence of optionals.
    if !proto.optional_values.is_empty() {
        proto = SequenceProto {
            name: Some(name.to_owned()),
            elem_type: Some(ElementKind::Optional as i32),
            optional_values: items.iter().map(|item| optional("", item)).collect::<Result<_>>()?,
            ..SequenceProto::default()
        };
    }
    Ok(proto)
}

fn optional(name: &str, item: &OnnxValue<TensorData>) -> Result<OptionalProto> {
    let mut proto = OptionalProto {
        name: Some(name.to_owned()),
        elem_type: Some(kind(item) as i32),
        ..OptionalProto::default()
    };
    match item {
        OnnxValue::Tensor(x) => proto.tensor_value = Some(x.to_proto("")),
        OnnxValue::Sequence(items) => proto.sequence_value = Some(sequence("", items)?),
        OnnxValue::Map { keys, values } => proto.map_value = Some(map("", keys, values)?),
        OnnxValue::Absent => {}
    }
    Ok(proto)
}

fn map(name: &str, keys: &TensorData, values: &TensorData) -> Result<MapProto> {
    let texts = keys.dtype() == DataType::String;
    let numbers = match texts {
        true => Vec::new(),
        false => bb_ir::convert::cast(keys, DataType::I64, bb_ir::convert::Rounding::default())?
            .as_slice::<i64>()?
            .to_vec(),
    };
    Ok(MapProto {
        name: Some(name.to_owned()),
        key_type: Some(keys.dtype().to_onnx()),
        keys: numbers,
        string_keys: keys.iter_bytes().map(<[u8]>::to_vec).collect(),
        values: Some(SequenceProto {
            elem_type: Some(ElementKind::Tensor as i32),
            tensor_values: elements(values)?.iter().map(|value| value.to_proto("")).collect(),
            ..SequenceProto::default()
        }),
    })
}

/// Splits a list into tensors with one element each.
fn elements(values: &TensorData) -> Result<Vec<TensorData>> {
    if values.dtype() == DataType::String {
        let one = |text| Ok(TensorData::strings(&[1], &[text])?);
        return values.iter_bytes().map(one).collect();
    }
    let bytes = values.unpacked()?;
    let size = bytes.len() / values.len().max(1);
    let one = |element: &[u8]| match values.dtype() {
        dtype if dtype.is_sub_byte() => Ok(TensorData::pack(dtype, &[1], element)?),
        dtype => Ok(TensorData::adopt(dtype, &[1], element.to_vec().into())?),
    };
    bytes.chunks(size.max(1)).map(one).collect()
}

fn kind(item: &OnnxValue<TensorData>) -> ElementKind {
    match item {
        OnnxValue::Tensor(_) => ElementKind::Tensor,
        OnnxValue::Sequence(_) => ElementKind::Sequence,
        OnnxValue::Map { .. } => ElementKind::Map,
        OnnxValue::Absent => ElementKind::Optional,
    }
}
