//! Packs elements of less than a byte for host tensors, and unpacks them to one byte per element for
//! backends.
//!
//! Packed elements are a stream of bits: the first element is in the lowest bits of the first byte, and zero
//! bits fill the last byte. Source: `onnx.proto`, `TensorProto.raw_data`.

use super::{TensorData, aligned, element_count};
use crate::{DataType, Error, memory};
use std::borrow::Cow;

impl TensorData {
    /// Packs elements that are passed in one byte each. Only the low bits of each byte are used.
    ///
    /// If the type is not packed, the bytes are copied unchanged.
    ///
    /// # Errors
    ///
    /// [`Error::ByteLength`] if `shape` does not have `elements.len()` elements.
    pub fn pack(dtype: DataType, shape: &[usize], elements: &[u8]) -> Result<TensorData, Error> {
        if !dtype.is_sub_byte() {
            let bytes = aligned("making a tensor", elements.len(), |b| b.extend_from_slice(elements))?;
            return Self::adopt(dtype, shape, bytes);
        }
        let got = elements.len();
        match element_count(shape) {
            Some(n) if n == got => {
                let bytes = aligned("making a tensor", got, |b| pack_bits(dtype.bits(), elements, b))?;
                Self::adopt(dtype, shape, bytes)
            }
            expected => Err(Error::ByteLength {
                dtype,
                shape: shape.into(),
                expected: expected.unwrap_or(usize::MAX),
                got,
            }),
        }
    }

    /// Returns the elements, unpacked to one byte each if the type is packed.
    ///
    /// Signed integers are sign-extended, other types are zero-extended. If the type is not packed, the bytes
    /// are borrowed, of any alignment.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if the type is packed and the system has no memory for the copy; else as
    /// [`unaligned_bytes`](Self::unaligned_bytes).
    pub fn unpacked(&self) -> Result<Cow<'_, [u8]>, Error> {
        if !self.dtype().is_sub_byte() {
            return Ok(Cow::Borrowed(self.unaligned_bytes()?));
        }
        let packed = self.unaligned_bytes()?;
        let mut out = memory::filled("unpacking a tensor", 0, self.len())?;
        unpack_into(self.dtype(), packed, &mut out);
        Ok(Cow::Owned(out))
    }
}

/// Unpacks elements of `dtype` into `out`, one per byte, until `out` is full.
///
/// If `packed` has fewer elements, the rest of `out` is unchanged. If the type is not packed, all of `out` is
/// unchanged.
pub fn unpack_into(dtype: DataType, packed: &[u8], out: &mut [u8]) {
    match dtype {
        DataType::U4 | DataType::F4E2M1 => spread(packed, out, |b: [u8; 1]| [b[0] & 0xF, b[0] >> 4]),
        DataType::I4 => spread(packed, out, |b: [u8; 1]| {
            let b = b[0] as i8;
            [(b << 4 >> 4) as u8, (b >> 4) as u8]
        }),
        DataType::U2 => spread(packed, out, |b: [u8; 1]| [0, 2, 4, 6].map(|shift| b[0] >> shift & 3)),
        DataType::I2 => {
            spread(packed, out, |b: [u8; 1]| [6, 4, 2, 0].map(|shift| ((b[0] << shift) as i8 >> 6) as u8))
        }
        DataType::F6E2M3 | DataType::F6E3M2 => spread(packed, out, |[a, b, c]: [u8; 3]| {
            [a & 0x3F, a >> 6 | (b & 0xF) << 2, b >> 4 | (c & 3) << 4, c >> 2]
        }),
        _ => {}
    }
}

fn spread<const N: usize, const M: usize>(packed: &[u8], out: &mut [u8], f: impl Fn([u8; N]) -> [u8; M]) {
    let (groups, rest) = packed.as_chunks::<N>();
    let mut last = [0; N];
    for (l, &r) in last.iter_mut().zip(rest) {
        *l = r;
    }
    for (&group, out) in groups.iter().chain((!rest.is_empty()).then_some(&last)).zip(out.chunks_mut(M)) {
        for (o, v) in out.iter_mut().zip(f(group)) {
            *o = v;
        }
    }
}

fn pack_bits(bits: usize, elements: &[u8], out: &mut Vec<u8>) {
    let mask = (1u32 << bits) - 1;
    // Four elements fill exactly one, two or three bytes, depending on the width.
    for group in elements.chunks(4) {
        let stream = group.iter().rev().fold(0u32, |stream, &e| stream << bits | (u32::from(e) & mask));
        let bytes = (group.len() * bits).div_ceil(8);
        out.extend(stream.to_le_bytes().iter().take(bytes));
    }
}

/// Returns a mask of the bits in the last packed byte that no element uses.
pub(super) fn padding_mask(dtype: DataType, elements: usize) -> u8 {
    match elements.wrapping_mul(dtype.bits()) % 8 {
        0 => 0,
        used => u8::MAX << used,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// Source: `onnx.proto`: the first element is in the least significant bits; four six-bit elements share
    /// three bytes.
    #[test]
    fn first_element_is_lowest() {
        let t = TensorData::pack(DataType::U4, &[3], &[1, 2, 3]).unwrap();
        assert_eq!(t.bytes().unwrap()[..], [0x21, 0x03]);
        let t = TensorData::pack(DataType::I2, &[5], &[1, 0xFF, 0xFE, 0, 1]).unwrap();
        assert_eq!(t.bytes().unwrap()[..], [0b00_10_11_01, 0b01]);
        assert_eq!(t.unpacked().unwrap()[..], [1, 0xFF, 0xFE, 0, 1]);
        let (x0, x1, x2, x3) = (0x2A, 0x15, 0x3F, 0x01);
        let t = TensorData::pack(DataType::F6E2M3, &[4], &[x0, x1, x2, x3]).unwrap();
        assert_eq!(
            t.bytes().unwrap()[..],
            [x0 | (x1 & 3) << 6, x1 >> 2 | (x2 & 0xF) << 4, x2 >> 4 | x3 << 2]
        );
    }

    #[test]
    fn packing_and_unpacking_return_every_element() {
        for &dtype in DataType::ALL.iter().filter(|t| t.is_sub_byte()) {
            for n in 0..13 {
                let low = (1u16 << dtype.bits()) - 1;
                let elements: Vec<u8> = (0..n as u16).map(|i| ((i * 37) & low) as u8).collect();
                let t = TensorData::pack(dtype, &[n], &elements).unwrap();
                let back: Vec<u8> = t.unpacked().unwrap().iter().map(|&b| b & low as u8).collect();
                assert_eq!(back, elements, "{dtype} {n}");
            }
        }
    }

    #[test]
    fn signed_elements_keep_their_sign() {
        let t = TensorData::pack(DataType::I4, &[2], &[0xF8, 7]).unwrap();
        assert_eq!(t.unpacked().unwrap()[..], [0xF8, 7]);
    }

    #[test]
    fn padding_bits_do_not_make_tensors_differ() {
        let clean = TensorData::adopt(DataType::U4, &[1], vec![0x05].into()).unwrap();
        let dirty = TensorData::adopt(DataType::U4, &[1], vec![0xF5].into()).unwrap();
        assert_eq!(clean, dirty);
    }
}
