//! Arithmetic of single entries, as operators define it.
//!
//! Integers are exact or not told: what wraps in 32 bits, and a division whose rounding depends on a name, is `Unknown`.
//! Floats are rounded as their element type is.

use super::contents::Entry;
use crate::DataType;
use crate::graph::DimExpr;
use std::cmp::Ordering;

/// Computes with one entry; none if the operator is not followed.
pub(super) fn unary(
    op: &str,
    dtype: DataType,
    x: &Entry,
    signless: &impl Fn(&DimExpr) -> bool,
) -> Option<Entry> {
    let real =
        |f: fn(f64) -> f64| if let Entry::Real(v) = x { rounded(dtype, f(*v)) } else { Entry::Unknown };
    Some(match (op, x) {
        ("Neg", Entry::Whole(v)) => narrow(dtype, v.scaled(-1)),
        ("Abs" | "Relu", Entry::Whole(v)) if v.at_least(0) || signless(v) => x.clone(),
        ("Abs", Entry::Whole(v)) => narrow(dtype, v.constant().and_then(i64::checked_abs).map(DimExpr::from)),
        ("Sign", Entry::Whole(v)) if v.at_least(1) => 1.into(),
        ("Sign", Entry::Whole(v)) => v.constant().map(|v| DimExpr::from(v.signum())).into(),
        ("Not", Entry::Whole(v)) => v.constant().map(|v| DimExpr::from(i64::from(v == 0))).into(),
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

/// Computes with two entries of one type; none if the operator is not followed. `signless` tells what is known not to be
/// negative.
pub(super) fn binary(
    op: &str,
    dtype: DataType,
    a: &Entry,
    b: &Entry,
    signless: &impl Fn(&DimExpr) -> bool,
) -> Option<Entry> {
    Some(match (a, b) {
        (Entry::Whole(a), Entry::Whole(b)) => match op {
            "Add" | "Sum" => narrow(dtype, a.plus(b)),
            "Sub" => narrow(dtype, a.minus(b)),
            "Mul" => narrow(dtype, a.times(b)),
            "Div" => narrow(dtype, quotient(a, b, signless)),
            "Mod" => narrow(dtype, remainder(a, b, signless)),
            "Min" => a.lesser(b).into(),
            "Max" => a.greater(b).into(),
            "Pow" => narrow(dtype, power(a, b)),
            "And" => truth(a, b, |a, b| a && b, false),
            "Or" => truth(a, b, |a, b| a || b, true),
            "Xor" => match (a.constant(), b.constant()) {
                (Some(a), Some(b)) => Entry::from((a != 0) != (b != 0)),
                _ => Entry::Unknown,
            },
            _ => told(compare(op, &order(a, b, signless))?),
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
                let order: Vec<Ordering> = a.partial_cmp(b).into_iter().collect();
                told(compare(op, &order)?)
            }
        },
        // One is not known, or they are of two kinds.
        _ => match op {
            "Add" | "Sum" | "Sub" | "Mul" | "Div" | "Mod" | "Min" | "Max" | "Pow" | "And" | "Or" | "Xor" => {
                either_way(op, a, b)
            }
            _ => told(compare(op, &[])?),
        },
    })
}

/// What is sure although one of the two is not known.
fn either_way(op: &str, a: &Entry, b: &Entry) -> Entry {
    let decides = |value: i64| a.int() == Some(value) || b.int() == Some(value);
    match op {
        "And" | "Mul" if decides(0) => 0.into(),
        "Or" if decides(1) => 1.into(),
        _ => Entry::Unknown,
    }
}

fn told(truth: Option<bool>) -> Entry {
    truth.map_or(Entry::Unknown, Entry::from)
}

fn truth(a: &DimExpr, b: &DimExpr, both: fn(bool, bool) -> bool, decisive: bool) -> Entry {
    match (a.constant().map(|a| a != 0), b.constant().map(|b| b != 0)) {
        (Some(a), Some(b)) => both(a, b).into(),
        (Some(known), None) | (None, Some(known)) if known == decisive => decisive.into(),
        _ => Entry::Unknown,
    }
}

/// Casts an entry.
pub(super) fn cast(x: &Entry, to: DataType) -> Entry {
    match (x, to) {
        (Entry::Whole(v), DataType::I64) => Entry::Whole(v.clone()),
        (Entry::Whole(v), DataType::I32) => narrow(to, Some(v.clone())),
        (Entry::Whole(v), DataType::Bool) if v.at_least(1) => 1.into(),
        (Entry::Whole(v), DataType::Bool) => v.constant().map(|v| DimExpr::from(i64::from(v != 0))).into(),
        (Entry::Whole(v), DataType::F32 | DataType::F64) => {
            v.constant().map_or(Entry::Unknown, |v| rounded(to, v as f64))
        }
        (Entry::Real(v), DataType::F32 | DataType::F64) => rounded(to, *v),
        (Entry::Real(v), DataType::Bool) => (*v != 0.0).into(),
        // Beyond 32 bits it is the backend's to say what comes out.
        (Entry::Real(v), DataType::I64 | DataType::I32) if v.abs() < f64::from(i32::MAX) => {
            Entry::from(v.trunc() as i64)
        }
        _ => Entry::Unknown,
    }
}

/// An integer of the type; one that does not fit wraps, which is not told.
fn narrow(dtype: DataType, value: Option<DimExpr>) -> Entry {
    let fits = |v: &DimExpr| match (dtype, v.constant()) {
        (DataType::I32, Some(v)) => i32::try_from(v).is_ok(),
        (DataType::I32 | DataType::I64, _) => true,
        _ => false,
    };
    value.filter(fits).into()
}

fn rounded(dtype: DataType, value: f64) -> Entry {
    match dtype {
        _ if value.is_nan() => Entry::Unknown,
        DataType::F64 => Entry::Real(value),
        DataType::F32 => Entry::Real(f64::from(value as f32)),
        _ => Entry::Unknown,
    }
}

/// Division that rounds towards zero, hence down where nothing is negative.
fn quotient(a: &DimExpr, b: &DimExpr, signless: &impl Fn(&DimExpr) -> bool) -> Option<DimExpr> {
    match (a.constant(), b.constant()) {
        (Some(a), Some(b)) => a.checked_div(b).map(DimExpr::from),
        (None, Some(by)) if by > 0 && (a.at_least(0) || signless(a)) => a.floor_div(by),
        _ => a.exact_div(b),
    }
}

/// The remainder where nothing is negative, in which case all definitions agree.
fn remainder(a: &DimExpr, b: &DimExpr, signless: &impl Fn(&DimExpr) -> bool) -> Option<DimExpr> {
    let by = b.constant().filter(|b| *b > 0)?;
    (a.at_least(0) || signless(a)).then(|| a.minus(&a.floor_div(by)?.scaled(by)?)).flatten()
}

fn power(a: &DimExpr, b: &DimExpr) -> Option<DimExpr> {
    let exponent = u32::try_from(b.constant()?).ok()?;
    match (a.constant(), exponent) {
        (Some(base), _) => base.checked_pow(exponent).map(DimExpr::from),
        (None, 1) => Some(a.clone()),
        (None, 2) => a.times(a),
        _ => None,
    }
}

/// How the first may be to the second: all that is possible.
fn order(a: &DimExpr, b: &DimExpr, signless: &impl Fn(&DimExpr) -> bool) -> Vec<Ordering> {
    use Ordering::{Equal, Greater, Less};
    let Some(more) = a.minus(b) else { return vec![Less, Equal, Greater] };
    if let Some(more) = more.constant() {
        return vec![more.cmp(&0)];
    }
    let least = |f: &DimExpr, least: i64| f.at_least(least);
    // An extent is not negative, whatever its formula.
    let beside = |f: &DimExpr, other: &DimExpr| match other.constant() {
        Some(c) if signless(f) => c < 0,
        _ => false,
    };
    let less = more.scaled(-1);
    if least(&more, 1) || beside(a, b) {
        vec![Greater]
    } else if less.as_ref().is_some_and(|l| least(l, 1)) || beside(b, a) {
        vec![Less]
    } else if least(&more, 0) {
        vec![Equal, Greater]
    } else if less.is_some_and(|l| least(&l, 0)) {
        vec![Less, Equal]
    } else {
        vec![Less, Equal, Greater]
    }
}

/// What a comparison says where the order is one of these; none if the operator is no comparison.
#[expect(clippy::option_option, reason = "not a comparison, and not known, are two things")]
fn compare(op: &str, orders: &[Ordering]) -> Option<Option<bool>> {
    let holds: fn(&Ordering) -> bool = match op {
        "Equal" => |o| o.is_eq(),
        "Greater" => |o| o.is_gt(),
        "Less" => |o| o.is_lt(),
        "GreaterOrEqual" => |o| o.is_ge(),
        "LessOrEqual" => |o| o.is_le(),
        _ => return None,
    };
    let mut all = orders.iter().map(holds);
    let first = all.next();
    Some(first.filter(|first| all.all(|other| other == *first)))
}
