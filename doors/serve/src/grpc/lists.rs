//! Reads and writes the lists of an `InferTensorContents` directly as bytes, without building the message.

use crate::cancel;
use crate::held_bytes::Lease;
use crate::messages::wire::{Field, Fields, varints};
use crate::refusal::Refusal;
use bytes::Bytes;
use prost::encoding::{WireType, decode_varint, encode_key, encode_varint, encoded_len_varint, key_len};

/// The number of elements between two checks of the deadline.
const CHECKED: usize = 1 << 16;

/// The maximum length in bytes of the key and length before a packed list.
const HEAD: usize = 12;

/// A list of an `InferTensorContents`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct List {
    pub(super) number: u32,
    form: ElementEncoding,
}

/// The encoding of a list's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ElementEncoding {
    Varint,
    Four,
    Eight,
    Text,
}

impl List {
    pub(super) const BOOL: List = List { number: 1, form: ElementEncoding::Varint };
    pub(super) const INT: List = List { number: 2, form: ElementEncoding::Varint };
    pub(super) const INT64: List = List { number: 3, form: ElementEncoding::Varint };
    pub(super) const UINT: List = List { number: 4, form: ElementEncoding::Varint };
    pub(super) const UINT64: List = List { number: 5, form: ElementEncoding::Varint };
    pub(super) const FP32: List = List { number: 6, form: ElementEncoding::Four };
    pub(super) const FP64: List = List { number: 7, form: ElementEncoding::Eight };
    pub(super) const BYTES: List = List { number: 8, form: ElementEncoding::Text };

    const ALL: [List; 8] =
        [List::BOOL, List::INT, List::INT64, List::UINT, List::UINT64, List::FP32, List::FP64, List::BYTES];

    /// Writes numbers as varints. Counts their bytes as used before writing them.
    pub(super) fn numbers(
        self,
        numbers: impl Iterator<Item = u64> + Clone,
        lease: &Lease,
    ) -> Result<Bytes, Refusal> {
        let length = numbers.clone().map(encoded_len_varint).sum();
        self.list(length, lease, |to| {
            for (at, number) in numbers.enumerate() {
                if at.is_multiple_of(CHECKED) {
                    cancel::check()?;
                }
                encode_varint(number, to);
            }
            Ok(())
        })
    }

    /// Writes floats from their little-endian bytes.
    pub(super) fn bytes(self, bytes: &[u8], lease: &Lease) -> Result<Bytes, Refusal> {
        self.list(bytes.len(), lease, |to| {
            to.extend_from_slice(bytes);
            Ok(())
        })
    }

    /// Writes a packed list of `length` bytes. An empty list is not written.
    fn list(
        self,
        length: usize,
        lease: &Lease,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), Refusal>,
    ) -> Result<Bytes, Refusal> {
        if length == 0 {
            return Ok(Bytes::new());
        }
        lease.grow(HEAD + length)?;
        let mut to = Vec::with_capacity(HEAD + length);
        encode_key(self.number, WireType::LengthDelimited, &mut to);
        encode_varint(length as u64, &mut to);
        write(&mut to)?;
        Ok(to.into())
    }

    /// Writes strings. `texts` returns a new iterator over the strings at each call.
    pub(super) fn texts<'a, I: Iterator<Item = &'a [u8]>>(
        self,
        texts: impl Fn() -> I,
        lease: &Lease,
    ) -> Result<Bytes, Refusal> {
        let length = texts()
            .map(|text| key_len(self.number) + encoded_len_varint(text.len() as u64) + text.len())
            .sum();
        lease.grow(length)?;
        let mut to = Vec::with_capacity(length);
        for (at, text) in texts().enumerate() {
            if at.is_multiple_of(CHECKED) {
                cancel::check()?;
            }
            encode_key(self.number, WireType::LengthDelimited, &mut to);
            encode_varint(text.len() as u64, &mut to);
            to.extend_from_slice(text);
        }
        Ok(to.into())
    }

    /// Returns the number of elements that a field adds to this list.
    fn elements(self, field: &Field<'_>) -> Result<usize, Refusal> {
        let broken = Refusal::Protobuf(None);
        let size = match (self.form, field.kind) {
            (ElementEncoding::Varint, WireType::Varint)
            | (ElementEncoding::Four, WireType::ThirtyTwoBit)
            | (ElementEncoding::Eight, WireType::SixtyFourBit)
            | (ElementEncoding::Text, WireType::LengthDelimited) => return Ok(1),
            (ElementEncoding::Varint, WireType::LengthDelimited) => match field.bytes.last() {
                Some(0x80..) => return Err(broken),
                _ => return Ok(varints(field.bytes)),
            },
            (ElementEncoding::Four, WireType::LengthDelimited) => 4,
            (ElementEncoding::Eight, WireType::LengthDelimited) => 8,
            _ => return Err(broken),
        };
        match field.bytes.len() % size {
            0 => Ok(field.bytes.len() / size),
            _ => Err(broken),
        }
    }
}

