//! Reads the files of a data set: tensors, sequences, optionals and maps, as the graph declares them.

use super::Failure;
use bb_core::operator::OnnxValue;
use bb_core::{BoxError, DataType, Port, TensorData};
use bb_ir::graph::ValueType;
use bb_ir::proto::{MapProto, OptionalProto, SequenceProto, TensorProto, decode};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Reads a serialized `TensorProto`.
///
/// # Errors
///
/// [`Failure::Read`] and [`Failure::Content`].
pub fn read_tensor(path: &Path) -> Result<TensorData, Failure> {
    let tensor = |bytes| Ok::<_, BoxError>(TensorData::from_proto(&decode::<TensorProto>(bytes)?)?);
    content(bytes_of(path)?, path, "tensor", tensor)
}

/// Reads the files `PREFIX_0.pb`, `PREFIX_1.pb`, … of a folder, which are all tensors.
///
/// # Errors
///
/// [`Failure::Read`], [`Failure::Gap`] and [`Failure::Content`].
pub fn read_tensors(folder: &Path, prefix: &str) -> Result<Vec<TensorData>, Failure> {
    (0..count(folder, prefix, ".pb")?).map(|i| read_tensor(&file(folder, prefix, i))).collect()
}

/// Reads the files `PREFIX_0.pb`, `PREFIX_1.pb`, … of a folder with the types that the ports declare. If there are
/// more files than ports, the remaining files are tensors.
///
/// # Errors
///
/// [`Failure::Read`], [`Failure::Gap`] and [`Failure::Content`].
pub fn read_items(
    folder: &Path,
    prefix: &str,
    ports: &[Port],
) -> Result<Vec<OnnxValue<TensorData>>, Failure> {
    let files = (0..count(folder, prefix, ".pb")?).map(|i| file(folder, prefix, i));
    let types = ports.iter().map(|port| &port.ty).chain(std::iter::repeat(&ValueType::Unknown));
    files.zip(types).map(|(path, ty)| read_item(&path, ty)).collect()
}

/// Reads the inputs of a data set for a graph with these inputs.
///
/// Shapes: the result has one entry per port. If there are fewer files than ports, inputs with a default are omitted.
///
/// # Errors
///
/// [`Failure::Read`] and [`Failure::Gap`]; [`Failure::Content`], also if there are more files than ports.
pub fn read_inputs(folder: &Path, ports: &[Port]) -> Result<Vec<Option<OnnxValue<TensorData>>>, Failure> {
    let required = ports.iter().filter(|port| !port.optional).count();
    let files = count(folder, "input", ".pb")?;
    if files > ports.len() {
        let source = format!("got {files} inputs, and the model has {}", ports.len()).into();
        return Err(Failure::Content {
            path: file(folder, "input", ports.len()),
            expected: "input of the model",
            source,
        });
    }
    let given = |port: &&Port| files > required || !port.optional;
    let taken: Vec<Port> = ports.iter().filter(given).cloned().collect();
    let mut items = read_items(folder, "input", &taken)?.into_iter();
    Ok(ports.iter().map(|port| if given(&port) { items.next() } else { None }).collect())
}

fn file(folder: &Path, prefix: &str, number: usize) -> PathBuf {
    folder.join(format!("{prefix}_{number}.pb"))
}

/// Counts the entries `PREFIX_0SUFFIX`, `PREFIX_1SUFFIX`, … of a folder. A folder that does not exist has none.
///
/// # Errors
///
/// [`Failure::Read`], and [`Failure::Gap`] if a number is missing before the last one.
pub(super) fn count(folder: &Path, prefix: &str, suffix: &str) -> Result<usize, Failure> {
    let read = |source| Failure::Read { path: folder.to_owned(), source };
    let name = |number: usize| format!("{prefix}_{number}{suffix}");
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        entries => entries.map_err(read)?,
    };
    let mut numbers = BTreeSet::new();
    for entry in entries {
        let entry = entry.map_err(read)?.file_name();
        let digits = entry
            .to_str()
            .and_then(|text| text.strip_prefix(prefix)?.strip_prefix('_')?.strip_suffix(suffix));
        let number = digits.and_then(|digits| digits.parse().ok());
        numbers.extend(number.filter(|number| entry.to_str() == Some(&name(*number))));
    }
    match (0..).zip(&numbers).find(|(at, number)| at != *number) {
        Some((missing, present)) => {
            Err(Failure::Gap { path: folder.to_owned(), present: name(*present), missing: name(missing) })
        }
        None => Ok(numbers.len()),
    }
}

/// Reads a file with a value of type `ty`. If the type is unknown, the file must have a tensor.
///
/// # Errors
///
/// [`Failure::Read`] and [`Failure::Content`].
pub fn read_item(path: &Path, ty: &ValueType) -> Result<OnnxValue<TensorData>, Failure> {
    decode_item(bytes_of(path)?, path, ty)
}

