//! Scalars whose type is known only at run time: integers, floats and strings, with checked arithmetic.

mod arithmetic;
mod convert;

pub use convert::FloatParam;

use std::cmp::Ordering;
use std::fmt;

/// A number or string whose type is known only at run time. Host code uses it for parameters, settings and small
/// computations.
///
/// Not to be confused with [`ext::Scalar`](crate::ext::Scalar), the family of element-wise functions of tensors.
///
/// # Operations
///
/// The operations are [`add`](Self::add), [`sub`](Self::sub), [`mul`](Self::mul), [`div`](Self::div),
/// [`floor_div`](Self::floor_div), [`remainder`](Self::remainder), [`modulo`](Self::modulo), [`pow`](Self::pow),
/// [`neg`](Self::neg), [`abs`](Self::abs), [`min`](Self::min), [`max`](Self::max), [`equal`](Self::equal),
/// [`not_equal`](Self::not_equal), [`less`](Self::less), [`less_or_equal`](Self::less_or_equal),
/// [`greater`](Self::greater), [`greater_or_equal`](Self::greater_or_equal), [`floor`](Self::floor),
/// [`ceil`](Self::ceil), [`round`](Self::round), [`sqrt`](Self::sqrt), [`exp`](Self::exp), [`log`](Self::log),
/// [`sin`](Self::sin), [`cos`](Self::cos) and [`tan`](Self::tan). [`NumberOp`] lists them.
///
/// # Promotion
///
/// - The result of two integers is an integer. The results of `div`, and of `pow` with a negative exponent, are floats.
/// - The result of an integer and a float is a float: the integer is rounded to the nearest `f64`, ties to even, before
///   the operation.
/// - `min` and `max` return one of the operands unchanged. They compare mixed types exactly, without rounding. If the
///   operands are equal, they return the first.
/// - Comparisons of an integer with a float are exact, without rounding: `2^53 + 1` is greater than `2^53` as a float.
/// - `floor`, `ceil` and `round` keep the type. `round` rounds to the nearest integer, ties to even.
/// - `sqrt`, `exp`, `log`, `sin`, `cos` and `tan` return floats. An integer is rounded to the nearest `f64` first, ties
///   to even. Angles are in radians, and `log` is the natural logarithm. The last digit may differ between platforms,
///   except for `sqrt`, which is correctly rounded.
/// - `add` concatenates two strings. Strings are compared by their Unicode scalar values, also in `min` and `max`. All
///   other operations on strings, and any operation on a string and a number, are errors.
///
/// # Errors of operations
///
/// [`NumberError::Overflow`] for an integer result out of the range of `i64`; [`NumberError::DivisionByZero`] for a
/// divisor of 0, and for 0 to a negative power; [`NumberError::Domain`] for `sqrt` of a negative number, for `log` of a
/// negative number or of 0, and for a negative float to a fractional power; [`NumberError::NotFinite`] for an operand
/// or a result that is infinite or NaN; [`NumberError::Type`] for operand types that the operation does not support. A
/// float result that is too small for `f64` becomes 0 or a subnormal number.
///
/// # Examples
///
/// ```
/// use bb::number::{Number, NumberError};
///
/// # fn main() -> Result<(), NumberError> {
/// assert_eq!(Number::from(7).div(&Number::from(2))?, Number::from(3.5));
/// assert_eq!(Number::from(-7).floor_div(&Number::from(2))?, Number::from(-4));
/// assert_eq!(Number::from(-7).remainder(&Number::from(2))?, Number::from(-1));
/// assert_eq!(Number::from(-7).modulo(&Number::from(2))?, Number::from(1));
/// assert_eq!(Number::from(2.5).round()?, Number::from(2.0));
/// assert!(matches!(Number::from(i64::MAX).add(&Number::from(1)), Err(NumberError::Overflow { .. })));
/// assert_eq!(Number::from("ab").add(&Number::from("c"))?, Number::from("abc"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub enum Number {
    /// An integer.
    Integer(i64),
    /// A float.
    Float(f64),
    /// A string.
    Text(String),
}

/// The type of a [`Number`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NumberType {
    /// [`Number::Integer`].
    Integer,
    /// [`Number::Float`].
    Float,
    /// [`Number::Text`].
    Text,
}

