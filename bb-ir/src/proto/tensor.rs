//! Converts `TensorProto` to [`TensorData`] and back, in all encodings of the elements.
//!
//! `data_location` determines whether the elements are in a file or in the message; elements at the other location are ignored.
//! In the message, the reader first finds the single field that contains elements, then compares its length with the shape, and
//! only then allocates memory. The bytes of `raw_data` are shared, not copied, if they are aligned for the element type.
//!
//! Source: `onnx.proto`, `TensorProto`.

use super::{ExternalData, TensorProto, tensor_proto::DataLocation};
use crate::tensor::aligned;
use crate::{DataType, Element, Error, Shape, StringsBuilder, TensorData, element_count, memory};
use bytes::Bytes;

/// The name of the operation in errors about memory.
const READING: &str = "reading a tensor";

impl TensorData {
    /// Converts a message that contains the elements to a tensor.
    ///
    /// # Errors
    ///
    /// [`Error::InTensor`] with the tensor's name and one of these sources: an unknown element type; a negative extent; elements
    /// in no field, in two fields, or in a field for another element type; a number of elements that does not match the shape;
    /// external data.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), bb_ir::Error> {
    /// use bb_ir::{TensorData, proto::TensorProto};
    /// let proto = TensorProto { dims: vec![2], data_type: Some(1), float_data: vec![1.0, 2.0], ..Default::default() };
    /// assert_eq!(TensorData::from_proto(&proto)?.as_slice::<f32>()?, [1.0, 2.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_proto(proto: &TensorProto) -> Result<TensorData, Error> {
        read(proto, None).map_err(|source| in_tensor(proto, source))
    }

    /// Converts a message to a tensor. The elements are in the message, or in a file that `folder` allows.
    ///
    /// # Errors
    ///
    /// Those of [`from_proto`](Self::from_proto) and of [`ExternalData::read`].
    pub fn from_proto_in(proto: &TensorProto, folder: &ExternalData) -> Result<TensorData, Error> {
        read(proto, Some(folder)).map_err(|source| in_tensor(proto, source))
    }

    /// Returns the message for this tensor. The message contains strings in `string_data`. All other elements are in `raw_data`,
    /// which shares the tensor's bytes.
    ///
    /// If the elements are damaged, the message contains no elements, so that readers report an error;
    /// [`try_to_proto`](Self::try_to_proto) returns the reason.
    pub fn to_proto(&self, name: &str) -> TensorProto {
        self.try_to_proto(name).unwrap_or_else(|_| self.front(name))
    }

    /// Returns the message for this tensor, as [`to_proto`](Self::to_proto) does.
    ///
    /// # Errors
    ///
    /// As [`unaligned_bytes`](Self::unaligned_bytes).
    pub fn try_to_proto(&self, name: &str) -> Result<TensorProto, Error> {
        let mut proto = self.front(name);
        if self.dtype() == DataType::String {
            proto.string_data = self.iter_bytes().map(<[u8]>::to_vec).collect();
        } else {
            proto.raw_data = Some(self.unaligned_bytes()?.clone());
        }
        Ok(proto)
    }

    /// Returns the message without the elements.
    fn front(&self, name: &str) -> TensorProto {
        TensorProto {
            dims: self.shape().iter().map(|&d| d as i64).collect(),
            data_type: Some(self.dtype().to_onnx()),
            name: (!name.is_empty()).then(|| name.to_owned()),
            ..Default::default()
        }
    }
}

impl TensorProto {
    /// Returns the element type and the shape. Does not read the elements.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownDataType`] or [`Error::Extent`].
    pub fn dtype_and_shape(&self) -> Result<(DataType, Shape), Error> {
        let number = self.data_type.unwrap_or(0);
        let dtype = DataType::from_onnx(number).ok_or(Error::UnknownDataType { number })?;
        Ok((dtype, extents(&self.dims)?))
    }
}

pub(super) fn in_tensor(proto: &TensorProto, source: Error) -> Error {
    let name = proto.name.clone().unwrap_or_default();
    Error::InTensor { name, source: Box::new(source) }
}

pub(super) fn extents(dims: &[i64]) -> Result<Shape, Error> {
    let extent = |&extent: &i64| usize::try_from(extent).map_err(|_| Error::Extent { extent });
    dims.iter().map(extent).collect()
}

