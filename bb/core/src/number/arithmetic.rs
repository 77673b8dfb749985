//! The operations of [`Number`].

use super::{Number, NumberError, NumberOp};
use std::cmp::Ordering;

type Outcome = Result<Number, NumberError>;

/// The kinds of failure of an operation on numbers.
enum Wrong {
    Overflow,
    DivisionByZero,
    Domain,
    NotFinite,
}

impl Number {
    fn wrong(op: NumberOp, operands: &[&Number], wrong: Wrong) -> NumberError {
        let operands = operands.iter().map(|&operand| operand.clone()).collect();
        match wrong {
            Wrong::Overflow => NumberError::Overflow { op, operands },
            Wrong::DivisionByZero => NumberError::DivisionByZero { op, operands },
            Wrong::Domain => NumberError::Domain { op, operands },
            Wrong::NotFinite => NumberError::NotFinite { op, operands },
        }
    }

    fn refused(op: NumberOp, operands: &[&Number]) -> NumberError {
        NumberError::Type { op, operands: operands.iter().map(|operand| operand.number_type()).collect() }
    }

    /// Returns the value as a float; `None` for a string.
    fn float(&self) -> Option<f64> {
        match self {
            Number::Integer(value) => Some(*value as f64),
            Number::Float(value) => Some(*value),
            Number::Text(_) => None,
        }
    }

    /// Returns an error if an operand is infinite or NaN.
    fn finite(op: NumberOp, operands: &[&Number]) -> Result<(), NumberError> {
        match operands.iter().all(|operand| operand.float().is_none_or(f64::is_finite)) {
            true => Ok(()),
            false => Err(Number::wrong(op, operands, Wrong::NotFinite)),
        }
    }

    /// Computes an operation on two integers, or on two floats.
    fn binary(
        &self,
        op: NumberOp,
        other: &Number,
        integers: impl FnOnce(i64, i64) -> Result<Number, Wrong>,
        floats: impl FnOnce(f64, f64) -> Result<f64, Wrong>,
    ) -> Outcome {
        let operands = [self, other];
        Number::finite(op, &operands)?;
        let result = match (self, other) {
            (Number::Integer(a), Number::Integer(b)) => integers(*a, *b),
            _ => match (self.float(), other.float()) {
                (Some(a), Some(b)) => floats(a, b).map(Number::Float),
                _ => return Err(Number::refused(op, &operands)),
            },
        };
        match result {
            Ok(Number::Float(value)) if !value.is_finite() => {
                Err(Number::wrong(op, &operands, Wrong::NotFinite))
            }
            Ok(value) => Ok(value),
            Err(wrong) => Err(Number::wrong(op, &operands, wrong)),
        }
    }

    /// Computes an operation on an integer or on a float.
    fn unary(
        &self,
        op: NumberOp,
        integer: impl FnOnce(i64) -> Option<i64>,
        float: impl FnOnce(f64) -> f64,
    ) -> Outcome {
        Number::finite(op, &[self])?;
        match self {
            Number::Integer(value) => match integer(*value) {
                Some(value) => Ok(Number::Integer(value)),
                None => Err(Number::wrong(op, &[self], Wrong::Overflow)),
            },
            Number::Float(value) => Ok(Number::Float(float(*value))),
            Number::Text(_) => Err(Number::refused(op, &[self])),
        }
    }

    /// Returns the sum of two numbers, or the concatenation of two strings.
    ///
    /// # Errors
    ///
    /// The errors that [`Number`] documents.
    pub fn add(&self, other: &Number) -> Outcome {
        if let (Number::Text(a), Number::Text(b)) = (self, other) {
            return Ok(Number::Text(format!("{a}{b}")));
        }
        self.binary(NumberOp::Add, other, |a, b| whole(a.checked_add(b)), |a, b| Ok(a + b))
    }

    /// Returns the difference.
    ///
    /// # Errors
    ///
    /// The errors that [`Number`] documents.
    pub fn sub(&self, other: &Number) -> Outcome {
        self.binary(NumberOp::Sub, other, |a, b| whole(a.checked_sub(b)), |a, b| Ok(a - b))
    }

    /// Returns the product.
    ///
    /// # Errors
    ///
    /// The errors that [`Number`] documents.
    pub fn mul(&self, other: &Number) -> Outcome {
        self.binary(NumberOp::Mul, other, |a, b| whole(a.checked_mul(b)), |a, b| Ok(a * b))
    }

    /// Returns the quotient as a float. Integers are rounded to floats first.
    ///
    /// # Errors
    ///
    /// The errors that [`Number`] documents.
    pub fn div(&self, other: &Number) -> Outcome {
        let floats = |a: f64, b: f64| if b == 0.0 { Err(Wrong::DivisionByZero) } else { Ok(a / b) };
        self.binary(NumberOp::Div, other, |a, b| floats(a as f64, b as f64).map(Number::Float), floats)
    }

