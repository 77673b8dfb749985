//! Arithmetic of single elements that may be unknown, according to ONNX's operators.
//!
//! Integer results are exact or `Unknown`. They are `Unknown` if the result wraps in 32 bits, or if the rounding of a
//! division depends on a symbol. Floats are rounded to their element type.

use super::number::{Number, Of};
use crate::DataType;
use crate::graph::{Dim, DimExpr};
use crate::infer::Extent;
use crate::op::Primitive;
use std::cmp::Ordering;

/// An element of a small tensor, which may be unknown.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry<E> {
    /// An integer, which may be negative; booleans are 0 and 1.
    Whole(E),
    /// A float other than NaN.
    Real(f64),
    /// An unknown element.
    Unknown,
}

impl<E: Extent> Entry<E> {
    /// Creates a float. NaN becomes `Unknown`.
    pub fn real(value: f64) -> Entry<E> {
        if value.is_nan() { Entry::Unknown } else { Entry::Real(value) }
    }

    /// Creates a boolean.
    pub fn truth(value: bool) -> Entry<E> {
        Entry::from(i64::from(value))
    }

    /// Returns the integer, if it is the same for all inputs.
    pub fn int(&self) -> Option<i64> {
        self.formula().and_then(E::number)
    }

    /// Returns the integer or its expression; `None` for a float and for an unknown element.
    pub fn formula(&self) -> Option<&E> {
        match self {
            Entry::Whole(formula) => Some(formula),
            Entry::Real(_) | Entry::Unknown => None,
        }
    }

    fn told(truth: Option<bool>) -> Entry<E> {
        truth.map_or(Entry::Unknown, Entry::truth)
    }
}

impl<E: Extent> From<i64> for Entry<E> {
    fn from(value: i64) -> Entry<E> {
        E::of(value).into()
    }
}

impl<E> From<Option<E>> for Entry<E> {
    fn from(formula: Option<E>) -> Entry<E> {
        formula.map_or(Entry::Unknown, Entry::Whole)
    }
}

impl From<&Dim> for Entry<DimExpr> {
    fn from(dim: &Dim) -> Self {
        dim.formula().into()
    }
}

/// Evaluates ONNX's operator `op` for one element; `None` if the operator is not supported.
pub(crate) fn unary<E: Extent>(
    op: &str,
    dtype: DataType,
    x: &Entry<E>,
    signless: &dyn Fn(&E) -> bool,
) -> Option<Entry<E>> {
    let real =
        |f: fn(f64) -> f64| if let Entry::Real(v) = x { rounded(dtype, f(*v)) } else { Entry::Unknown };
    Some(match (op, x) {
        ("Neg", Entry::Whole(v)) => narrow(dtype, E::of(0).and_then(|zero| zero.minus(v))),
        ("Abs" | "Relu", Entry::Whole(v)) if not_negative(v, signless) => x.clone(),
        ("Abs", Entry::Whole(v)) => narrow(dtype, v.number().and_then(i64::checked_abs).and_then(E::of)),
        ("Sign", Entry::Whole(v)) if v.surely_at_least(1) => 1.into(),
        ("Sign", Entry::Whole(v)) => v.number().map_or(Entry::Unknown, |v| v.signum().into()),
        ("Not", Entry::Whole(v)) => Entry::told(v.number().map(|v| v == 0)),
        ("Neg", _) => real(|v| -v),
        ("Abs", _) => real(f64::abs),
        ("Floor", _) => real(f64::floor),
        ("Ceil", _) => real(f64::ceil),
        ("Round", _) => real(f64::round_ties_even),
        ("Sqrt", _) => real(f64::sqrt),
        ("Sign" | "Not" | "Relu", _) => Entry::Unknown,
        _ => return None,
    })
}

