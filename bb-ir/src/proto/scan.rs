//! Scans a serialized message before it is decoded. The scan computes how deep its messages nest, and how much
//! memory the decoded message takes.
//!
//! Decoding grows vectors, and a failed allocation would end the process; a message of two bytes may decode to
//! hundreds of bytes. So the scan first computes the total, and then checks whether this amount of memory is
//! available. Bytes that the decoded message shares with the file, for example `raw_data`, do not count. The
//! scan does not report invalid messages, because decoding does.

use super::*;
use crate::{Error, memory};
use bytes::Bytes;

/// The maximum nesting of messages that `prost` decodes.
const DEEPEST: usize = 100;

/// The memory per item of a growing vector, in items: the capacity may be twice the length, and the old items
/// exist until they are copied.
const GROWTH: usize = 3;

/// The bytes that a string takes in addition to its characters: its item in a vector, and the allocator's
/// overhead.
const STRING: usize = GROWTH * size_of::<String>() + 16;

/// A message that a file can contain: a model, a tensor, a sequence, a map or an optional.
pub trait FileMessage: prost::Message + Default {
    /// The name of the message in errors.
    const NAME: &'static str;
    /// The kind of the message for the scan. Only this module can create a `Kind`, so no other type can
    /// implement the trait.
    #[doc(hidden)]
    const KIND: Kind;
}

/// A wrapper of a private type, so that only this module can create values.
#[derive(Clone, Copy)]
pub struct Kind(Message);

macro_rules! file_messages {
    ($( $message:ident: $kind:ident, $name:literal; )*) => { $(
        impl FileMessage for $message {
            const NAME: &'static str = $name;
            const KIND: Kind = Kind(Message::$kind);
        }
    )* };
}

file_messages! {
    ModelProto: Model, "an ONNX model";
    TensorProto: Tensor, "a tensor";
    SequenceProto: Sequence, "a sequence";
    MapProto: Map, "a map";
    OptionalProto: Sequence, "an optional";
}

/// Decodes a message. Raw data is shared with `bytes`. In names and documentation, each byte that is not part of
/// a valid character is replaced by U+FFFD and the byte's value in hexadecimal.
///
/// # Errors
///
/// [`Error::Limit`] if the messages nest too deep; [`Error::Memory`] if the system has no memory for the
/// decoded message; [`Error::Decode`] if the bytes are not a message of this type.
pub fn decode<M: FileMessage>(bytes: Bytes) -> Result<M, Error> {
    memory::probe("decoding", needed(M::KIND.0, &bytes)?)?;
    let refused = |source| Error::Decode { what: M::NAME, source };
    M::decode(bytes.clone()).or_else(|source| match text::as_utf8(M::KIND.0, &bytes)? {
        Some(bytes) => {
            memory::probe("decoding", needed(M::KIND.0, &bytes)?)?;
            M::decode(Bytes::from(bytes)).map_err(refused)
        }
        None => Err(refused(source)),
    })
}

/// Returns the memory in bytes that a message takes when it is decoded, including nested messages.
fn needed(mut message: Message, bytes: &[u8]) -> Result<usize, Error> {
    let mut total = 0usize;
    let mut outer: Vec<(Message, &[u8])> = Vec::new();
    let mut rest = bytes;
    loop {
        if rest.is_empty() {
            match outer.pop() {
                Some(back) => (message, rest) = back,
                None => return Ok(total),
            }
            continue;
        }
        let Some((number, content, after)) = field(rest) else { return Ok(total) };
        rest = after;
        let Some(content) = content else {
            total = total.saturating_add(GROWTH * size_of::<u64>());
            continue;
        };
        match message.content_of(number) {
            FieldContent::Shared => {}
            FieldContent::Text => total = total.saturating_add(content.len().saturating_add(STRING)),
            FieldContent::Fixed => total = total.saturating_add(content.len().saturating_mul(GROWTH)),
            FieldContent::Integers(size) => {
                // The last byte of each variable-length integer has its highest bit clear; all other bytes have
                // it set.
                let count = content.iter().filter(|&&b| b < 0x80).count();
                total = total.saturating_add(count.saturating_mul(GROWTH * size));
            }
            FieldContent::Message(inner) => {
                total = total.saturating_add(GROWTH * inner.size());
                outer.push((message, rest));
                if outer.len() > DEEPEST {
                    let (what, name, got) = ("levels of messages within messages", None, outer.len());
                    return Err(Error::Limit { what, name, limit: DEEPEST, got });
                }
                (message, rest) = (inner, content);
            }
        }
    }
}