impl fmt::Display for NumberType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NumberType::Integer => "integer",
            NumberType::Float => "float",
            NumberType::Text => "text",
        })
    }
}

/// An operation of [`Number`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NumberOp {
    /// [`Number::add`].
    Add,
    /// [`Number::sub`].
    Sub,
    /// [`Number::mul`].
    Mul,
    /// [`Number::div`].
    Div,
    /// [`Number::floor_div`].
    FloorDiv,
    /// [`Number::remainder`].
    Remainder,
    /// [`Number::modulo`].
    Modulo,
    /// [`Number::pow`].
    Pow,
    /// [`Number::neg`].
    Neg,
    /// [`Number::abs`].
    Abs,
    /// [`Number::min`].
    Min,
    /// [`Number::max`].
    Max,
    /// [`Number::equal`].
    Equal,
    /// [`Number::not_equal`].
    NotEqual,
    /// [`Number::less`].
    Less,
    /// [`Number::less_or_equal`].
    LessOrEqual,
    /// [`Number::greater`].
    Greater,
    /// [`Number::greater_or_equal`].
    GreaterOrEqual,
    /// [`Number::floor`].
    Floor,
    /// [`Number::ceil`].
    Ceil,
    /// [`Number::round`].
    Round,
    /// [`Number::sqrt`].
    Sqrt,
    /// [`Number::exp`].
    Exp,
    /// [`Number::log`].
    Log,
    /// [`Number::sin`].
    Sin,
    /// [`Number::cos`].
    Cos,
    /// [`Number::tan`].
    Tan,
}

impl NumberOp {
    /// Every operation.
    pub const ALL: [NumberOp; 27] = [
        NumberOp::Add,
        NumberOp::Sub,
        NumberOp::Mul,
        NumberOp::Div,
        NumberOp::FloorDiv,
        NumberOp::Remainder,
        NumberOp::Modulo,
        NumberOp::Pow,
        NumberOp::Neg,
        NumberOp::Abs,
        NumberOp::Min,
        NumberOp::Max,
        NumberOp::Equal,
        NumberOp::NotEqual,
        NumberOp::Less,
        NumberOp::LessOrEqual,
        NumberOp::Greater,
        NumberOp::GreaterOrEqual,
        NumberOp::Floor,
        NumberOp::Ceil,
        NumberOp::Round,
        NumberOp::Sqrt,
        NumberOp::Exp,
        NumberOp::Log,
        NumberOp::Sin,
        NumberOp::Cos,
        NumberOp::Tan,
    ];

    /// Returns the name of the method.
    pub const fn name(self) -> &'static str {
        match self {
            NumberOp::Add => "add",
            NumberOp::Sub => "sub",
            NumberOp::Mul => "mul",
            NumberOp::Div => "div",
            NumberOp::FloorDiv => "floor_div",
            NumberOp::Remainder => "remainder",
            NumberOp::Modulo => "modulo",
            NumberOp::Pow => "pow",
            NumberOp::Neg => "neg",
            NumberOp::Abs => "abs",
            NumberOp::Min => "min",
            NumberOp::Max => "max",
            NumberOp::Equal => "equal",
            NumberOp::NotEqual => "not_equal",
            NumberOp::Less => "less",
            NumberOp::LessOrEqual => "less_or_equal",
            NumberOp::Greater => "greater",
            NumberOp::GreaterOrEqual => "greater_or_equal",
            NumberOp::Floor => "floor",
            NumberOp::Ceil => "ceil",
            NumberOp::Round => "round",
            NumberOp::Sqrt => "sqrt",
            NumberOp::Exp => "exp",
            NumberOp::Log => "log",
            NumberOp::Sin => "sin",
            NumberOp::Cos => "cos",
            NumberOp::Tan => "tan",
        }
    }
}

impl fmt::Display for NumberOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn listed(operands: &[impl fmt::Display]) -> String {
    let operands: Vec<String> = operands.iter().map(ToString::to_string).collect();
    operands.join(" and ")
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Integer(value) => write!(f, "{value}"),
            // `{:?}` always writes a point or an exponent, so that the value does not look like an integer.
            Number::Float(value) => write!(f, "{value:?}"),
            Number::Text(text) => write!(f, "`{text}`"),
        }
    }
}

impl From<i64> for Number {
    fn from(value: i64) -> Number {
        Number::Integer(value)
    }
}