/// Decodes the content of a file with a value of type `ty`. If the type is unknown, the file must have a tensor.
/// Errors name `path`.
///
/// # Errors
///
/// [`Failure::Content`].
pub fn decode_item(bytes: Bytes, path: &Path, ty: &ValueType) -> Result<OnnxValue<TensorData>, Failure> {
    match ty {
        ValueType::Sequence(_) => content(bytes, path, "sequence", |bytes| sequence(&decode(bytes)?)),
        ValueType::Optional(_) => content(bytes, path, "optional", |bytes| optional(&decode(bytes)?)),
        ValueType::Map(..) => content(bytes, path, "map", |bytes| map(&decode(bytes)?)),
        ValueType::Tensor { .. } | ValueType::Unknown => {
            let tensor = |bytes| Ok::<_, BoxError>(TensorData::from_proto(&decode::<TensorProto>(bytes)?)?);
            Ok(OnnxValue::Tensor(content(bytes, path, "tensor", |bytes| as_declared(tensor(bytes)?, ty))?))
        }
    }
}

fn bytes_of(path: &Path) -> Result<Bytes, Failure> {
    let bytes = std::fs::read(path).map_err(|source| Failure::Read { path: path.to_owned(), source })?;
    Ok(bytes.into())
}

fn content<T>(
    bytes: Bytes,
    path: &Path,
    expected: &'static str,
    decode: impl FnOnce(Bytes) -> Result<T, BoxError>,
) -> Result<T, Failure> {
    decode(bytes).map_err(|source| Failure::Content { path: path.to_owned(), expected, source })
}

/// Reinterprets a tensor of `u16` as bfloat16 if the graph declares bfloat16, because ONNX up to release 1.14 wrote
/// bfloat16 as `u16`.
fn as_declared(x: TensorData, ty: &ValueType) -> Result<TensorData, BoxError> {
    let brain = matches!(ty, ValueType::Tensor { dtype: DataType::BF16, .. });
    if !brain || x.dtype() != DataType::U16 {
        return Ok(x);
    }
    Ok(TensorData::adopt(DataType::BF16, x.shape(), x.bytes()?.clone())?)
}

fn tensor(proto: &TensorProto) -> Result<OnnxValue<TensorData>, BoxError> {
    Ok(OnnxValue::Tensor(TensorData::from_proto(proto)?))
}

fn sequence(proto: &SequenceProto) -> Result<OnnxValue<TensorData>, BoxError> {
    let tensors = proto.tensor_values.iter().map(tensor);
    let sequences = proto.sequence_values.iter().map(sequence);
    let maps = proto.map_values.iter().map(map);
    let optionals = proto.optional_values.iter().map(optional);
    let items = tensors.chain(sequences).chain(maps).chain(optionals).collect::<Result<_, _>>()?;
    Ok(OnnxValue::Sequence(items))
}

fn optional(proto: &OptionalProto) -> Result<OnnxValue<TensorData>, BoxError> {
    match (&proto.tensor_value, &proto.sequence_value, &proto.map_value, &proto.optional_value) {
        (Some(held), ..) => tensor(held),
        (_, Some(held), ..) => sequence(held),
        (_, _, Some(held), _) => map(held),
        (.., Some(held)) => optional(held),
        (None, None, None, None) => Ok(OnnxValue::Absent),
    }
}

/// Reads a map: its keys, and a sequence of values, each a tensor with one element.
fn map(proto: &MapProto) -> Result<OnnxValue<TensorData>, BoxError> {
    let keys = if proto.string_keys.is_empty() {
        TensorData::new(&[proto.keys.len()], &proto.keys)?
    } else {
        let keys = proto.string_keys.iter().map(|key| std::str::from_utf8(key));
        TensorData::strings(&[proto.string_keys.len()], &keys.collect::<Result<Vec<_>, _>>()?)?
    };
    let values = proto.values.iter().flat_map(|values| &values.tensor_values);
    let values = values.map(TensorData::from_proto).collect::<Result<Vec<_>, _>>()?;
    if values.len() != keys.len() {
        return Err(format!("expected {} values, as many as keys, got {}", keys.len(), values.len()).into());
    }
    Ok(OnnxValue::Map { keys, values: row(&values)? })
}

/// Joins numbers or strings of one type, each a tensor with one element, into a tensor of shape `[n]`.
fn row(values: &[TensorData]) -> Result<TensorData, BoxError> {
    let dtype = values.first().map_or(DataType::F32, TensorData::dtype);
    if values.iter().any(|value| value.dtype() != dtype || value.len() != 1 || dtype.is_sub_byte()) {
        return Err(format!("expected values of one element of type {dtype}").into());
    }
    if dtype == DataType::String {
        let texts: Vec<&[u8]> = values.iter().flat_map(TensorData::iter_bytes).collect();
        return Ok(TensorData::strings(&[texts.len()], &texts)?);
    }
    let mut bytes = Vec::new();
    for value in values {
        bytes.extend_from_slice(value.bytes()?);
    }
    Ok(TensorData::adopt(dtype, &[values.len()], bytes.into())?)
}
