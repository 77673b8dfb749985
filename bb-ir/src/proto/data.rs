//! ONNX's messages for values that are not tensors, with the field numbers in `onnx-data.proto`.

use super::TensorProto;

/// A sequence of values of one kind.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SequenceProto {
    /// The name.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// The kind of the items; see [`ElementKind`].
    #[prost(enumeration = "ElementKind", optional, tag = "2")]
    pub elem_type: Option<i32>,
    /// The items of a sequence of tensors.
    #[prost(message, repeated, tag = "3")]
    pub tensor_values: Vec<TensorProto>,
    /// The items of a sequence of sequences.
    #[prost(message, repeated, tag = "5")]
    pub sequence_values: Vec<SequenceProto>,
    /// The items of a sequence of maps.
    #[prost(message, repeated, tag = "6")]
    pub map_values: Vec<MapProto>,
    /// The items of a sequence of optionals.
    #[prost(message, repeated, tag = "7")]
    pub optional_values: Vec<OptionalProto>,
}

/// A map from integers or strings to values of one kind.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MapProto {
    /// The name.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// The element type of the keys, as a number of `TensorProto.DataType`.
    #[prost(int32, optional, tag = "2")]
    pub key_type: Option<i32>,
    /// The keys, if they are integers.
    #[prost(int64, repeated, packed = "false", tag = "3")]
    pub keys: Vec<i64>,
    /// The keys, if they are strings.
    #[prost(bytes = "vec", repeated, tag = "4")]
    pub string_keys: Vec<Vec<u8>>,
    /// The values.
    #[prost(message, optional, tag = "5")]
    pub values: Option<SequenceProto>,
}

/// A value that may be absent.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OptionalProto {
    /// The name.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// The kind of the content; see [`ElementKind`].
    #[prost(enumeration = "ElementKind", optional, tag = "2")]
    pub elem_type: Option<i32>,
    /// A tensor.
    #[prost(message, optional, tag = "3")]
    pub tensor_value: Option<TensorProto>,
    /// A sequence.
    #[prost(message, optional, tag = "5")]
    pub sequence_value: Option<SequenceProto>,
    /// A map.
    #[prost(message, optional, tag = "6")]
    pub map_value: Option<MapProto>,
    /// An optional.
    #[prost(message, optional, boxed, tag = "7")]
    pub optional_value: Option<Box<OptionalProto>>,
}

/// The kind of the items of a sequence or of the content of an optional.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ElementKind {
    /// Unspecified.
    Undefined = 0,
    /// Tensors.
    Tensor = 1,
    /// Sparse tensors.
    SparseTensor = 2,
    /// Sequences.
    Sequence = 3,
    /// Maps.
    Map = 4,
    /// Optionals.
    Optional = 5,
}
