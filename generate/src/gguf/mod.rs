//! Reads GGUF files: metadata, and tensors in the formats of ggml.
//!
//! The numbers in a file are untrusted. Counts are checked against the number of remaining bytes before anything is allocated, so that the
//! memory for a file is proportional to its size. Tensors are inside the file, aligned, and do not overlap. The bytes of tensors are not
//! copied.
//!
//! Writing is not supported.
//!
//! Source: the specification of GGUF in the repository of ggml, versions 2 and 3.

mod blocks;
mod cursor;
mod error;
mod metadata;

pub use blocks::TensorType;
pub(crate) use blocks::{Blocks, Group, Layout};
pub use error::GgufError;
pub use metadata::MetaValue;

use bytes::Bytes;
use cursor::Cursor;
use std::collections::BTreeMap;

/// The maximum length of a key or of a tensor's name, in bytes, because errors repeat them.
const NAME: usize = 1 << 10;
/// The maximum number of characters of a string from a file that an error repeats.
const SHOWN: usize = 100;

/// Returns a string from a file for an error, shortened if it is long.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}
/// The minimum number of bytes of a key: a length, a type, and a value.
const KEY: usize = 8 + 4 + 1;
/// The minimum number of bytes of a tensor's description: a length, a number of dimensions, an extent, a type, and an offset.
const TENSOR: usize = 8 + 4 + 8 + 4 + 8;

/// A tensor of a file.
#[derive(Debug, Clone)]
pub struct GgufTensor {
    name: String,
    ty: TensorType,
    extents: Vec<u64>,
    bytes: Bytes,
}

impl GgufTensor {
    /// Returns the format of the elements.
    pub fn tensor_type(&self) -> TensorType {
        self.ty
    }

    /// Returns the extents in the order of the file. The first one is the fastest-varying, which is the length of a row.
    pub fn extents(&self) -> &[u64] {
        &self.extents
    }

    /// Returns the bytes of the elements.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the number of rows and the number of elements of a row.
    pub(crate) fn rows(&self) -> (usize, usize) {
        let (row, rows) =
            self.extents.split_first().map_or((1, 1), |(row, outer)| (*row, outer.iter().product()));
        // Both are at most twice the number of bytes of the file.
        (usize::try_from(rows).unwrap_or(usize::MAX), usize::try_from(row).unwrap_or(usize::MAX))
    }

    /// Computes all elements as floats, as ggml does.
    ///
    /// Shapes: in row-major order, the first of [`extents`](Self::extents) is the fastest.
    ///
    /// # Errors
    ///
    /// [`bb_ir::Error`] if there is not enough memory.
    pub fn dequantize(&self) -> Result<Vec<f32>, bb_ir::Error> {
        let mut all = Vec::new();
        blocks::dequantize(self.ty, &self.bytes, &mut all)?;
        Ok(all)
    }

    /// Dequantizes the bytes of some rows, and appends the elements to `all`.
    ///
    /// # Errors
    ///
    /// [`bb_ir::Error`] if there is not enough memory.
    pub(crate) fn append(&self, rows: &[u8], all: &mut Vec<f32>) -> Result<(), bb_ir::Error> {
        blocks::dequantize(self.ty, rows, all)
    }

    /// Returns the bytes of a row. They are empty for a row that the tensor does not have.
    pub(crate) fn row(&self, row: usize) -> &[u8] {
        let ((block, size), (_, length)) = (self.ty.block(), self.rows());
        let bytes = length / block * size;
        let range = row.checked_mul(bytes).and_then(|from| Some(from..from.checked_add(bytes)?));
        range.and_then(|range| self.bytes.get(range)).unwrap_or_default()
    }

    /// Checks the extents, the fastest-varying one first. Trailing extents of 1 are ignored.
    ///
    /// # Errors
    ///
    /// [`GgufError::Shape`] if they differ.
    pub(crate) fn expect(&self, expected: &[u64]) -> Result<&GgufTensor, GgufError> {
        let ones = |extents: &[u64]| extents.iter().rposition(|&n| n != 1).map_or(0, |last| last + 1);
        if self.extents.get(..ones(&self.extents)) == expected.get(..ones(expected)) {
            return Ok(self);
        }
        let (tensor, found) = (self.name.clone(), self.extents.clone());
        Err(GgufError::Shape { tensor, expected: expected.to_vec(), found })
    }
}