impl From<i32> for Number {
    fn from(value: i32) -> Number {
        Number::Integer(value.into())
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Number {
        Number::Float(value)
    }
}

impl From<&str> for Number {
    fn from(text: &str) -> Number {
        Number::Text(text.to_owned())
    }
}

impl From<String> for Number {
    fn from(text: String) -> Number {
        Number::Text(text)
    }
}

impl Number {
    /// Returns the type.
    pub fn number_type(&self) -> NumberType {
        match self {
            Number::Integer(_) => NumberType::Integer,
            Number::Float(_) => NumberType::Float,
            Number::Text(_) => NumberType::Text,
        }
    }

    /// Compares two values exactly; returns `None` if one is NaN, or if only one is a string.
    fn compared(&self, other: &Number) -> Option<Ordering> {
        match (self, other) {
            (Number::Integer(a), Number::Integer(b)) => Some(a.cmp(b)),
            (Number::Float(a), Number::Float(b)) => a.partial_cmp(b),
            (Number::Text(a), Number::Text(b)) => Some(a.cmp(b)),
            (Number::Integer(a), Number::Float(b)) => integer_to_float(*a, *b),
            (Number::Float(a), Number::Integer(b)) => integer_to_float(*b, *a).map(Ordering::reverse),
            (Number::Text(_), _) | (_, Number::Text(_)) => None,
        }
    }
}

/// Compares an integer with a float exactly.
fn integer_to_float(a: i64, b: f64) -> Option<Ordering> {
    // Every `i64` is between `-2^63` and `2^63`, which are exact as floats.
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    if b.is_nan() {
        return None;
    }
    if b >= BEYOND {
        return Some(Ordering::Less);
    }
    if b < -BEYOND {
        return Some(Ordering::Greater);
    }
    let whole = b.trunc();
    // A whole number in this range fits into an `i64`, so the conversion is exact.
    Some(a.cmp(&(whole as i64)).then(0f64.partial_cmp(&(b - whole))?))
}

/// Two values are equal only if their types are equal too: the integer 1 and the float 1 differ. [`Number::equal`]
/// compares only values.
impl PartialEq for Number {
    fn eq(&self, other: &Number) -> bool {
        match (self, other) {
            (Number::Integer(a), Number::Integer(b)) => a == b,
            (Number::Float(a), Number::Float(b)) => a == b,
            (Number::Text(a), Number::Text(b)) => a == b,
            _ => false,
        }
    }
}

/// The reason why a [`Number`] could not be computed or converted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NumberError {
    /// A float parameter was passed as a string.
    #[error("{value} is a text, expected a number")]
    NoFloat {
        /// The string.
        value: Number,
    },

    /// An integer result overflows `i64`.
    #[error("`{op}` of {} overflows 64 bits", listed(operands))]
    Overflow {
        /// The operation.
        op: NumberOp,
        /// The operands.
        operands: Vec<Number>,
    },

    /// The divisor is 0.
    #[error("`{op}` of {} divides by zero", listed(operands))]
    DivisionByZero {
        /// The operation.
        op: NumberOp,
        /// The operands.
        operands: Vec<Number>,
    },

    /// The operation has no real result for the operands.
    #[error("`{op}` of {} is not defined", listed(operands))]
    Domain {
        /// The operation.
        op: NumberOp,
        /// The operands.
        operands: Vec<Number>,
    },

    /// An operand or the result is infinite or NaN.
    #[error("`{op}` of {} is not finite", listed(operands))]
    NotFinite {
        /// The operation.
        op: NumberOp,
        /// The operands.
        operands: Vec<Number>,
    },

    /// The operation does not support operands of these types.
    #[error("`{op}` does not take {}", listed(operands))]
    Type {
        /// The operation.
        op: NumberOp,
        /// The types of the operands.
        operands: Vec<NumberType>,
    },

    /// An element type cannot represent the value.
    #[error("{value} is no value of {dtype}")]
    NoElement {
        /// The value.
        value: Number,
        /// The element type.
        dtype: bb_ir::DataType,
    },

    /// A tensor does not have exactly one number or string.
    #[error("a tensor of {dtype} and the shape {shape:?} is no number")]
    NoNumber {
        /// The tensor's element type.
        dtype: bb_ir::DataType,
        /// The tensor's shape.
        shape: Box<[usize]>,
    },
}

#[cfg(test)]
mod tests;