/// Evaluates ONNX's operator `op` for two elements of one type; `None` if the operator is not supported.
pub(super) fn binary<E: Extent>(
    op: &str,
    dtype: DataType,
    a: &Entry<E>,
    b: &Entry<E>,
    signless: &dyn Fn(&E) -> bool,
) -> Option<Entry<E>> {
    Some(match (a, b) {
        (Entry::Whole(a), Entry::Whole(b)) => match op {
            "Add" | "Sum" => narrow(dtype, a.plus(b)),
            "Sub" => narrow(dtype, a.minus(b)),
            "Mul" => narrow(dtype, a.times(b)),
            "Div" => narrow(dtype, quotient(a, b, signless)),
            "Mod" => narrow(dtype, remainder(a, b, signless)),
            "Min" => a.min(b).into(),
            "Max" => a.max(b).into(),
            "Pow" => narrow(dtype, power(a, b)),
            "And" => truth(a, b, |a, b| a && b, false),
            "Or" => truth(a, b, |a, b| a || b, true),
            "Xor" => match (a.number(), b.number()) {
                (Some(a), Some(b)) => Entry::truth((a != 0) != (b != 0)),
                _ => Entry::Unknown,
            },
            _ => Entry::told(compare(op, a, b, signless)?),
        },
        (Entry::Real(a), Entry::Real(b)) => match op {
            "Add" | "Sum" => rounded(dtype, a + b),
            "Sub" => rounded(dtype, a - b),
            "Mul" => rounded(dtype, a * b),
            "Div" => rounded(dtype, a / b),
            "Min" => rounded(dtype, a.min(*b)),
            "Max" => rounded(dtype, a.max(*b)),
            "Mod" | "Pow" | "And" | "Or" | "Xor" => Entry::Unknown,
            _ => {
                let holds = |o: Ordering| holds(op, o);
                Entry::told(a.partial_cmp(b).map_or(Some(None), |o| holds(o).map(Some))?)
            }
        },
        // One element is unknown, or one is an integer and the other is a float.
        _ => match op {
            "And" | "Mul" if a.int() == Some(0) || b.int() == Some(0) => 0.into(),
            "Or" if a.int() == Some(1) || b.int() == Some(1) => 1.into(),
            "Add" | "Sum" | "Sub" | "Mul" | "Div" | "Mod" | "Min" | "Max" | "Pow" | "And" | "Or" | "Xor" => {
                Entry::Unknown
            }
            _ => {
                holds(op, Ordering::Equal)?;
                Entry::Unknown
            }
        },
    })
}

fn truth<E: Extent>(a: &E, b: &E, both: fn(bool, bool) -> bool, decisive: bool) -> Entry<E> {
    match (a.number().map(|a| a != 0), b.number().map(|b| b != 0)) {
        (Some(a), Some(b)) => Entry::truth(both(a, b)),
        (Some(known), None) | (None, Some(known)) if known == decisive => Entry::truth(decisive),
        _ => Entry::Unknown,
    }
}

/// Casts an element.
pub(super) fn cast<E: Extent>(x: &Entry<E>, to: DataType) -> Entry<E> {
    match (x, to) {
        (Entry::Whole(v), DataType::I64) => Entry::Whole(v.clone()),
        (Entry::Whole(v), DataType::I32) => narrow(to, Some(v.clone())),
        (Entry::Whole(v), DataType::Bool) if v.surely_at_least(1) => 1.into(),
        (Entry::Whole(v), DataType::Bool) => {
            Entry::told(E::of(0).and_then(|zero| v.equals(&zero)).map(|zero| !zero))
        }
        (Entry::Whole(v), DataType::F32) => {
            v.number().map_or(Entry::Unknown, |v| Entry::real(f64::from(v as f32)))
        }
        (Entry::Whole(v), DataType::F64) => v.number().map_or(Entry::Unknown, |v| Entry::real(v as f64)),
        (Entry::Real(v), DataType::F32 | DataType::F64) => rounded(to, *v),
        (Entry::Real(v), DataType::Bool) => Entry::truth(*v != 0.0),
        // Beyond 32 bits, the result depends on the backend.
        (Entry::Real(v), DataType::I64 | DataType::I32) if v.abs() < f64::from(i32::MAX) => {
            Entry::from(v.trunc() as i64)
        }
        _ => Entry::Unknown,
    }
}

/// Returns an integer of the type; `Unknown` if it does not fit the type, because it would wrap.
fn narrow<E: Extent>(dtype: DataType, value: Option<E>) -> Entry<E> {
    let fits = |v: &E| match (dtype, v.number()) {
        (DataType::I32, Some(v)) => i32::try_from(v).is_ok(),
        (DataType::I32 | DataType::I64, _) => true,
        _ => false,
    };
    value.filter(fits).into()
}

fn rounded<E: Extent>(dtype: DataType, value: f64) -> Entry<E> {
    match dtype {
        DataType::F64 => Entry::real(value),
        DataType::F32 => Entry::real(f64::from(value as f32)),
        _ => Entry::Unknown,
    }
}

/// Returns whether a number is known not to be negative.
fn not_negative<E: Extent>(a: &E, signless: &dyn Fn(&E) -> bool) -> bool {
    a.surely_at_least(0) || signless(a) || a.at_least(0) == Some(true)
}

/// Returns the quotient, rounded towards zero. For numbers that are not negative, this is the quotient rounded down.
fn quotient<E: Extent>(a: &E, b: &E, signless: &dyn Fn(&E) -> bool) -> Option<E> {
    match (a.number(), b.number()) {
        (Some(a), Some(b)) => a.checked_div(b).and_then(E::of),
        (None, Some(by)) if by > 0 && not_negative(a, signless) => a.floor_div(by),
        _ => a.exact_div(b),
    }
}

