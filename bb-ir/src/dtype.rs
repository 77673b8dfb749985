//! Element types: compute types, which kernels compute in, and storage types, which are only stored, moved
//! and cast.

use half::{bf16, f16};
use num_complex::Complex;

/// Declares [`DataType`]. A row has the variant, ONNX's number of the type, the bits per element, the name,
/// and whether kernels compute in the type.
macro_rules! data_types {
    ($( $(#[$doc:meta])* $variant:ident = $onnx:literal, $bits:literal, $name:literal, $compute:literal; )*) => {
        /// The type of a tensor's elements.
        ///
        /// The discriminant is ONNX's number for the type (`TensorProto.DataType`).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum DataType { $( $(#[$doc])* $variant = $onnx, )* }

        impl DataType {
            /// Every element type, sorted by ONNX's number.
            pub const ALL: &'static [DataType] = &[$( DataType::$variant, )*];

            /// Returns the type that ONNX numbers `value`, if there is one.
            pub const fn from_onnx(value: i32) -> Option<DataType> {
                match value { $( $onnx => Some(DataType::$variant), )* _ => None }
            }

            /// Returns the size of an element in bits; 0 for [`String`](Self::String), whose elements differ
            /// in size.
            pub const fn bits(self) -> usize {
                match self { $( DataType::$variant => $bits, )* }
            }

            /// Returns the short name, as in `f32`.
            pub const fn name(self) -> &'static str {
                match self { $( DataType::$variant => $name, )* }
            }

            /// Returns whether backends compute in this type; the other types are storage types.
            pub const fn is_compute(self) -> bool {
                match self { $( DataType::$variant => $compute, )* }
            }

            /// Returns the type whose [`name`](Self::name) is `name`.
            pub fn from_name(name: &str) -> Option<DataType> {
                match name { $( $name => Some(DataType::$variant), )* _ => None }
            }
        }
    };
}

data_types! {
    /// IEEE 754 binary32.
    F32 = 1, 32, "f32", true;
    /// Unsigned 8-bit integer.
    U8 = 2, 8, "u8", true;
    /// Signed 8-bit integer.
    I8 = 3, 8, "i8", true;
    /// Unsigned 16-bit integer.
    U16 = 4, 16, "u16", true;
    /// Signed 16-bit integer.
    I16 = 5, 16, "i16", true;
    /// Signed 32-bit integer.
    I32 = 6, 32, "i32", true;
    /// Signed 64-bit integer.
    I64 = 7, 64, "i64", true;
    /// UTF-8 strings.
    String = 8, 0, "string", false;
    /// Boolean, stored as one byte that is 0 or 1.
    Bool = 9, 8, "bool", true;
    /// IEEE 754 binary16.
    F16 = 10, 16, "f16", true;
    /// IEEE 754 binary64.
    F64 = 11, 64, "f64", true;
    /// Unsigned 32-bit integer.
    U32 = 12, 32, "u32", true;
    /// Unsigned 64-bit integer.
    U64 = 13, 64, "u64", true;
    /// Complex number of two `f32`.
    C64 = 14, 64, "c64", false;
    /// Complex number of two `f64`.
    C128 = 15, 128, "c128", false;
    /// The upper half of an IEEE 754 binary32.
    BF16 = 16, 16, "bf16", true;
    /// 8-bit float, 4 exponent bits, NaN but no infinity.
    F8E4M3FN = 17, 8, "f8e4m3fn", false;
    /// 8-bit float, 4 exponent bits, one NaN, no infinity, no negative zero.
    F8E4M3FNUZ = 18, 8, "f8e4m3fnuz", false;
    /// 8-bit float, 5 exponent bits, with infinities.
    F8E5M2 = 19, 8, "f8e5m2", false;
    /// 8-bit float, 5 exponent bits, one NaN, no infinity, no negative zero.
    F8E5M2FNUZ = 20, 8, "f8e5m2fnuz", false;
    /// Unsigned 4-bit integer. On the host, a byte stores two; the first is in the low nibble.
    U4 = 21, 4, "u4", false;
    /// Signed 4-bit integer. On the host, a byte stores two; the first is in the low nibble.
    I4 = 22, 4, "i4", false;
    /// 4-bit float, 2 exponent bits, packed like [`U4`](Self::U4).
    F4E2M1 = 23, 4, "f4e2m1", false;
    /// 8-bit float that is a power of two: 8 exponent bits, no sign, no zero; the byte 255 is NaN.
    F8E8M0 = 24, 8, "f8e8m0", false;
    /// Unsigned 2-bit integer. On the host, a byte stores four; the first is in the lowest bits.
    U2 = 25, 2, "u2", false;
    /// Signed 2-bit integer. On the host, a byte stores four; the first is in the lowest bits.
    I2 = 26, 2, "i2", false;
    /// 6-bit float, 2 exponent bits.
    F6E2M3 = 27, 6, "f6e2m3", false;
    /// 6-bit float, 3 exponent bits.
    F6E3M2 = 28, 6, "f6e3m2", false;
}

impl DataType {
    /// Returns ONNX's number for the type.
    pub const fn to_onnx(self) -> i32 {
        self as i32
    }

    /// Returns whether the type is one of the four floating-point types that kernels compute in.
    pub const fn is_float(self) -> bool {
        matches!(self, DataType::F16 | DataType::BF16 | DataType::F32 | DataType::F64)
    }

    /// Returns whether the type is one of the eight integer types that kernels compute in.
    pub const fn is_integer(self) -> bool {
        self.is_signed_integer() || self.is_unsigned_integer()
    }

    /// Returns whether the type is `i8`, `i16`, `i32` or `i64`.
    pub const fn is_signed_integer(self) -> bool {
        matches!(self, DataType::I8 | DataType::I16 | DataType::I32 | DataType::I64)
    }

    /// Returns whether the type is `u8`, `u16`, `u32` or `u64`.
    pub const fn is_unsigned_integer(self) -> bool {
        matches!(self, DataType::U8 | DataType::U16 | DataType::U32 | DataType::U64)
    }

    /// Returns whether host tensors pack several elements into a byte.
    pub const fn is_sub_byte(self) -> bool {
        matches!(self.bits(), 1..8)
    }

    /// Returns the alignment of an element in memory, in bytes.
    pub const fn align(self) -> usize {
        match self {
            DataType::C64 => 4,
            DataType::C128 => 8,
            DataType::String => 8,
            other if other.bits() < 8 => 1,
            other => other.bits() / 8,
        }
    }

    /// Returns the size of `elements` elements in a host tensor, in bytes; `None` on overflow and for
    /// [`String`](Self::String).
    ///
    /// Elements of less than a byte are packed, and zero bits fill the last byte.
    pub const fn bytes_for(self, elements: usize) -> Option<usize> {
        if matches!(self, DataType::String) {
            return None;
        }
        match elements.checked_mul(self.bits()) {
            Some(bits) => Some(bits.div_ceil(8)),
            None => None,
        }
    }
}

impl std::fmt::Display for DataType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type of tensor elements whose values can be viewed as bytes.
///
/// `bool` does not implement this trait, because only the bytes 0 and 1 are valid `bool`s;
/// [`TensorData`](crate::TensorData) converts booleans one by one.
pub trait Element: sealed::Sealed + bytemuck::Pod + Send + Sync + std::fmt::Debug + PartialEq {
    /// The element type of tensors of `Self`.
    const DTYPE: DataType;
}

macro_rules! elements {
    ($( $ty:ty = $variant:ident, )*) => {$(
        impl sealed::Sealed for $ty {}
        impl Element for $ty {
            const DTYPE: DataType = DataType::$variant;
        }
    )*};
}

elements! {
    f16 = F16, bf16 = BF16, f32 = F32, f64 = F64,
    i8 = I8, i16 = I16, i32 = I32, i64 = I64,
    u8 = U8, u16 = U16, u32 = U32, u64 = U64,
    Complex<f32> = C64, Complex<f64> = C128,
}

#[cfg(test)]
mod tests {
    use super::DataType;

    /// In `onnx.proto`, `TensorProto.DataType` has the numbers 1 to 28 without gaps.
    #[test]
    fn numbers_are_those_of_onnx() {
        let numbers: Vec<i32> = DataType::ALL.iter().map(|t| t.to_onnx()).collect();
        assert_eq!(numbers, (1..=28).collect::<Vec<_>>());
        assert_eq!(DataType::ALL.iter().filter(|t| t.is_compute()).count(), 13);
        for &dtype in DataType::ALL {
            assert_eq!(DataType::from_onnx(dtype.to_onnx()), Some(dtype));
            assert_eq!(DataType::from_name(dtype.name()), Some(dtype));
        }
        assert_eq!(DataType::from_onnx(0), None);
    }

    #[test]
    fn packed_sizes_round_up_and_overflow_is_none() {
        assert_eq!(DataType::I4.bytes_for(3), Some(2));
        assert_eq!(DataType::U2.bytes_for(5), Some(2));
        assert_eq!(DataType::F64.bytes_for(usize::MAX / 4), None);
        assert_eq!(DataType::String.bytes_for(1), None);
    }
}
