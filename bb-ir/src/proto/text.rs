//! Repairs names and documentation that are not UTF-8.
//!
//! Protocol buffers require UTF-8, but writers in C++ and old Python do not check it, and other readers accept their files. If a message
//! cannot be decoded for this reason, its strings are rewritten first: each byte that is not part of a valid character is replaced by
//! U+FFFD and the byte's value in hexadecimal. So different names stay different.

use super::scan::{FieldContent, Message, field};
use crate::{Error, memory};
use prost::encoding::{WireType, encode_key, encode_varint};

/// The name of the operation in errors about memory.
const READING: &str = "decoding";

/// Returns the message with all strings repaired; `None` if all strings are UTF-8. The search ends at bytes that are not a valid message,
/// because decoding reports them.
///
/// # Errors
///
/// [`Error::Memory`] if the system has no memory for the message.
pub(super) fn as_utf8(message: Message, bytes: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    let mut written: Option<Vec<u8>> = None;
    // The number of bytes of the message that are copied to `written`.
    let mut copied = 0;
    let mut rest = bytes;
    while let Some((number, content, after)) = field(rest) {
        let start = bytes.len() - rest.len();
        rest = after;
        let Some(content) = content else { continue };
        let changed = match message.content_of(number) {
            FieldContent::Message(inner) => as_utf8(inner, content)?,
            FieldContent::Text if message.is_text(number) && std::str::from_utf8(content).is_err() => {
                Some(shown(content)?)
            }
            _ => None,
        };
        let Some(changed) = changed else { continue };
        let written = written.get_or_insert_default();
        memory::append(READING, written, bytes.get(copied..start).unwrap_or_default())?;
        encode_key(number as u32, WireType::LengthDelimited, written);
        encode_varint(changed.len() as u64, written);
        memory::append(READING, written, &changed)?;
        copied = bytes.len() - rest.len();
    }
    if let Some(written) = &mut written {
        memory::append(READING, written, bytes.get(copied..).unwrap_or_default())?;
    }
    Ok(written)
}

/// Replaces each byte that is not part of a valid character.
fn shown(text: &[u8]) -> Result<Vec<u8>, Error> {
    let mut shown = memory::room(READING, text.len().saturating_mul(5))?;
    for chunk in text.utf8_chunks() {
        shown.extend_from_slice(chunk.valid().as_bytes());
        for byte in chunk.invalid() {
            shown.extend_from_slice(format!("\u{FFFD}{byte:02x}").as_bytes());
        }
    }
    Ok(shown)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::proto::{ModelProto, decode};

    /// Encodes a field that has a length.
    fn of(number: u32, content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_key(number, WireType::LengthDelimited, &mut bytes);
        encode_varint(content.len() as u64, &mut bytes);
        bytes.extend_from_slice(content);
        bytes
    }

    #[test]
    fn names_that_differ_stay_different() {
        let node = [of(1, b"caf\xE9"), of(1, b"caf\xEA"), of(2, "zwölf".as_bytes()), of(3, b"\xC3")].concat();
        // Raw data and strings of tensors may contain any bytes, so they are not changed.
        let tensor = [of(9, &[0xFF; 300]), of(6, b"\xFF"), of(8, b"w")].concat();
        let graph = [of(1, &node), of(5, &tensor), of(2, b"\xFF\xFE ok")].concat();
        let model: ModelProto = decode([of(7, &graph), of(2, b"tool")].concat().into()).unwrap();
        let graph = model.graph.unwrap();
        assert_eq!(graph.name(), "\u{FFFD}ff\u{FFFD}fe ok");
        let node = graph.node.first().unwrap();
        assert_eq!(node.input, ["caf\u{FFFD}e9", "caf\u{FFFD}ea"]);
        assert_eq!((node.output.as_slice(), node.name()), (&["zwölf".to_owned()][..], "\u{FFFD}c3"));
        let tensor = graph.initializer.first().unwrap();
        assert_eq!(tensor.raw_data.as_deref(), Some(&[0xFF; 300][..]));
        assert_eq!((tensor.string_data.as_slice(), tensor.name()), (&[b"\xFF".to_vec()][..], "w"));
        assert_eq!(model.producer_name.as_deref(), Some("tool"));
    }

    #[test]
    fn what_is_no_message_stays_an_error() {
        for bytes in [&b"\x3A\x7F\x0A\xFF"[..], b"\xFF", &of(7, b"\x0A\x7F\xE9")] {
            assert!(
                matches!(decode::<ModelProto>(bytes.to_vec().into()), Err(Error::Decode { .. })),
                "{bytes:?}"
            );
        }
    }

    /// The repaired fields are exactly the `string` fields of the schema.
    #[test]
    fn the_texts_are_those_of_the_schema() {
        let kinds = [
            ("AttributeProto", Message::Attribute),
            ("ValueInfoProto", Message::ValueInfo),
            ("NodeProto", Message::Node),
            ("IntIntListEntryProto", Message::IntegerList),
            ("NodeDeviceConfigurationProto", Message::Device),
            ("ShardingSpecProto", Message::Sharding),
            ("ShardedDimProto", Message::ShardedDim),
            ("SimpleShardedDimProto", Message::Plain),
            ("TrainingInfoProto", Message::Training),
            ("ModelProto", Message::Model),
            ("DeviceConfigurationProto", Message::Plain),
            ("StringStringEntryProto", Message::Plain),
            ("TensorAnnotation", Message::Annotation),
            ("GraphProto", Message::Graph),
            ("TensorProto", Message::Tensor),
            ("Segment", Message::IntegerList),
            ("SparseTensorProto", Message::Sparse),
            ("TensorShapeProto", Message::Shape),
            ("Dimension", Message::Dimension),
            ("TypeProto", Message::Type),
            ("Opaque", Message::Plain),
            ("OperatorSetIdProto", Message::Plain),
            ("FunctionProto", Message::Function),
        ];
        let (mut open, mut found) = (Vec::new(), 0);
        for line in include_str!("../../schema/onnx.proto").lines() {
            let line = line.split(['/', '[']).next().unwrap_or_default().trim();
            let words: Vec<&str> = line.split_whitespace().collect();
            match *words.as_slice() {
                ["message" | "enum" | "oneof", name, "{"] => open.push(name),
                ["}" | "};", ..] => drop(open.pop()),
                [.., ty, _, "=", number] => {
                    let message =
                        open.iter().rev().find_map(|name| kinds.iter().find(|(own, _)| own == name));
                    let Some((name, kind)) = message else { continue };
                    let number: u64 = number.trim_end_matches(';').parse().unwrap();
                    if ty == "string" {
                        assert!(kind.is_text(number), "{line} of {name}");
                        found += 1;
                    } else if !matches!(kind, Message::Plain) && ty != "int64" && ty != "int32" {
                        assert!(!kind.is_text(number), "{line} of {name}");
                    }
                }
                _ => {}
            }
        }
        assert!(found >= 40, "{found}");
    }
}