/// A GGUF file.
#[derive(Debug)]
pub struct Gguf {
    metadata: BTreeMap<String, MetaValue>,
    tensors: BTreeMap<String, GgufTensor>,
}

impl Gguf {
    /// Reads the metadata and finds the tensors.
    ///
    /// # Errors
    ///
    /// [`GgufError`] for a file that does not conform to the format.
    ///
    /// # Examples
    ///
    /// ```
    /// use bb_generate::gguf::Gguf;
    ///
    /// let mut file = b"GGUF".to_vec();
    /// file.extend(3u32.to_le_bytes()); // the version
    /// file.extend([0u8; 16]); // neither tensors nor metadata
    /// let file = Gguf::read(file.into())?;
    /// assert_eq!(file.tensors().count(), 0);
    /// # Ok::<(), bb_generate::gguf::GgufError>(())
    /// ```
    pub fn read(bytes: Bytes) -> Result<Gguf, GgufError> {
        let magic = bytes.get(..4).unwrap_or(&bytes);
        if magic != b"GGUF" {
            return Err(GgufError::Magic { found: magic.to_vec() });
        }
        let mut from = Cursor::new(&bytes);
        from.u32("the first bytes")?;
        let found = from.u32("the version")?;
        if !matches!(found, 2 | 3) {
            return Err(GgufError::Version { found });
        }
        let tensors = from.count("the number of tensors", TENSOR)?;
        let keys = from.count("the number of keys", KEY)?;
        let mut metadata = BTreeMap::new();
        for _ in 0..keys {
            let key = from.text("a key", NAME)?;
            let value = metadata::value(&mut from, key)?;
            if metadata.insert(key.to_owned(), value).is_some() {
                return Err(GgufError::Repeated { what: "key", name: key.to_owned() });
            }
        }
        let alignment = match metadata.get("general.alignment") {
            None => 32,
            Some(value) => {
                let kind = || GgufError::Kind {
                    key: "general.alignment".to_owned(),
                    expected: "a number",
                    found: value.describe(),
                };
                let found = value.uint().ok_or_else(kind)?;
                if !found.is_power_of_two() || found > 1 << 16 {
                    return Err(GgufError::Alignment { found });
                }
                found
            }
        };
        let described: Vec<Described> =
            (0..tensors).map(|_| Described::read(&mut from, alignment)).collect::<Result<_, _>>()?;
        let start = from.position().next_multiple_of(usize::try_from(alignment).unwrap_or(1));
        let data = if start <= bytes.len() { bytes.slice(start..) } else { Bytes::new() };
        let tensors = placed(described, &data)?;
        Ok(Gguf { metadata, tensors })
    }

    /// Returns a value of the metadata.
    pub fn get(&self, key: &str) -> Option<&MetaValue> {
        self.metadata.get(key)
    }

    /// Lists the metadata by key.
    pub fn metadata(&self) -> impl Iterator<Item = (&str, &MetaValue)> {
        self.metadata.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Lists the tensors by name.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &GgufTensor)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// Returns a tensor; `None` if no tensor has this name.
    pub fn find(&self, name: &str) -> Option<&GgufTensor> {
        self.tensors.get(name)
    }

    /// Returns a tensor.
    ///
    /// # Errors
    ///
    /// [`GgufError::MissingTensor`].
    pub fn tensor(&self, name: &str) -> Result<&GgufTensor, GgufError> {
        self.find(name).ok_or_else(|| GgufError::MissingTensor { tensor: name.to_owned() })
    }