/// Counts the elements of a list of contents, without decoding them. Returns `None` if another list has elements.
pub(super) fn count_elements(contents: &[u8], own: List) -> Result<Option<usize>, Refusal> {
    let (mut count, mut others) = (0usize, false);
    for (at, field) in Fields(contents).enumerate() {
        if at.is_multiple_of(CHECKED) {
            cancel::check()?;
        }
        let field = field?;
        let Some(list) = List::ALL.into_iter().find(|list| list.number == field.number) else { continue };
        let elements = list.elements(&field)?;
        if list == own {
            count = count.saturating_add(elements);
        } else {
            others |= elements > 0;
        }
    }
    Ok((!others).then_some(count))
}

/// Calls `take` with each number of a list of contents: the value of a varint, or the bit pattern of a float.
pub(super) fn each_number(
    contents: &[u8],
    own: List,
    mut take: impl FnMut(u64) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let mut number = 0usize;
    let mut take = |bits: u64| {
        if number.is_multiple_of(CHECKED) {
            cancel::check()?;
        }
        number += 1;
        take(bits)
    };
    for field in Fields(contents) {
        let field = field?;
        if field.number != own.number {
            continue;
        }
        let mut rest = field.bytes;
        match (own.form, field.kind) {
            (ElementEncoding::Varint, WireType::Varint) => take(field.value)?,
            (ElementEncoding::Varint, _) => {
                while !rest.is_empty() {
                    take(decode_varint(&mut rest).map_err(|error| Refusal::Protobuf(Some(error)))?)?;
                }
            }
            (ElementEncoding::Four, _) => {
                for bits in rest.as_chunks::<4>().0 {
                    take(u32::from_le_bytes(*bits).into())?;
                }
            }
            (ElementEncoding::Eight, _) => {
                for bits in rest.as_chunks::<8>().0 {
                    take(u64::from_le_bytes(*bits))?;
                }
            }
            (ElementEncoding::Text, _) => {}
        }
    }
    Ok(())
}

/// Calls `take` with each string of contents.
pub(super) fn each_text(
    contents: &[u8],
    mut take: impl FnMut(&[u8]) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let mut index = 0usize;
    for field in Fields(contents) {
        let field = field?;
        if field.number == List::BYTES.number {
            if index.is_multiple_of(CHECKED) {
                cancel::check()?;
            }
            take(field.bytes)?;
            index += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::messages::inference::InferTensorContents;
    use prost::Message;

    #[test]
    fn elements_are_those_that_prost_decodes_packed_and_one_by_one() {
        let x = InferTensorContents {
            int64_contents: vec![-1, 0, 300, i64::MIN],
            fp32_contents: vec![1.5, -2.0],
            ..Default::default()
        };
        let mut bytes = x.encode_to_vec();
        // Appends field 3 as a single varint, and field 6 as a single float.
        bytes.extend([0x18, 0x96, 0x01, 0x35]);
        bytes.extend(7f32.to_le_bytes());
        let x = InferTensorContents::decode(bytes.as_slice()).unwrap();
        let (mut longs, mut floats) = (Vec::new(), Vec::new());
        each_number(&bytes, List::INT64, |x| {
            longs.push(x.cast_signed());
            Ok(())
        })
        .unwrap();
        each_number(&bytes, List::FP32, |x| {
            floats.push(f32::from_bits(u32::try_from(x).unwrap()));
            Ok(())
        })
        .unwrap();
        assert_eq!((longs, floats), (x.int64_contents, x.fp32_contents));
    }

    #[test]
    fn elements_are_counted_and_broken_lists_refused() {
        let texts = [0x42, 0].repeat(1000);
        assert_eq!(count_elements(&texts, List::BYTES).unwrap(), Some(1000));
        assert_eq!(count_elements(&texts, List::INT64).unwrap(), None);
        // An incomplete varint in field 3, and three bytes instead of four of a float in field 6.
        assert!(count_elements(&[0x1a, 1, 0x80], List::INT64).is_err());
        assert!(count_elements(&[0x32, 3, 0, 0, 0], List::FP32).is_err());
    }
}
