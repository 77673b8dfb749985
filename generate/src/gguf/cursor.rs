//! Reads numbers and strings of a file, and checks each size against the number of remaining bytes.

use super::GgufError;

/// A position in the bytes of a file.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }

    pub(super) fn position(&self) -> usize {
        self.at
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    fn truncated(&self, what: &'static str, needed: u64) -> GgufError {
        GgufError::Truncated { what, offset: self.at, needed, left: self.rest().len() }
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], GgufError> {
        let (bytes, _) = self.rest().split_first_chunk().ok_or_else(|| self.truncated(what, N as u64))?;
        self.at += N;
        Ok(*bytes)
    }

    pub(super) fn u8(&mut self, what: &'static str) -> Result<u8, GgufError> {
        Ok(u8::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u16(&mut self, what: &'static str) -> Result<u16, GgufError> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, GgufError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, GgufError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// Reads the number of following items, which take at least `each` bytes per item.
    pub(super) fn count(&mut self, what: &'static str, each: usize) -> Result<usize, GgufError> {
        let offset = self.at;
        let found = self.u64(what)?;
        self.fits(what, offset, found, each)
    }

    /// Checks a count, which was read at `offset`, against the number of remaining bytes.
    pub(super) fn fits(
        &self,
        what: &'static str,
        offset: usize,
        found: u64,
        each: usize,
    ) -> Result<usize, GgufError> {
        let most = self.rest().len() / each.max(1);
        match usize::try_from(found) {
            Ok(count) if count <= most => Ok(count),
            _ => Err(GgufError::Count { what, offset, found, most: most as u64 }),
        }
    }

    /// Reads a string: its length in bytes, and its UTF-8 bytes.
    pub(super) fn text(&mut self, what: &'static str, most: usize) -> Result<&'a str, GgufError> {
        let offset = self.at;
        let found = self.u64(what)?;
        let length = usize::try_from(found).ok().filter(|&length| length <= most);
        let length = length.ok_or(GgufError::Count { what, offset, found, most: most as u64 })?;
        let bytes = self.rest().get(..length).ok_or_else(|| self.truncated(what, found))?;
        let text = std::str::from_utf8(bytes).map_err(|_| GgufError::Text { what, offset: self.at })?;
        self.at += length;
        Ok(text)
    }
}