fn read(proto: &TensorProto, folder: Option<&ExternalData>) -> Result<TensorData, Error> {
    let (dtype, shape) = proto.dtype_and_shape()?;
    let too_large =
        || Error::TooLarge { dtype, shape: shape.as_slice().into(), limit: isize::MAX as usize, name: None };
    let elements = element_count(&shape).ok_or_else(too_large)?;
    if proto.segment.is_some() {
        return Err(Error::Segment);
    }
    let location = proto.data_location.unwrap_or(0);
    let location = DataLocation::try_from(location).map_err(|_| Error::DataLocation { number: location })?;
    // Elements in the message are ignored, because some exporters leave the elements, or zeros, in the message too.
    if location == DataLocation::External {
        if let Some(given) = folder.map(|folder| folder.tensor(proto)).transpose()?.flatten() {
            return Ok(given);
        }
        let size = dtype.bytes_for(elements).ok_or_else(too_large)?;
        if dtype == DataType::String {
            return Err(Error::DataField { dtype, field: "external_data" });
        }
        let (bytes, check) = super::external::read(proto, size, folder)?;
        let bytes = truths(dtype, bytes)?;
        return TensorData::adopt(dtype, &shape, bytes)?.checked_later(check);
    }
    let field = field(proto)?;
    let takes = Takes::of(dtype);
    let count = |field: &Field, expected: usize| {
        let shape = shape.as_slice().into();
        if field.len == expected {
            Ok(())
        } else {
            Err(Error::ElementCount { dtype, shape, field: field.name, expected, got: field.len })
        }
    };
    let Some(field) = field else {
        // A tensor without elements may have no field at all.
        let empty = Field { name: takes.name(), len: 0, kind: FieldKind::Raw };
        count(&empty, elements)?;
        return TensorData::zeros(dtype, &shape, usize::MAX);
    };
    let refused = || Error::DataField { dtype, field: field.name };
    match (field.kind, takes) {
        (FieldKind::Raw, Takes::Strings) => Err(refused()),
        (FieldKind::Raw, _) => {
            let bytes = truths(dtype, proto.raw_data.clone().unwrap_or_default())?;
            TensorData::adopt(dtype, &shape, bytes)
        }
        (FieldKind::Int32, Takes::Int32) => {
            // Two elements of 4 bits, or four elements of 2 bits, share an entry; each element of 6 bits has its own entry.
            let per_entry = if matches!(dtype.bits(), 2 | 4) { 8 / dtype.bits() } else { 1 };
            count(&field, elements.div_ceil(per_entry))?;
            let bytes = narrow(dtype, &proto.int32_data)?;
            if dtype.bits() == 6 {
                TensorData::pack(dtype, &shape, &bytes)
            } else {
                TensorData::adopt(dtype, &shape, bytes)
            }
        }
        (FieldKind::Floats, Takes::Floats(per)) => {
            count(&field, elements.checked_mul(per).ok_or_else(too_large)?)?;
            TensorData::adopt(dtype, &shape, copied(&proto.float_data)?)
        }
        (FieldKind::Doubles, Takes::Doubles(per)) => {
            count(&field, elements.checked_mul(per).ok_or_else(too_large)?)?;
            TensorData::adopt(dtype, &shape, copied(&proto.double_data)?)
        }
        (FieldKind::Int64, Takes::Int64) => {
            count(&field, elements)?;
            TensorData::adopt(dtype, &shape, copied(&proto.int64_data)?)
        }
        (FieldKind::Uint64, Takes::Uint64) => {
            count(&field, elements)?;
            if dtype == DataType::U64 {
                return TensorData::adopt(dtype, &shape, copied(&proto.uint64_data)?);
            }
            let entry = |(index, &value): (usize, &u64)| {
                let refused = Error::DataValue { field: "uint64_data", index, value: value.into(), dtype };
                u32::try_from(value).map_err(|_| refused)
            };
            let values: Vec<u32> =
                memory::try_collected(READING, proto.uint64_data.iter().enumerate().map(entry))?;
            TensorData::new(&shape, &values)
        }
        (FieldKind::Strings, Takes::Strings) => {
            count(&field, elements)?;
            let mut strings = StringsBuilder::with_room(READING, elements)?;
            proto.string_data.iter().try_for_each(|text| strings.push(text))?;
            strings.finish(&shape)
        }
        _ => Err(refused()),
    }
}

