//! Encodes and decodes numbers, strings, lists and tensors.

use super::{Compact, Reader, Writer};
use crate::{DataType, Error, TensorData, memory};
use smallvec::SmallVec;

impl Compact for u64 {
    fn write(&self, to: &mut Writer) {
        let mut rest = *self;
        while rest >= 0x80 {
            to.bytes(&[rest as u8 | 0x80]);
            rest >>= 7;
        }
        to.bytes(&[rest as u8]);
    }

    fn read(from: &mut Reader<'_>) -> Result<u64, Error> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = from.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(from.fault("a number of 64 bits"))
    }
}

/// Signed integers are zigzag-encoded, so that small negative numbers are as short as small
/// positive numbers.
impl Compact for i64 {
    fn write(&self, to: &mut Writer) {
        ((*self << 1) ^ (*self >> 63)).cast_unsigned().write(to);
    }

    fn read(from: &mut Reader<'_>) -> Result<i64, Error> {
        let number = u64::read(from)?;
        Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }
}

/// Implements the encoding of integer types that are stored as a larger integer type.
macro_rules! integers {
    ($( $ty:ty = $expected:literal; )*) => { $(
        impl Compact for $ty {
            fn write(&self, to: &mut Writer) {
                (*self as u64).write(to);
            }

            fn read(from: &mut Reader<'_>) -> Result<$ty, Error> {
                let number = u64::read(from)?;
                <$ty>::try_from(number).map_err(|_| from.fault($expected))
            }
        }
    )* };
}

integers! {
    u8 = "a number of 8 bits";
    u16 = "a number of 16 bits";
    u32 = "a number of 32 bits";
    usize = "a number that an address can count";
}

/// Implements the encoding of floats: their bits in little-endian order.
macro_rules! floats {
    ($( $ty:ty: $size:literal; )*) => { $(
        impl Compact for $ty {
            fn write(&self, to: &mut Writer) {
                to.bytes(&self.to_le_bytes());
            }

            fn read(from: &mut Reader<'_>) -> Result<$ty, Error> {
                let bytes: [u8; $size] = from.take($size)?.try_into().map_err(|_| from.fault("a float"))?;
                Ok(<$ty>::from_le_bytes(bytes))
            }
        }
    )* };
}

floats! {
    f32: 4;
    f64: 8;
}

impl Compact for bool {
    fn write(&self, to: &mut Writer) {
        to.bytes(&[u8::from(*self)]);
    }

    fn read(from: &mut Reader<'_>) -> Result<bool, Error> {
        match from.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(from.fault("a truth value")),
        }
    }
}

impl Compact for String {
    fn write(&self, to: &mut Writer) {
        self.len().write(to);
        to.bytes(self.as_bytes());
    }

    fn read(from: &mut Reader<'_>) -> Result<String, Error> {
        let count = usize::read(from)?;
        let bytes = memory::copied("loading a compiled model", from.take(count)?)?;
        String::from_utf8(bytes).map_err(|_| from.fault("text in UTF-8"))
    }
}

