//! Reads the first image file directory (IFD) of a TIFF or a BigTIFF.

use super::Fault;
use std::collections::BTreeMap;

/// The tags of an image. The values stay in the file, and are read on request.
#[derive(Debug)]
pub(super) struct Directory<'a> {
    little: bool,
    /// The values of each tag; `None` if the values are outside the file.
    entries: BTreeMap<u16, Option<Values<'a>>>,
}

/// The values of a tag.
#[derive(Debug, Clone, Copy)]
pub(super) struct Values<'a> {
    little: bool,
    kind: FieldType,
    bytes: &'a [u8],
}

/// The type of a tag's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldType {
    Unsigned(usize),
    Rational,
    Float(usize),
    Other(usize),
}

impl FieldType {
    fn of(number: u64) -> Option<FieldType> {
        Some(match number {
            1 => FieldType::Unsigned(1),
            3 => FieldType::Unsigned(2),
            4 | 13 => FieldType::Unsigned(4),
            16 | 18 => FieldType::Unsigned(8),
            5 => FieldType::Rational,
            11 => FieldType::Float(4),
            12 => FieldType::Float(8),
            2 | 6 | 7 => FieldType::Other(1),
            8 => FieldType::Other(2),
            9 => FieldType::Other(4),
            10 | 17 => FieldType::Other(8),
            _ => return None,
        })
    }

    fn size(self) -> usize {
        match self {
            FieldType::Unsigned(size) | FieldType::Float(size) | FieldType::Other(size) => size,
            FieldType::Rational => 8,
        }
    }
}

/// Reads an integer of up to eight bytes at an offset.
fn number(file: &[u8], at: usize, bytes: usize, little: bool) -> Option<u64> {
    let part = file.get(at..at.checked_add(bytes)?)?;
    let add = |sum: u64, byte: &u8| (sum << 8) | u64::from(*byte);
    Some(if little { part.iter().rev().fold(0, add) } else { part.iter().fold(0, add) })
}

impl<'a> Directory<'a> {
    /// Reads the first directory. Tags of an unknown type are skipped. If a tag has several entries, the first one
    /// counts.
    pub(super) fn read(file: &'a [u8]) -> Option<Directory<'a>> {
        let little = match file.get(..2)? {
            b"II" => true,
            b"MM" => false,
            _ => return None,
        };
        let number = |at: usize, bytes: usize| number(file, at, bytes, little);
        // The sizes of an offset and of the number of entries, and the position of the directory's offset.
        let (offset, counted, start) = match number(2, 2)? {
            42 => (4, 2, 4),
            43 if number(4, 2)? == 8 => (8, 8, 8),
            _ => return None,
        };
        let directory = usize::try_from(number(start, offset)?).ok()?;
        let first = directory.checked_add(counted)?;
        let step = 4 + 2 * offset;
        let count = usize::try_from(number(directory, counted)?).ok()?;
        if count > file.len().saturating_sub(first) / step {
            return None;
        }
        let mut entries = BTreeMap::new();
        for at in (0..count).map(|i| first + i * step) {
            let tag = number(at, 2)? as u16;
            let Some(kind) = FieldType::of(number(at + 2, 2)?) else { continue };
            let length =
                usize::try_from(number(at + 4, offset)?).ok().and_then(|n| n.checked_mul(kind.size()));
            let place = at + 4 + offset;
            let bytes = length.and_then(|length| {
                let place =
                    if length <= offset { place } else { usize::try_from(number(place, offset)?).ok()? };
                file.get(place..place.checked_add(length)?)
            });
            entries.entry(tag).or_insert(bytes.map(|bytes| Values { little, kind, bytes }));
        }
        Some(Directory { little, entries })
    }

    /// Returns whether numbers are little-endian.
    pub(super) fn little(&self) -> bool {
        self.little
    }

    /// Returns the values of a tag; `None` if the file does not have the tag.
    ///
    /// # Errors
    ///
    /// [`Fault::Damaged`] if the values are outside the file, or if the tag has no values.
    pub(super) fn values(&self, tag: u16) -> Result<Option<Values<'a>>, Fault> {
        match self.entries.get(&tag) {
            Some(Some(values)) if values.len() > 0 => Ok(Some(*values)),
            Some(_) => Err(Fault::Damaged),
            None => Ok(None),
        }
    }

    /// Returns the first value of a tag, which must be an unsigned integer.
    ///
    /// # Errors
    ///
    /// The errors of [`values`](Self::values).
    pub(super) fn number(&self, tag: u16) -> Result<Option<u64>, Fault> {
        let number = |values: Values<'_>| values.number(0).ok_or(Fault::Damaged);
        self.values(tag)?.map(number).transpose()
    }
}

impl<'a> Values<'a> {
    pub(super) fn len(&self) -> usize {
        self.bytes.len() / self.kind.size()
    }

    /// Returns the raw bytes of the values.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns a value, if the type is an unsigned integer.
    pub(super) fn number(&self, index: usize) -> Option<u64> {
        let FieldType::Unsigned(size) = self.kind else { return None };
        number(self.bytes, index.checked_mul(size)?, size, self.little)
    }

    /// Returns a value as a float.
    pub(super) fn float(&self, index: usize) -> Option<f64> {
        let read = |at: usize, size: usize| number(self.bytes, at, size, self.little);
        let at = index.checked_mul(self.kind.size())?;
        match self.kind {
            FieldType::Unsigned(size) => read(at, size).map(|v| v as f64),
            FieldType::Rational => Some(read(at, 4)? as f64 / read(at + 4, 4)? as f64),
            FieldType::Float(4) => read(at, 4).map(|v| f64::from(f32::from_bits(v as u32))),
            FieldType::Float(_) => read(at, 8).map(f64::from_bits),
            FieldType::Other(_) => None,
        }
    }
}