    /// Returns the quotient rounded down, towards negative infinity.
    ///
    /// For floats, this is the quotient that matches [`modulo`](Self::modulo), rounded to `f64`.
    ///
    /// # Errors
    ///
    /// The errors that [`Number`] documents.
    pub fn floor_div(&self, other: &Number) -> Outcome {
        let integers = |a: i64, b: i64| match a.checked_rem(b) {
            None if b == 0 => Err(Wrong::DivisionByZero),
            // `i64::MIN / -1` overflows.
            None => Err(Wrong::Overflow),
            Some(rest) => whole(a.checked_div(b).map(|q| q - i64::from(rest != 0 && (rest < 0) != (b < 0)))),
        };
        self.binary(NumberOp::FloorDiv, other, integers, |a, b| {
            let rest = float_modulo(a, b)?;
            // Apart from rounding, the difference is a multiple of the divisor, so the nearest whole number is the
            // quotient.
            Ok(((a - rest) / b).round_ties_even())
        })
    }

    /// Returns the remainder of the quotient rounded towards zero. It has the sign of the dividend.
    ///
    /// # Errors
    ///
    /// The errors that [`Number`] documents.
    pub fn remainder(&self, other: &Number) -> Outcome {
        let integers = |a: i64, b: i64| match b {
            0 => Err(Wrong::DivisionByZero),
            _ => Ok(Number::Integer(a.wrapping_rem(b))),
        };
        let floats = |a: f64, b: f64| if b == 0.0 { Err(Wrong::DivisionByZero) } else { Ok(a % b) };
        self.binary(NumberOp::Remainder, other, integers, floats)
    }