/// The content of a field that has a length.
pub(super) enum FieldContent {
    /// Bytes that are shared with the file.
    Shared,
    /// A string, or bytes that are copied.
    Text,
    /// Numbers of fixed width.
    Fixed,
    /// Variable-length integers. The number is the size in memory of each integer, in bytes.
    Integers(usize),
    Message(Message),
}

/// The kinds of messages that contain other messages, or more than a few bytes.
#[derive(Clone, Copy)]
pub(super) enum Message {
    Model,
    Training,
    Graph,
    Node,
    Attribute,
    Tensor,
    Sparse,
    ValueInfo,
    Type,
    /// The type of a tensor; it contains a shape.
    TensorType,
    /// The type of a sequence, an optional or a map; it contains other types.
    TypeOfTypes,
    Shape,
    Dimension,
    Function,
    Annotation,
    Device,
    Sharding,
    ShardedDim,
    /// A sequence or an optional of values.
    Sequence,
    Map,
    /// A message that contains only strings and numbers.
    Plain,
    /// A message that contains only integers.
    IntegerList,
}

impl Message {
    /// Returns the kind of content that the field `number` has. Source: `onnx.proto`.
    pub(super) fn content_of(self, number: u64) -> FieldContent {
        use Message as M;
        let message = match (self, number) {
            (M::Tensor, 9) => return FieldContent::Shared,
            (M::Tensor, 4 | 10) | (M::Attribute, 7) => return FieldContent::Fixed,
            (M::Tensor, 5) => return FieldContent::Integers(4),
            (M::Tensor, 1 | 7 | 11) | (M::Attribute, 8) | (M::Sparse, 3) => return FieldContent::Integers(8),
            (M::Model, 7) | (M::Training, 1 | 2) | (M::Attribute, 6 | 11) => M::Graph,
            (M::Model, 20) => M::Training,
            (M::Model, 25) => M::Function,
            (M::Graph, 1) | (M::Function, 7) => M::Node,
            (M::Graph, 5) | (M::Attribute, 5 | 10) | (M::Sparse, 1 | 2) => M::Tensor,
            (M::Graph, 15) | (M::Attribute, 22 | 23) => M::Sparse,
            (M::Graph, 11..=13) | (M::Function, 12) => M::ValueInfo,
            (M::Graph, 14) => M::Annotation,
            (M::Node, 5) | (M::Function, 11) => M::Attribute,
            (M::Node, 10) => M::Device,
            (M::Device, 2) => M::Sharding,
            (M::Sharding, 4) => M::ShardedDim,
            (M::Attribute, 14 | 15) | (M::ValueInfo, 2) => M::Type,
            (M::Type, 1 | 8) => M::TensorType,
            (M::Type, 4 | 5 | 9) => M::TypeOfTypes,
            (M::TypeOfTypes, 1 | 2) => M::Type,
            (M::TensorType, 2) => M::Shape,
            (M::Shape, 1) => M::Dimension,
            (M::Sequence, 3) => M::Tensor,
            (M::Sequence, 5 | 7) | (M::Map, 5) => M::Sequence,
            (M::Sequence, 6) => M::Map,
            (M::Map, 3) => return FieldContent::Integers(8),
            (M::Sharding, 3) | (M::Tensor, 3) => M::IntegerList,
            (M::Model, 8 | 14 | 26)
            | (M::Graph, 16)
            | (M::Node, 9)
            | (M::Tensor, 13 | 16)
            | (M::ValueInfo, 4)
            | (M::Function, 9 | 14)
            | (M::Annotation, 2)
            | (M::Training, 3 | 4)
            | (M::ShardedDim, 2)
            | (M::Type, 7) => M::Plain,
            _ => return FieldContent::Text,
        };
        FieldContent::Message(message)
    }

    /// Returns whether the field `number` is a `string`. Source: `onnx.proto`.
    pub(super) fn is_text(self, number: u64) -> bool {
        use Message as M;
        match self {
            M::Model => matches!(number, 2 | 3 | 4 | 6),
            M::Graph => matches!(number, 2 | 10),
            M::Node => matches!(number, 1..=4 | 6..=8),
            M::Attribute => matches!(number, 1 | 13 | 21),
            M::Tensor => matches!(number, 8 | 12),
            M::ValueInfo => matches!(number, 1 | 3),
            M::Dimension => matches!(number, 2 | 3),
            M::Type => number == 6,
            M::Function => matches!(number, 1 | 4..=6 | 8 | 10 | 13),
            M::Annotation | M::Device | M::Sharding | M::Sequence | M::Map => number == 1,
            M::Plain => matches!(number, 1..=3),
            M::IntegerList
            | M::Training
            | M::Sparse
            | M::TensorType
            | M::TypeOfTypes
            | M::Shape
            | M::ShardedDim => false,
        }
    }

