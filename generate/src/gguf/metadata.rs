//! The metadata of a file: numbers, booleans, strings, and lists of these.

use super::GgufError;
use super::cursor::Cursor;

/// A value of the metadata.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum MetaValue {
    /// An unsigned integer of any width.
    Uint(u64),
    /// A signed integer of any width.
    Int(i64),
    /// A float of 32 or 64 bits.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A string.
    Text(Box<str>),
    /// A list of unsigned integers.
    Uints(Vec<u64>),
    /// A list of signed integers.
    Ints(Vec<i64>),
    /// A list of floats.
    Floats(Vec<f64>),
    /// A list of booleans.
    Bools(Vec<bool>),
    /// A list of strings.
    Texts(Vec<Box<str>>),
}

impl MetaValue {
    /// Describes the kind of the value, and its length if it is a list.
    pub fn describe(&self) -> String {
        match self {
            MetaValue::Uint(x) => format!("the number {x}"),
            MetaValue::Int(x) => format!("the number {x}"),
            MetaValue::Float(x) => format!("the float {x}"),
            MetaValue::Bool(x) => format!("the truth value {x}"),
            MetaValue::Text(_) => "a text".to_owned(),
            MetaValue::Uints(x) => format!("a list of {} numbers", x.len()),
            MetaValue::Ints(x) => format!("a list of {} numbers", x.len()),
            MetaValue::Floats(x) => format!("a list of {} floats", x.len()),
            MetaValue::Bools(x) => format!("a list of {} truth values", x.len()),
            MetaValue::Texts(x) => format!("a list of {} texts", x.len()),
        }
    }

    /// Returns a non-negative integer.
    pub fn uint(&self) -> Option<u64> {
        match self {
            MetaValue::Uint(x) => Some(*x),
            MetaValue::Int(x) => u64::try_from(*x).ok(),
            _ => None,
        }
    }

    /// Returns a number as a float.
    pub fn float(&self) -> Option<f64> {
        match self {
            MetaValue::Float(x) => Some(*x),
            MetaValue::Uint(x) => Some(*x as f64),
            MetaValue::Int(x) => Some(*x as f64),
            _ => None,
        }
    }
}

/// The scalar types of values, by their ids in the format.
#[derive(Debug, Clone, Copy)]
enum Scalar {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    Text,
    U64,
    I64,
    F64,
}

const ARRAY: u32 = 9;

impl Scalar {
    fn of(number: u32) -> Option<Scalar> {
        Some(match number {
            0 => Scalar::U8,
            1 => Scalar::I8,
            2 => Scalar::U16,
            3 => Scalar::I16,
            4 => Scalar::U32,
            5 => Scalar::I32,
            6 => Scalar::F32,
            7 => Scalar::Bool,
            8 => Scalar::Text,
            10 => Scalar::U64,
            11 => Scalar::I64,
            12 => Scalar::F64,
            _ => return None,
        })
    }

    /// Returns the minimum number of bytes of a value.
    fn least(self) -> usize {
        match self {
            Scalar::U8 | Scalar::I8 | Scalar::Bool => 1,
            Scalar::U16 | Scalar::I16 => 2,
            Scalar::U32 | Scalar::I32 | Scalar::F32 => 4,
            Scalar::Text | Scalar::U64 | Scalar::I64 | Scalar::F64 => 8,
        }
    }
}

fn uint(from: &mut Cursor<'_>, scalar: Scalar) -> Result<u64, GgufError> {
    const WHAT: &str = "a number of the metadata";
    Ok(match scalar.least() {
        1 => u64::from(from.u8(WHAT)?),
        2 => u64::from(from.u16(WHAT)?),
        4 => u64::from(from.u32(WHAT)?),
        _ => from.u64(WHAT)?,
    })
}

fn int(from: &mut Cursor<'_>, scalar: Scalar) -> Result<i64, GgufError> {
    let bits = uint(from, scalar)?;
    let unused = 64 - 8 * scalar.least() as u32;
    Ok((bits << unused).cast_signed() >> unused)
}

fn float(from: &mut Cursor<'_>, scalar: Scalar) -> Result<f64, GgufError> {
    let bits = uint(from, scalar)?;
    Ok(match u32::try_from(bits) {
        Ok(bits) if scalar.least() == 4 => f64::from(f32::from_bits(bits)),
        _ => f64::from_bits(bits),
    })
}

fn truth(from: &mut Cursor<'_>, key: &str) -> Result<bool, GgufError> {
    match from.u8("a truth value of the metadata")? {
        0 => Ok(false),
        1 => Ok(true),
        found => Err(GgufError::Truth { key: key.to_owned(), found }),
    }
}

/// Reads the type and the value of a key.
pub(super) fn value(from: &mut Cursor<'_>, key: &str) -> Result<MetaValue, GgufError> {
    const TEXT: &str = "a text of the metadata";
    let wrong = |found| GgufError::ValueType { key: key.to_owned(), found };
    let number = from.u32("the type of a value")?;
    if number != ARRAY {
        return Ok(match Scalar::of(number).ok_or_else(|| wrong(number))? {
            scalar @ (Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64) => {
                MetaValue::Uint(uint(from, scalar)?)
            }
            scalar @ (Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64) => {
                MetaValue::Int(int(from, scalar)?)
            }
            scalar @ (Scalar::F32 | Scalar::F64) => MetaValue::Float(float(from, scalar)?),
            Scalar::Bool => MetaValue::Bool(truth(from, key)?),
            Scalar::Text => MetaValue::Text(from.text(TEXT, usize::MAX)?.into()),
        });
    }
    let number = from.u32("the type of a list")?;
    let scalar = Scalar::of(number).ok_or_else(|| wrong(number))?;
    let count = from.count("the length of a list", scalar.least())?;
    let all = 0..count;
    Ok(match scalar {
        Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64 => {
            MetaValue::Uints(all.map(|_| uint(from, scalar)).collect::<Result<_, _>>()?)
        }
        Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => {
            MetaValue::Ints(all.map(|_| int(from, scalar)).collect::<Result<_, _>>()?)
        }
        Scalar::F32 | Scalar::F64 => {
            MetaValue::Floats(all.map(|_| float(from, scalar)).collect::<Result<_, _>>()?)
        }
        Scalar::Bool => MetaValue::Bools(all.map(|_| truth(from, key)).collect::<Result<_, _>>()?),
        Scalar::Text => {
            let text = |_| Ok(Box::from(from.text(TEXT, usize::MAX)?));
            MetaValue::Texts(all.map(text).collect::<Result<_, GgufError>>()?)
        }
    })
}