    /// Returns the remainder of the quotient rounded down. It has the sign of the divisor.
    ///
    /// # Errors
    ///
    /// The errors that [`Number`] documents.
    pub fn modulo(&self, other: &Number) -> Outcome {
        let integers = |a: i64, b: i64| {
            if b == 0 {
                return Err(Wrong::DivisionByZero);
            }
            let rest = a.wrapping_rem(b);
            Ok(Number::Integer(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }))
        };
        self.binary(NumberOp::Modulo, other, integers, float_modulo)
    }

    /// Returns the power. 0 to the power of 0 is 1.
    ///
    /// # Errors
    ///
    /// The errors that [`Number`] documents.
    pub fn pow(&self, other: &Number) -> Outcome {
        let floats = |a: f64, b: f64| match a.powf(b) {
            _ if a == 0.0 && b < 0.0 => Err(Wrong::DivisionByZero),
            power if power.is_nan() => Err(Wrong::Domain),
            power => Ok(power),
        };
        let integers = |a: i64, b: i64| {
            if b < 0 {
                return floats(a as f64, b as f64).map(Number::Float);
            }
            let power = match (a, u32::try_from(b)) {
                (_, Ok(exponent)) => a.checked_pow(exponent),
                // For exponents this large, only the bases 0, 1 and -1 have powers that fit.
                (0 | 1, Err(_)) => Some(a),
                (-1, Err(_)) => Some(if b % 2 == 0 { 1 } else { -1 }),
                (_, Err(_)) => None,
            };
            whole(power)
        };
        self.binary(NumberOp::Pow, other, integers, floats)
    }

    /// Returns the negated number.
    ///
    /// # Errors
    ///
    /// The errors that [`Number`] documents.
    pub fn neg(&self) -> Outcome {
        self.unary(NumberOp::Neg, i64::checked_neg, |a| -a)
    }

    /// Returns the absolute value.
    ///
    /// # Errors
    ///
    /// The errors that [`Number`] documents.
    pub fn abs(&self) -> Outcome {
        self.unary(NumberOp::Abs, i64::checked_abs, f64::abs)
    }

    /// Returns the greatest whole number that is at most this number, with the same type.
    ///
    /// # Errors
    ///
    /// The errors that [`Number`] documents.
    pub fn floor(&self) -> Outcome {
        self.unary(NumberOp::Floor, Some, f64::floor)
    }

    /// Returns the least whole number that is at least this number, with the same type.
    ///
    /// # Errors
    ///
    /// The errors that [`Number`] documents.
    pub fn ceil(&self) -> Outcome {
        self.unary(NumberOp::Ceil, Some, f64::ceil)
    }

    /// Returns the nearest whole number, ties to even, with the same type.
    ///
    /// # Errors
    ///
    /// The errors that [`Number`] documents.
    pub fn round(&self) -> Outcome {
        self.unary(NumberOp::Round, Some, f64::round_ties_even)
    }

    /// Computes a function with a float result. An integer operand is converted first.
    fn function(&self, op: NumberOp, function: impl FnOnce(f64) -> Result<f64, Wrong>) -> Outcome {
        Number::finite(op, &[self])?;
        let operand = self.float().ok_or_else(|| Number::refused(op, &[self]))?;
        match function(operand) {
            Ok(value) if value.is_finite() => Ok(Number::Float(value)),
            Ok(_) => Err(Number::wrong(op, &[self], Wrong::NotFinite)),
            Err(wrong) => Err(Number::wrong(op, &[self], wrong)),
        }
    }

    /// Returns the square root, correctly rounded. The square root of `-0.0` is `-0.0`.
    ///
    /// # Errors
    ///
    /// The errors that [`Number`] documents.
    pub fn sqrt(&self) -> Outcome {
        self.function(NumberOp::Sqrt, |a| if a < 0.0 { Err(Wrong::Domain) } else { Ok(a.sqrt()) })
    }

    /// Returns the exponential.
    ///
    /// # Errors
    ///
    /// The errors that [`Number`] documents.
    pub fn exp(&self) -> Outcome {
        self.function(NumberOp::Exp, |a| Ok(a.exp()))
    }

    /// Returns the natural logarithm.
    ///
    /// # Errors
    ///
    /// The errors that [`Number`] documents.
    pub fn log(&self) -> Outcome {
        self.function(NumberOp::Log, |a| if a <= 0.0 { Err(Wrong::Domain) } else { Ok(a.ln()) })
    }

    /// Returns the sine of an angle in radians.
    ///
    /// # Errors
    ///
    /// The errors that [`Number`] documents.
    pub fn sin(&self) -> Outcome {
        self.function(NumberOp::Sin, |a| Ok(a.sin()))
    }

    /// Returns the cosine of an angle in radians.
    ///
    /// # Errors
    ///
    /// The errors that [`Number`] documents.
    pub fn cos(&self) -> Outcome {
        self.function(NumberOp::Cos, |a| Ok(a.cos()))
    }

    /// Returns the tangent of an angle in radians. No `f64` is exactly a pole, so the result is finite.
    ///
    /// # Errors
    ///
    /// The errors that [`Number`] documents.
    pub fn tan(&self) -> Outcome {
        self.function(NumberOp::Tan, |a| Ok(a.tan()))
    }

    /// Compares two values; returns an error if they cannot be compared.
    fn order(&self, op: NumberOp, other: &Number) -> Result<Ordering, NumberError> {
        let operands = [self, other];
        Number::finite(op, &operands)?;
        self.compared(other).ok_or_else(|| Number::refused(op, &operands))
    }

    /// Returns the lesser operand unchanged. If the operands are equal, returns the first.
    ///
    /// # Errors
    ///
    /// The errors that [`Number`] documents.
    pub fn min(&self, other: &Number) -> Outcome {
        Ok(if self.order(NumberOp::Min, other)?.is_gt() { other } else { self }.clone())
    }

    /// Returns the greater operand unchanged. If the operands are equal, returns the first.
    ///
    /// # Errors
    ///
    /// The errors that [`Number`] documents.
    pub fn max(&self, other: &Number) -> Outcome {
        Ok(if self.order(NumberOp::Max, other)?.is_lt() { other } else { self }.clone())
    }

    /// Returns whether two values are equal. The integer 1 equals the float 1.
    ///
    /// # Errors
    ///
    /// The errors that [`Number`] documents.
    pub fn equal(&self, other: &Number) -> Result<bool, NumberError> {
        Ok(self.order(NumberOp::Equal, other)?.is_eq())
    }

    /// Returns whether two values differ.
    ///
    /// # Errors
    ///
    /// The errors that [`Number`] documents.
    pub fn not_equal(&self, other: &Number) -> Result<bool, NumberError> {
        Ok(self.order(NumberOp::NotEqual, other)?.is_ne())
    }

    /// Returns whether this value is less than another.
    ///
    /// # Errors
    ///
    /// The errors that [`Number`] documents.
    pub fn less(&self, other: &Number) -> Result<bool, NumberError> {
        Ok(self.order(NumberOp::Less, other)?.is_lt())
    }

    /// Returns whether this value is less than or equal to another.
    ///
    /// # Errors
    ///
    /// The errors that [`Number`] documents.
    pub fn less_or_equal(&self, other: &Number) -> Result<bool, NumberError> {
        Ok(self.order(NumberOp::LessOrEqual, other)?.is_le())
    }

    /// Returns whether this value is greater than another.
    ///
    /// # Errors
    ///
    /// The errors that [`Number`] documents.
    pub fn greater(&self, other: &Number) -> Result<bool, NumberError> {
        Ok(self.order(NumberOp::Greater, other)?.is_gt())
    }

    /// Returns whether this value is greater than or equal to another.
    ///
    /// # Errors
    ///
    /// The errors that [`Number`] documents.
    pub fn greater_or_equal(&self, other: &Number) -> Result<bool, NumberError> {
        Ok(self.order(NumberOp::GreaterOrEqual, other)?.is_ge())
    }
}

/// Returns an integer result; an error if it overflows `i64`.
fn whole(result: Option<i64>) -> Result<Number, Wrong> {
    result.map(Number::Integer).ok_or(Wrong::Overflow)
}

/// Returns the remainder with the sign of the divisor. A zero result has that sign too.
fn float_modulo(a: f64, b: f64) -> Result<f64, Wrong> {
    if b == 0.0 {
        return Err(Wrong::DivisionByZero);
    }
    let rest = a % b;
    if rest == 0.0 {
        return Ok(0f64.copysign(b));
    }
    Ok(if (rest < 0.0) != (b < 0.0) { rest + b } else { rest })
}