    /// Returns the size of the decoded message's struct, without the data that it points to.
    fn size(self) -> usize {
        match self {
            Message::Model => size_of::<ModelProto>(),
            Message::Training => size_of::<TrainingInfoProto>(),
            Message::Graph => size_of::<GraphProto>(),
            Message::Node => size_of::<NodeProto>(),
            Message::Attribute => size_of::<AttributeProto>(),
            Message::Tensor => size_of::<TensorProto>(),
            Message::Sparse => size_of::<SparseTensorProto>(),
            Message::ValueInfo => size_of::<ValueInfoProto>(),
            Message::Type | Message::TensorType | Message::TypeOfTypes => size_of::<TypeProto>(),
            Message::Shape => size_of::<TensorShapeProto>(),
            Message::Dimension => size_of::<tensor_shape_proto::Dimension>(),
            Message::Function => size_of::<FunctionProto>(),
            Message::Annotation => size_of::<TensorAnnotation>(),
            Message::Device => size_of::<NodeDeviceConfigurationProto>(),
            Message::Sharding => size_of::<ShardingSpecProto>(),
            Message::ShardedDim => size_of::<ShardedDimProto>(),
            Message::Sequence => size_of::<SequenceProto>().max(size_of::<OptionalProto>()),
            Message::Map => size_of::<MapProto>(),
            Message::Plain | Message::IntegerList => size_of::<StringStringEntryProto>(),
        }
    }
}

/// Splits off the first field. Returns its number, its content if it has a length, and the remaining bytes;
/// `None` if the field is invalid.
///
/// Source: "Encoding" in the documentation of protocol buffers.
#[expect(clippy::type_complexity, reason = "three parts of one slice")]
pub(super) fn field(bytes: &[u8]) -> Option<(u64, Option<&[u8]>, &[u8])> {
    let (tag, rest) = varint(bytes)?;
    let (content, after) = match tag & 7 {
        0 => (None, varint(rest)?.1),
        1 => (None, rest.get(8..)?),
        5 => (None, rest.get(4..)?),
        2 => {
            let (length, rest) = varint(rest)?;
            let (content, after) = rest.split_at_checked(usize::try_from(length).ok()?)?;
            (Some(content), after)
        }
        _ => return None,
    };
    Some((tag >> 3, content, after))
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    for (i, &byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7F) << (7 * i);
        if byte < 0x80 {
            return Some((value, bytes.get(i + 1..)?));
        }
    }
    None
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use prost::Message as _;

    fn graph(graph: GraphProto) -> Vec<u8> {
        ModelProto { ir_version: Some(8), graph: Some(graph), ..Default::default() }.encode_to_vec()
    }

    #[test]
    fn shared_bytes_do_not_count_and_numbers_do() {
        let raw = TensorProto { raw_data: Some(vec![0; 1 << 20].into()), ..Default::default() };
        let raw = needed(Message::Model, &graph(GraphProto { initializer: vec![raw], ..Default::default() }))
            .unwrap();
        assert!(raw < 1 << 14, "{raw}");
        let floats = TensorProto { float_data: vec![0.0; 1 << 18], ..Default::default() };
        let floats =
            needed(Message::Model, &graph(GraphProto { initializer: vec![floats], ..Default::default() }))
                .unwrap();
        assert!(floats >= 1 << 20, "{floats}");
        let int64s = TensorProto { int64_data: vec![0; 1 << 18], ..Default::default() };
        let int64s =
            needed(Message::Model, &graph(GraphProto { initializer: vec![int64s], ..Default::default() }))
                .unwrap();
        assert!(int64s >= 2 << 20, "{int64s}");
    }

    #[test]
    fn empty_messages_count_their_decoded_size() {
        let initializer = vec![TensorProto::default(); 1000];
        let bytes = graph(GraphProto { initializer, ..Default::default() });
        assert!(bytes.len() < 3000);
        assert!(needed(Message::Model, &bytes).unwrap() >= 1000 * size_of::<TensorProto>());
    }

    #[test]
    fn messages_nested_too_deep_for_decoding_are_refused() {
        let mut inner = GraphProto::default();
        for _ in 0..40 {
            let branch = AttributeProto { g: Some(inner), ..Default::default() };
            let node = NodeProto { attribute: vec![branch], ..Default::default() };
            inner = GraphProto { node: vec![node], ..Default::default() };
        }
        let error = decode::<ModelProto>(graph(inner).into()).unwrap_err();
        assert!(matches!(error, Error::Limit { name: None, limit: 100, got: 101, .. }), "{error}");
    }
}
