//! Tensors of strings. A buffer contains `n + 1` offsets, followed by the bytes of all strings.

use super::{Elements, TensorData, aligned, element_count};
use crate::pace::Pace;
use crate::{DataType, Error, Shape, memory};
use std::borrow::Cow;

/// The size of an offset in bytes.
const OFFSET: usize = 8;

impl TensorData {
    /// Creates a tensor of strings, which are in row-major order. Strings are usually UTF-8, but may contain any bytes.
    ///
    /// # Errors
    ///
    /// [`Error::ByteLength`] if `shape` does not have `elements.len()` elements.
    pub fn strings<S: AsRef<[u8]>>(shape: &[usize], elements: &[S]) -> Result<TensorData, Error> {
        let shape = Shape::from_slice(shape);
        let n = elements.len();
        if element_count(&shape) != Some(n) {
            let expected = element_count(&shape).unwrap_or(usize::MAX);
            return Err(Error::ByteLength {
                dtype: DataType::String,
                shape: shape.as_slice().into(),
                expected,
                got: n,
            });
        }
        let text: usize = elements.iter().map(|s| s.as_ref().len()).sum();
        let bytes = aligned("making a tensor", (n + 1) * OFFSET + text, |bytes| {
            let (mut end, mut pace) = (0u64, Pace::new());
            bytes.extend_from_slice(&end.to_le_bytes());
            for s in elements {
                end += s.as_ref().len() as u64;
                bytes.extend_from_slice(&end.to_le_bytes());
                pace.step(1);
            }
            for s in elements {
                memory::extend(bytes, s.as_ref());
                pace.step(1);
            }
        })?;
        Ok(TensorData { dtype: DataType::String, shape, elements: Elements::Ready(bytes) })
    }

    /// Iterates over the strings in row-major order. The iterator is empty if the elements are not strings.
    /// Invalid UTF-8 is replaced by U+FFFD.
    pub fn iter_str(&self) -> impl ExactSizeIterator<Item = Cow<'_, str>> + Clone {
        self.iter_bytes().map(String::from_utf8_lossy)
    }

    /// Iterates over the bytes of the strings in row-major order. The iterator is empty if the elements are not strings.
    pub fn iter_bytes(&self) -> Strings<'_> {
        // Strings are never deferred, because the constructor has read them.
        let (DataType::String, Elements::Ready(bytes)) = (self.dtype(), &self.elements) else {
            return Strings { offsets: &[], text: &[] };
        };
        let (offsets, text) = bytes.split_at_checked((self.len() + 1) * OFFSET).unwrap_or_default();
        Strings { offsets: offsets.as_chunks().0, text }
    }

    /// Returns the string at `index` in row-major order, as [`iter_str`](Self::iter_str) does; `None` if there is none or the elements are
    /// not strings.
    pub fn str_at(&self, index: usize) -> Option<Cow<'_, str>> {
        self.iter_bytes().nth(index).map(String::from_utf8_lossy)
    }
}

/// A builder that creates a string tensor from strings that are appended one by one.
///
/// # Examples
///
/// ```
/// use bb_ir::StringsBuilder;
/// let mut strings = StringsBuilder::with_room("greet", 2)?;
/// strings.push("hello")?;
/// strings.push("world")?;
/// assert_eq!(strings.finish(&[2])?.str_at(1).as_deref(), Some("world"));
/// # Ok::<(), bb_ir::Error>(())
/// ```
#[derive(Debug)]
pub struct StringsBuilder {
    op: &'static str,
    /// For each string, the offset of its end.
    ends: Vec<u64>,
    text: Vec<u8>,
}

impl StringsBuilder {
    /// Creates a builder with room for `n` strings. Errors name the operation `op`.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if the system has no memory for the offsets.
    pub fn with_room(op: &'static str, n: usize) -> Result<StringsBuilder, Error> {
        Ok(StringsBuilder { op, ends: memory::room(op, n)?, text: Vec::new() })
    }

    /// Appends a string.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if the system has no memory for the string.
    pub fn push(&mut self, text: impl AsRef<[u8]>) -> Result<(), Error> {
        memory::append(self.op, &mut self.text, text.as_ref())?;
        memory::push(self.op, &mut self.ends, self.text.len() as u64)
    }

    /// Returns a tensor of the appended strings.
    ///
    /// # Errors
    ///
    /// [`Error::ByteLength`] if `shape` has another number of elements; [`Error::Memory`] if the system has
    /// no memory for the tensor.
    pub fn finish(self, shape: &[usize]) -> Result<TensorData, Error> {
        let n = self.ends.len();
        let (dtype, expected) = (DataType::String, element_count(shape));
        if expected != Some(n) {
            let expected = expected.unwrap_or(usize::MAX);
            return Err(Error::ByteLength { dtype, shape: shape.into(), expected, got: n });
        }
        let bytes = aligned(self.op, (n + 1) * OFFSET + self.text.len(), |bytes| {
            bytes.extend_from_slice(&0u64.to_le_bytes());
            let mut pace = Pace::new();
            self.ends.iter().for_each(|end| {
                bytes.extend_from_slice(&end.to_le_bytes());
                pace.step(1);
            });
            memory::extend(bytes, &self.text);
        })?;
        Ok(TensorData { dtype, shape: Shape::from_slice(shape), elements: Elements::Ready(bytes) })
    }
}