/// Returns the remainder if no operand is negative, because then all definitions of the remainder agree.
fn remainder<E: Extent>(a: &E, b: &E, signless: &dyn Fn(&E) -> bool) -> Option<E> {
    let by = b.number().filter(|b| *b > 0)?;
    if !not_negative(a, signless) {
        return None;
    }
    a.minus(&a.floor_div(by)?.scaled(by)?)
}

fn power<E: Extent>(a: &E, b: &E) -> Option<E> {
    let exponent = u32::try_from(b.number()?).ok()?;
    match (a.number(), exponent) {
        (Some(base), _) => base.checked_pow(exponent).and_then(E::of),
        (None, 1) => Some(a.clone()),
        (None, 2) => a.times(a),
        _ => None,
    }
}

/// Returns the result of a comparison for operands in this order; `None` if the operator is not a comparison.
fn holds(op: &str, order: Ordering) -> Option<bool> {
    Some(match op {
        "Equal" => order.is_eq(),
        "Greater" => order.is_gt(),
        "Less" => order.is_lt(),
        "GreaterOrEqual" => order.is_ge(),
        "LessOrEqual" => order.is_le(),
        _ => return None,
    })
}

/// Returns the result of a comparison, if it is known; the outer `None` means that the operator is not a comparison.
#[expect(clippy::option_option, reason = "not a comparison, and not known, are two things")]
fn compare<E: Extent>(op: &str, a: &E, b: &E, signless: &dyn Fn(&E) -> bool) -> Option<Option<bool>> {
    holds(op, Ordering::Equal)?;
    // An extent is known not to be negative, even if its expression does not show it.
    let below = |n: &E, other: &E| n.number().is_some_and(|n| n < 0) && signless(other);
    if below(b, a) {
        return holds(op, Ordering::Greater).map(Some);
    }
    if below(a, b) {
        return holds(op, Ordering::Less).map(Some);
    }
    // Only the condition of this operator is evaluated, because each evaluation may record a guard in a trace.
    let at_least = |a: &E, b: &E, by: i64| a.minus(b)?.at_least(by);
    Some(match op {
        "Equal" => a.equals(b),
        "Greater" => at_least(a, b, 1),
        "Less" => at_least(b, a, 1),
        "GreaterOrEqual" => at_least(a, b, 0),
        _ => at_least(b, a, 0),
    })
}

impl<E: Extent> Number for Entry<E> {
    type Exponent = Entry<E>;
    type Expr = E;

    fn add(&self, b: &Self, of: Of<'_, Self::Expr>) -> Self {
        binary("Add", of.dtype, self, b, of.signless).unwrap_or(Entry::Unknown)
    }

    fn sub(&self, b: &Self, of: Of<'_, Self::Expr>) -> Self {
        binary("Sub", of.dtype, self, b, of.signless).unwrap_or(Entry::Unknown)
    }

    fn mul(&self, b: &Self, of: Of<'_, Self::Expr>) -> Self {
        binary("Mul", of.dtype, self, b, of.signless).unwrap_or(Entry::Unknown)
    }

    fn div(&self, b: &Self, of: Of<'_, Self::Expr>) -> Option<Self> {
        if of.dtype.is_float() || b.int() != Some(0) {
            binary("Div", of.dtype, self, b, of.signless)
        } else {
            None
        }
    }

    fn pow(&self, b: &Self, of: Of<'_, Self::Expr>) -> Option<Self> {
        binary("Pow", of.dtype, self, b, of.signless)
    }

    fn extremum(&self, b: &Self, wanted: Ordering, of: Of<'_, Self::Expr>) -> Self {
        let op = if wanted.is_gt() { "Max" } else { "Min" };
        binary(op, of.dtype, self, b, of.signless).unwrap_or(Entry::Unknown)
    }

    fn unary(&self, op: Primitive, of: Of<'_, Self::Expr>) -> Option<Self> {
        unary(op.spec().name, of.dtype, self, of.signless)
    }

    fn count(n: usize, dtype: DataType) -> Self {
        if dtype.is_float() { rounded(dtype, n as f64) } else { i64::try_from(n).ok().and_then(E::of).into() }
    }

    fn identity(op: Primitive, dtype: DataType) -> Option<Self> {
        match op {
            Primitive::ReduceMax | Primitive::ReduceMin => None,
            _ if dtype.is_float() => Some(Entry::Real(0.0)),
            _ => Some(Entry::from(0)),
        }
    }
}