/// The typed field that stores elements of a type.
#[derive(Clone, Copy)]
enum Takes {
    /// Floats; the number is how many floats form an element.
    Floats(usize),
    Doubles(usize),
    Int32,
    Int64,
    Uint64,
    Strings,
}

impl Takes {
    fn of(dtype: DataType) -> Takes {
        match dtype {
            DataType::F32 => Takes::Floats(1),
            DataType::C64 => Takes::Floats(2),
            DataType::F64 => Takes::Doubles(1),
            DataType::C128 => Takes::Doubles(2),
            DataType::I64 => Takes::Int64,
            DataType::U32 | DataType::U64 => Takes::Uint64,
            DataType::String => Takes::Strings,
            _ => Takes::Int32,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Takes::Floats(_) => "float_data",
            Takes::Doubles(_) => "double_data",
            Takes::Int32 => "int32_data",
            Takes::Int64 => "int64_data",
            Takes::Uint64 => "uint64_data",
            Takes::Strings => "string_data",
        }
    }
}

#[derive(Clone, Copy)]
enum FieldKind {
    Raw,
    Floats,
    Doubles,
    Int32,
    Int64,
    Uint64,
    Strings,
}

struct Field {
    name: &'static str,
    /// The number of entries; for raw data, the number of bytes.
    len: usize,
    kind: FieldKind,
}

/// Finds the single field that is not empty.
fn field(proto: &TensorProto) -> Result<Option<Field>, Error> {
    let raw = proto.raw_data.as_ref().map_or(0, Bytes::len);
    let mut filled = [
        Field { name: "raw_data", len: raw, kind: FieldKind::Raw },
        Field { name: "float_data", len: proto.float_data.len(), kind: FieldKind::Floats },
        Field { name: "int32_data", len: proto.int32_data.len(), kind: FieldKind::Int32 },
        Field { name: "int64_data", len: proto.int64_data.len(), kind: FieldKind::Int64 },
        Field { name: "double_data", len: proto.double_data.len(), kind: FieldKind::Doubles },
        Field { name: "uint64_data", len: proto.uint64_data.len(), kind: FieldKind::Uint64 },
        Field { name: "string_data", len: proto.string_data.len(), kind: FieldKind::Strings },
    ]
    .into_iter()
    .filter(|f| f.len > 0);
    match (filled.next(), filled.next()) {
        (Some(first), Some(second)) => Err(Error::TwoDataFields { first: first.name, second: second.name }),
        (first, _) => Ok(first),
    }
}

fn copied<T: Element>(values: &[T]) -> Result<Bytes, Error> {
    let bytes: &[u8] = bytemuck::cast_slice(values);
    aligned(READING, bytes.len(), |out| out.extend_from_slice(bytes))
}

/// If the elements are booleans, replaces every byte that is not 0 by 1, because some exporters write true as 255.
fn truths(dtype: DataType, bytes: Bytes) -> Result<Bytes, Error> {
    if dtype != DataType::Bool || bytes.iter().all(|&b| b <= 1) {
        return Ok(bytes);
    }
    aligned(READING, bytes.len(), |out| out.extend(bytes.iter().map(|&b| u8::from(b != 0))))
}

/// Returns the low bytes of each entry; for booleans, whether the entry is not 0. An entry of a number type must be in the range
/// of the signed or unsigned type of this width.
fn narrow(dtype: DataType, entries: &[i32]) -> Result<Bytes, Error> {
    if dtype == DataType::Bool {
        return aligned(READING, entries.len(), |out| out.extend(entries.iter().map(|&v| u8::from(v != 0))));
    }
    let range = match dtype.bits() {
        32 => i32::MIN..=i32::MAX,
        16 => i32::from(i16::MIN)..=i32::from(u16::MAX),
        6 => 0..=0x3F,
        _ => i32::from(i8::MIN)..=i32::from(u8::MAX),
    };
    if let Some((index, &value)) = entries.iter().enumerate().find(|(_, v)| !range.contains(*v)) {
        return Err(Error::DataValue { field: "int32_data", index, value: value.into(), dtype });
    }
    let width = dtype.bits().div_ceil(8);
    aligned(READING, entries.len() * width, |out| match width {
        4 => out.extend_from_slice(bytemuck::cast_slice(entries)),
        2 => out.extend(entries.iter().flat_map(|&v| (v as u16).to_le_bytes())),
        _ => out.extend(entries.iter().map(|&v| v as u8)),
    })
}