impl<T: Compact> Compact for Vec<T> {
    fn write(&self, to: &mut Writer) {
        list(self, to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Vec<T>, Error> {
        let count = usize::read(from)?;
        // Each item takes at least one byte.
        if count > from.rest.len() {
            return Err(from.fault("a list no longer than the file"));
        }
        let mut items = Vec::new();
        for _ in 0..count {
            let item = T::read(from)?;
            memory::push("loading a compiled model", &mut items, item)?;
        }
        Ok(items)
    }
}

/// Writes a list.
fn list<T: Compact>(items: &[T], to: &mut Writer) {
    items.len().write(to);
    items.iter().for_each(|item| item.write(to));
}

impl<A: smallvec::Array<Item: Compact>> Compact for SmallVec<A> {
    fn write(&self, to: &mut Writer) {
        list(self, to);
    }

    fn read(from: &mut Reader<'_>) -> Result<SmallVec<A>, Error> {
        Ok(Vec::read(from)?.into())
    }
}

impl<T: Compact> Compact for Box<[T]> {
    fn write(&self, to: &mut Writer) {
        list(self, to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Box<[T]>, Error> {
        Ok(Vec::read(from)?.into())
    }
}

impl<T: Compact> Compact for Option<T> {
    fn write(&self, to: &mut Writer) {
        self.is_some().write(to);
        if let Some(value) = self {
            value.write(to);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Option<T>, Error> {
        bool::read(from)?.then(|| T::read(from)).transpose()
    }
}

impl<A: Compact, B: Compact> Compact for (A, B) {
    fn write(&self, to: &mut Writer) {
        self.0.write(to);
        self.1.write(to);
    }

    fn read(from: &mut Reader<'_>) -> Result<(A, B), Error> {
        Ok((A::read(from)?, B::read(from)?))
    }
}

impl Compact for DataType {
    fn write(&self, to: &mut Writer) {
        to.bytes(&[self.to_onnx() as u8]);
    }

    fn read(from: &mut Reader<'_>) -> Result<DataType, Error> {
        let number = i32::from(from.byte()?);
        DataType::from_onnx(number).ok_or_else(|| from.fault("an element type"))
    }
}

/// A tensor is encoded as its index in the table of tensors.
impl Compact for TensorData {
    fn write(&self, to: &mut Writer) {
        to.number_of(self).write(to);
    }

    fn read(from: &mut Reader<'_>) -> Result<TensorData, Error> {
        let number = usize::read(from)?;
        from.tensors.get(number).cloned().ok_or_else(|| from.fault("the number of a tensor of the file"))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::Limits;

    /// Encodes a value and decodes it again.
    fn both<T: Compact>(value: &T) -> (Vec<u8>, Result<T, Error>) {
        let mut to = Writer::default();
        value.write(&mut to);
        let limits = Limits::default();
        let mut from = Reader::new(&to.bytes, &to.tensors, &limits);
        let read = T::read(&mut from);
        from.finish().unwrap();
        (to.bytes, read)
    }

    #[test]
    fn numbers_come_back_and_small_ones_take_a_byte() {
        for number in [0, 1, -1, 63, -64, 64, i64::MAX, i64::MIN] {
            let (bytes, read) = both(&number);
            assert_eq!(read.unwrap(), number);
            assert_eq!(bytes.len() == 1, (-64..64).contains(&number), "{number}");
        }
        for number in [0, 127, 128, u64::MAX] {
            assert_eq!(both(&number).1.unwrap(), number);
        }
    }

    #[test]
    fn numbers_of_more_bits_are_refused() {
        let limits = Limits::default();
        let read = |bytes: &[u8]| u64::read(&mut Reader::new(bytes, &[], &limits));
        // Nine bytes contain 9 · 7 = 63 bits, so the tenth byte may only be 0 or 1.
        let longest = [&[0xff; 9][..], &[1]].concat();
        assert_eq!(read(&longest).unwrap(), u64::MAX);
        for bytes in [[&[0xff; 9][..], &[2]].concat(), vec![0xff; 11], vec![0x80]] {
            assert!(matches!(read(&bytes), Err(Error::SavedForm { .. })), "{bytes:?}");
        }
        assert!(matches!(u8::read(&mut Reader::new(&[0x80, 2], &[], &limits)), Err(Error::SavedForm { .. })));
    }

    #[test]
    fn a_list_that_claims_more_items_than_bytes_is_refused_before_it_allocates() {
        let (mut bytes, _) = both(&(u64::MAX >> 1));
        bytes.extend([0; 100]);
        let limits = Limits::default();
        let read = Vec::<u64>::read(&mut Reader::new(&bytes, &[], &limits));
        assert!(matches!(read, Err(Error::SavedForm { .. })));
    }

    #[test]
    fn a_tensor_that_others_share_is_stored_once() {
        let x = TensorData::new(&[2], &[1f32, 2.0]).unwrap();
        let mut to = Writer::default();
        vec![x.clone(), x.clone()].write(&mut to);
        assert_eq!((to.tensors.as_slice(), to.bytes.as_slice()), (&[x][..], &[2, 0, 0][..]));
    }
}