/// The bytes of the strings of a tensor, in row-major order. See [`TensorData::iter_bytes`].
#[derive(Debug, Clone)]
pub struct Strings<'a> {
    /// The offsets of the remaining strings, and the end of the last string; empty if the tensor has no strings.
    offsets: &'a [[u8; OFFSET]],
    text: &'a [u8],
}

impl<'a> Strings<'a> {
    fn first(&self) -> Option<&'a [u8]> {
        let &[start, end, ..] = self.offsets else {
            return None;
        };
        let range = u64::from_le_bytes(start) as usize..u64::from_le_bytes(end) as usize;
        self.text.get(range)
    }
}

impl<'a> Iterator for Strings<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.nth(0)
    }

    fn nth(&mut self, n: usize) -> Option<&'a [u8]> {
        self.offsets = self.offsets.get(n..).unwrap_or_default();
        let first = self.first();
        self.offsets = self.offsets.get(1..).unwrap_or_default();
        first
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let n = self.offsets.len().saturating_sub(1);
        (n, Some(n))
    }
}

impl ExactSizeIterator for Strings<'_> {}

/// Checks that `bytes` begin with `elements + 1` offsets that ascend from 0 to the length of the text.
pub(super) fn validate(shape: &Shape, elements: usize, bytes: &[u8]) -> Result<(), Error> {
    let expected = elements.saturating_add(1).saturating_mul(OFFSET);
    let Some((offsets, text)) = bytes.split_at_checked(expected) else {
        let got = bytes.len();
        return Err(Error::ByteLength {
            dtype: DataType::String,
            shape: shape.as_slice().into(),
            expected,
            got,
        });
    };
    let mut start = 0usize;
    for (i, &offset) in offsets.as_chunks::<OFFSET>().0.iter().enumerate() {
        let offset = u64::from_le_bytes(offset);
        let out_of_range = Error::StringOffset { index: i, offset, text: text.len() };
        let Ok(end) = usize::try_from(offset) else {
            return Err(out_of_range);
        };
        if i == 0 && end != 0 || i == elements && end != text.len() {
            return Err(out_of_range);
        }
        if end < start || end > text.len() {
            return Err(out_of_range);
        }
        start = end;
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn strings_come_back_in_order() {
        let t = TensorData::strings(&[3], &["a", "", "zwölf"]).unwrap();
        assert_eq!(t.iter_str().collect::<Vec<_>>(), ["a", "", "zwölf"]);
        assert_eq!(t.iter_str().len(), 3);
        assert_eq!((t.str_at(2).as_deref(), t.str_at(3)), (Some("zwölf"), None));
        let again = TensorData::adopt(DataType::String, &[3], t.bytes().unwrap().clone()).unwrap();
        assert_eq!(again, t);
        let none = TensorData::strings::<&str>(&[0, 2], &[]).unwrap();
        assert_eq!(none.iter_str().len(), 0);
    }

    #[test]
    fn bytes_that_are_no_text_are_kept_and_shown_with_replacements() {
        let t = TensorData::strings(&[2], &[&b"caf\xE9"[..], b"\xFF\xFE"]).unwrap();
        assert_eq!(t.iter_bytes().collect::<Vec<_>>(), [&b"caf\xE9"[..], b"\xFF\xFE"]);
        assert_eq!(t.iter_str().collect::<Vec<_>>(), ["caf\u{FFFD}", "\u{FFFD}\u{FFFD}"]);
    }

    #[test]
    fn offsets_must_rise_from_zero_to_the_end() {
        let adopt = |offsets: &[u64], text: &[u8]| {
            let mut bytes: Vec<u8> = offsets.iter().flat_map(|o| o.to_le_bytes()).collect();
            bytes.extend_from_slice(text);
            TensorData::adopt(DataType::String, &[offsets.len() - 1], bytes.into())
        };
        assert!(adopt(&[0, 1, 3], b"abc").is_ok());
        assert!(matches!(adopt(&[1, 2, 3], b"abc"), Err(Error::StringOffset { index: 0, .. })));
        assert!(matches!(adopt(&[0, 2, 1], b"abc"), Err(Error::StringOffset { index: 2, .. })));
        assert!(matches!(adopt(&[0, 3, 2, 3], b"abc"), Err(Error::StringOffset { index: 2, .. })));
        assert!(matches!(adopt(&[0, 1, 2], b"abc"), Err(Error::StringOffset { index: 2, .. })));
        assert!(matches!(adopt(&[0, u64::MAX, 3], b"abc"), Err(Error::StringOffset { index: 1, .. })));
        assert!(matches!(
            TensorData::adopt(DataType::String, &[2], vec![0; 23].into()),
            Err(Error::ByteLength { .. })
        ));
    }
}