    fn read_as<'a, T>(
        &'a self,
        key: &str,
        expected: &'static str,
        read: impl FnOnce(&'a MetaValue) -> Option<T>,
    ) -> Result<Option<T>, GgufError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let kind = || GgufError::Kind { key: key.to_owned(), expected, found: value.describe() };
        read(value).map(Some).ok_or_else(kind)
    }

    /// Returns a non-negative integer.
    ///
    /// # Errors
    ///
    /// [`GgufError::Kind`] for a value of another kind.
    pub fn uint(&self, key: &str) -> Result<Option<u64>, GgufError> {
        self.read_as(key, "a number that is not negative", MetaValue::uint)
    }

    /// Returns a number as a float.
    ///
    /// # Errors
    ///
    /// [`GgufError::Kind`] for a value of another kind.
    pub fn float(&self, key: &str) -> Result<Option<f64>, GgufError> {
        self.read_as(key, "a number", MetaValue::float)
    }

    /// Returns a boolean.
    ///
    /// # Errors
    ///
    /// [`GgufError::Kind`] for a value of another kind.
    pub fn truth(&self, key: &str) -> Result<Option<bool>, GgufError> {
        self.read_as(key, "a truth value", |value| match value {
            MetaValue::Bool(x) => Some(*x),
            _ => None,
        })
    }

    /// Returns a string.
    ///
    /// # Errors
    ///
    /// [`GgufError::Kind`] for a value of another kind.
    pub fn text(&self, key: &str) -> Result<Option<&str>, GgufError> {
        self.read_as(key, "a text", |value| match value {
            MetaValue::Text(x) => Some(x.as_ref()),
            _ => None,
        })
    }

    /// Returns a list of strings.
    ///
    /// # Errors
    ///
    /// [`GgufError::Kind`] for a value of another kind.
    pub fn texts(&self, key: &str) -> Result<Option<&[Box<str>]>, GgufError> {
        self.read_as(key, "a list of texts", |value| match value {
            MetaValue::Texts(x) => Some(x.as_slice()),
            _ => None,
        })
    }
}

/// The description of a tensor in the file.
struct Described {
    name: String,
    ty: TensorType,
    extents: Vec<u64>,
    offset: u64,
    size: u64,
}

impl Described {
    fn read(from: &mut Cursor<'_>, alignment: u64) -> Result<Described, GgufError> {
        let tensor = from.text("the name of a tensor", NAME)?.to_owned();
        let found = from.u32("the number of dimensions")?;
        if !matches!(found, 1..=4) {
            return Err(GgufError::Dimensions { tensor, found });
        }
        let extents: Vec<u64> = (0..found).map(|_| from.u64("an extent")).collect::<Result<_, _>>()?;
        let count = extents.iter().try_fold(1u64, |product, &n| product.checked_mul(n));
        let Some(count) = count.filter(|&count| count > 0 && count < 1 << 63) else {
            return Err(GgufError::Extents { tensor, extents });
        };
        let found = from.u32("the type of a tensor")?;
        let Some(ty) = TensorType::of(found) else { return Err(GgufError::TensorType { tensor, found }) };
        let (block, bytes) = ty.block();
        let row = extents.first().copied().unwrap_or(1);
        if !row.is_multiple_of(block as u64) {
            return Err(GgufError::Row { tensor, row, block });
        }
        let offset = from.u64("the offset of a tensor")?;
        if !offset.is_multiple_of(alignment) {
            return Err(GgufError::Offset { tensor, offset, alignment });
        }
        let Some(size) = (count / block as u64).checked_mul(bytes as u64) else {
            return Err(GgufError::Extents { tensor, extents });
        };
        Ok(Described { name: tensor, ty, extents, offset, size })
    }
}

/// Finds the bytes of tensors, and checks that they do not overlap.
fn placed(mut described: Vec<Described>, data: &Bytes) -> Result<BTreeMap<String, GgufTensor>, GgufError> {
    described.sort_by_key(|tensor| tensor.offset);
    for pair in described.windows(2) {
        if let [first, second] = pair
            && first.offset.checked_add(first.size).is_none_or(|end| end > second.offset)
        {
            return Err(GgufError::Overlap { first: first.name.clone(), second: second.name.clone() });
        }
    }
    let mut tensors = BTreeMap::new();
    for Described { name, ty, extents, offset, size } in described {
        let end = offset.checked_add(size).filter(|&end| end <= data.len() as u64);
        let Some(end) = end else {
            return Err(GgufError::Outside { tensor: name, offset, size, data: data.len() });
        };
        // Both are at most the length of the data.
        let bytes = data.slice(offset as usize..end as usize);
        let tensor = GgufTensor { name: name.clone(), ty, extents, bytes };
        if tensors.insert(name.clone(), tensor).is_some() {
            return Err(GgufError::Repeated { what: "tensor", name });
        }
    }
    Ok(tensors)
}
