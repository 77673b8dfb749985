//! The element types of this backend, and their representation in buffers.
//!
//! Every element uses one 32-bit word of a buffer, whatever its type. So a kernel can read and write any element
//! without its neighbours, and kernels that only move elements are the same for all types. Signed integers are
//! sign-extended; other small types are zero-extended.

use crate::Result;
use bb::ir::memory;
use bb::{DataType, TensorData};

/// An element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Elem {
    F32,
    F16,
    BF16,
    I32,
    I16,
    I8,
    U32,
    U16,
    U8,
    Bool,
}

/// The type that a kernel computes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Float,
    Signed,
    Unsigned,
    Truth,
}

impl Kind {
    /// Returns the name of the type in WGSL.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Float => "f32",
            Kind::Signed => "i32",
            Kind::Unsigned | Kind::Truth => "u32",
        }
    }
}

impl Elem {
    /// Converts an element type. Returns an error with the name of the operation if this backend does not support the
    /// type.
    pub(crate) fn of(op: &'static str, dtype: DataType) -> Result<Elem> {
        Ok(match dtype {
            DataType::F32 => Elem::F32,
            DataType::F16 => Elem::F16,
            DataType::BF16 => Elem::BF16,
            DataType::I32 => Elem::I32,
            DataType::I16 => Elem::I16,
            DataType::I8 => Elem::I8,
            DataType::U32 => Elem::U32,
            DataType::U16 => Elem::U16,
            DataType::U8 => Elem::U8,
            DataType::Bool => Elem::Bool,
            dtype => return Err(bb::ir::Error::Unsupported { op, dtype }.into()),
        })
    }

    pub(crate) fn dtype(self) -> DataType {
        match self {
            Elem::F32 => DataType::F32,
            Elem::F16 => DataType::F16,
            Elem::BF16 => DataType::BF16,
            Elem::I32 => DataType::I32,
            Elem::I16 => DataType::I16,
            Elem::I8 => DataType::I8,
            Elem::U32 => DataType::U32,
            Elem::U16 => DataType::U16,
            Elem::U8 => DataType::U8,
            Elem::Bool => DataType::Bool,
        }
    }

    pub(crate) fn kind(self) -> Kind {
        match self {
            Elem::F32 | Elem::F16 | Elem::BF16 => Kind::Float,
            Elem::I32 | Elem::I16 | Elem::I8 => Kind::Signed,
            Elem::U32 | Elem::U16 | Elem::U8 => Kind::Unsigned,
            Elem::Bool => Kind::Truth,
        }
    }

    /// Returns a WGSL expression that converts a word to a value.
    pub(crate) fn load(self, word: &str) -> String {
        match self {
            Elem::F32 => format!("bitcast<f32>({word})"),
            Elem::F16 => format!("unpack2x16float({word}).x"),
            Elem::BF16 => format!("bitcast<f32>({word} << 16u)"),
            Elem::I32 | Elem::I16 | Elem::I8 => format!("bitcast<i32>({word})"),
            Elem::U32 | Elem::U16 | Elem::U8 | Elem::Bool => word.to_owned(),
        }
    }

    /// Returns a WGSL expression that converts a value to a word. It rounds floats and wraps integers.
    pub(crate) fn store(self, value: &str) -> String {
        match self {
            Elem::F32 | Elem::I32 => format!("bitcast<u32>({value})"),
            Elem::F16 => format!("half_({value})"),
            Elem::BF16 => format!("brain_({value})"),
            Elem::I16 => format!("bitcast<u32>((({value}) << 16u) >> 16u)"),
            Elem::I8 => format!("bitcast<u32>((({value}) << 24u) >> 24u)"),
            Elem::U32 | Elem::Bool => format!("({value})"),
            Elem::U16 => format!("(({value}) & 0xffffu)"),
            Elem::U8 => format!("(({value}) & 0xffu)"),
        }
    }

    /// Returns a WGSL expression that converts a value of this type to the type `to`, before it is stored.
    pub(crate) fn convert(self, to: Elem, value: &str) -> String {
        match (self.kind(), to.kind()) {
            (from, to) if from == to => value.to_owned(),
            (Kind::Unsigned, Kind::Truth) => format!("u32({value} != 0u)"),
            (Kind::Truth, Kind::Unsigned) => value.to_owned(),
            (Kind::Float, Kind::Truth) => format!("u32((bitcast<u32>({value}) & 0x7fffffffu) != 0u)"),
            (Kind::Signed, Kind::Truth) => format!("u32({value} != 0)"),
            (Kind::Float, Kind::Signed) => format!("int_({value})"),
            // Smaller unsigned integers are converted through 32-bit signed integers.
            (Kind::Float, _) if to != Elem::U32 => format!("bitcast<u32>(int_({value}))"),
            (Kind::Float, _) => format!("uint_({value})"),
            (_, Kind::Float) => format!("f32({value})"),
            (_, Kind::Signed) => format!("bitcast<i32>({value})"),
            (_, Kind::Unsigned) => format!("bitcast<u32>({value})"),
            (_, Kind::Truth) => value.to_owned(),
        }
    }

    /// Converts the elements of a host tensor to words.
    pub(crate) fn words(self, x: &TensorData) -> Result<Vec<u32>> {
        let bytes = x.bytes()?;
        let op = "constant";
        let halves = || bytes.as_chunks::<2>().0.iter().map(|&pair| u16::from_le_bytes(pair));
        Ok(match self {
            Elem::F32 | Elem::I32 | Elem::U32 => {
                let words = bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word));
                memory::collected(op, words)?
            }
            Elem::F16 | Elem::BF16 | Elem::U16 => memory::collected(op, halves().map(u32::from))?,
            Elem::I16 => memory::collected(op, halves().map(|x| i32::from(x.cast_signed()).cast_unsigned()))?,
            Elem::I8 => {
                let signed = bytes.iter().map(|&x| i32::from(x.cast_signed()).cast_unsigned());
                memory::collected(op, signed)?
            }
            Elem::U8 | Elem::Bool => memory::collected(op, bytes.iter().map(|&x| u32::from(x)))?,
        })
    }

    /// Converts words to the bytes of a host tensor.
    ///
    /// Units: `into` has room for one element for each word of `words`.
    pub(crate) fn read(self, words: &[u8], into: &mut [u8]) {
        match self {
            Elem::F32 | Elem::I32 | Elem::U32 => {
                for (to, from) in into.iter_mut().zip(words) {
                    *to = *from;
                }
            }
            Elem::F16 | Elem::BF16 | Elem::U16 | Elem::I16 => {
                for (to, &[a, b, ..]) in into.as_chunks_mut::<2>().0.iter_mut().zip(words.as_chunks::<4>().0)
                {
                    *to = [a, b];
                }
            }
            Elem::I8 | Elem::U8 | Elem::Bool => {
                for (to, &[a, ..]) in into.iter_mut().zip(words.as_chunks::<4>().0) {
                    *to = a;
                }
            }
        }
    }

    /// Returns the size in bytes of an element on the host.
    pub(crate) fn host_size(self) -> usize {
        match self {
            Elem::F32 | Elem::I32 | Elem::U32 => 4,
            Elem::F16 | Elem::BF16 | Elem::U16 | Elem::I16 => 2,
            Elem::I8 | Elem::U8 | Elem::Bool => 1,
        }
    }
}
