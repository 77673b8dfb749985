//! Compares results as exactly as the operators determine them.

use crate::record::{Leaves, Record};
use bb::conformance::elements;
use bb::ir::convert::{Rounding, cast};
use bb::{DataType, TensorData};
use std::borrow::Cow;

/// How exactly results are determined.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Class {
    /// They are elements of operands: bits are equal.
    Moves,
    /// They are chosen or exact: numbers are equal.
    Choices,
    /// They are rounded functions of single elements.
    Elementwise,
    /// They are functions of single elements whose formulas subtract numbers of the size of the operands.
    Cancelling,
    /// They are sums, whose summands may cancel.
    Sums,
    /// As sums; bytes may differ from the expected ones by 1.
    Neighbours,
}

fn class(record: &Record) -> Class {
    match record.text("class") {
        "moves" => Class::Moves,
        "choices" => Class::Choices,
        "elementwise" => Class::Elementwise,
        "cancelling" => Class::Cancelling,
        "neighbours" => Class::Neighbours,
        _ => Class::Sums,
    }
}

/// Returns the first difference between results; `None` if there is none.
pub(crate) fn leaves(record: &Record, expected: &Leaves, got: &Leaves) -> Option<String> {
    let rules = Rules::of(record);
    for (path, expected) in expected {
        let Some((_, got)) = got.iter().find(|(name, _)| name == path) else {
            return Some(format!("{path} is missing"));
        };
        if let Some(problem) = rules.tensors(expected, got) {
            return Some(format!("{path}: {problem}"));
        }
    }
    let more = got.iter().find(|(path, _)| !expected.iter().any(|(name, _)| name == path));
    more.map(|(path, _)| format!("{path} is not expected"))
}

/// Returns the greatest finite absolute value of all tensors; summands of this size may cancel.
fn greatest(of: &Leaves) -> f64 {
    let all = of.iter().filter(|(_, x)| x.dtype() != DataType::String).flat_map(|(_, x)| numbers(x));
    all.filter(|x| x.is_finite()).fold(0.0, |most: f64, x| most.max(x.abs()))
}

/// How results of a model are compared.
struct Rules {
    class: Class,
    /// The relative tolerance of the coarsest type of floats in the model.
    relative: f64,
    /// The tolerance as a part of the greatest number.
    part: f64,
    /// The greatest number among the operands.
    greatest: f64,
}

impl Rules {
    fn of(record: &Record) -> Rules {
        let class = class(record);
        let tolerances = record.precisions().map(|dtype| tolerance(class, dtype));
        let (relative, part) = tolerances.fold((0.0, 0.0), |a: (f64, f64), b| (a.0.max(b.0), a.1.max(b.1)));
        Rules { class, relative, part, greatest: greatest(&record.inputs) }
    }

    fn tensors(&self, expected: &TensorData, got: &TensorData) -> Option<String> {
        if (expected.dtype(), expected.shape()) != (got.dtype(), got.shape()) {
            let text = |x: &TensorData| format!("{}{:?}", x.dtype(), x.shape());
            return Some(format!("expected {}, got {}", text(expected), text(got)));
        }
        let dtype = expected.dtype();
        if dtype == DataType::String {
            let same = expected.iter_str().eq(got.iter_str());
            let list = |x: &TensorData| x.iter_str().take(8).map(Cow::into_owned).collect::<Vec<_>>();
            return (!same).then(|| format!("expected {:?}, got {:?}", list(expected), list(got)));
        }
        let (wide_expected, wide_got) = (numbers(expected), numbers(got));
        if !dtype.is_float() && !matches!(dtype, DataType::C64 | DataType::C128) {
            let pairs = || wide_expected.iter().zip(&wide_got);
            let near = self.class == Class::Neighbours
                && dtype.bits() <= 8
                && pairs().all(|(e, g)| (e - g).abs() <= 1.0);
            return (elements(expected) != elements(got) && !near)
                .then(|| shown("integers", expected, got, None));
        }
        let finite = wide_expected.iter().filter(|x| x.is_finite());
        let greatest = finite.fold(self.greatest, |most: f64, x| most.max(x.abs()));
        // Where sums of great numbers leave the range, their order decides between infinities, NaN and numbers.
        if self.class >= Class::Sums && greatest > overflow(dtype) {
            return None;
        }
        // Rounding once more costs the distance between subnormal numbers.
        let least = match dtype {
            DataType::F32 | DataType::C64 => 2.0 * f64::from(f32::MIN_POSITIVE) * f64::from(f32::EPSILON),
            DataType::F16 => 2.0f64.powi(-23),
            DataType::BF16 => 2.0f64.powi(-132),
            _ => 0.0,
        };
        // A result of a coarser type than all operands is rounded to it.
        let (relative, part) = tolerance(self.class, dtype);
        let (relative, part) = (self.relative.max(relative), self.part.max(part));
        let same = |e: f64, g: f64| match self.class {
            Class::Moves => e.to_bits() == g.to_bits() || (e.is_nan() && g.is_nan()),
            Class::Choices => e == g || (e.is_nan() && g.is_nan()),
            _ => {
                let near = e.is_finite() && (e - g).abs() <= relative * e.abs() + part * greatest + least;
                e == g || (e.is_nan() && g.is_nan()) || near
            }
        };
        let at = wide_expected.iter().zip(&wide_got).position(|(e, g)| !same(*e, *g))?;
        let kind = match (wide_expected.get(at), wide_got.get(at)) {
            (Some(e), _) if e.is_nan() => "expected NaN",
            (_, Some(g)) if g.is_nan() => "got NaN",
            (Some(e), Some(g)) if e.is_infinite() != g.is_infinite() => "infinity",
            (Some(e), Some(g)) if e == g => "sign of zero",
            _ => "numbers",
        };
        Some(shown(kind, expected, got, Some(at)))
    }
}

/// Returns the least number whose squares and products may leave the range of a type.
fn overflow(dtype: DataType) -> f64 {
    match dtype {
        DataType::F64 | DataType::C128 => 1e150,
        DataType::F16 => 1e4,
        _ => 1e18,
    }
}

/// Returns the relative tolerance of a type, and the part of the greatest number that results may be wrong by.
fn tolerance(class: Class, dtype: DataType) -> (f64, f64) {
    let (relative, part) = match dtype {
        DataType::F64 | DataType::C128 => (1e-12, 1e-15),
        DataType::F32 | DataType::C64 => (4e-6, 6e-7),
        DataType::F16 => (2e-3, 2e-3),
        DataType::BF16 => (1.0 / 64.0, 1.0 / 64.0),
        dtype if dtype.is_float() => (0.25, 0.0625),
        _ => (0.0, 0.0),
    };
    match class {
        Class::Moves | Class::Choices => (0.0, 0.0),
        Class::Elementwise => (relative, 0.0),
        Class::Cancelling => (relative, part),
        Class::Sums | Class::Neighbours => (8.0 * relative, 16.0 * part),
    }
}

fn shown(kind: &str, expected: &TensorData, got: &TensorData, at: Option<usize>) -> String {
    let (expected, wide) = (numbers(expected), numbers(got));
    let at = at.or_else(|| expected.iter().zip(&wide).position(|(e, g)| e != g)).unwrap_or(0);
    let part = |x: &[f64]| x.iter().skip(at).take(4).map(f64::to_string).collect::<Vec<_>>().join(" ");
    format!(
        "{kind}: {}{:?} at {at} expected {}, got {}",
        got.dtype(),
        got.shape(),
        part(&expected),
        part(&wide)
    )
}

/// Returns the elements as numbers; a complex number becomes two.
fn numbers(x: &TensorData) -> Vec<f64> {
    let real = match x.dtype() {
        DataType::C64 => DataType::F32,
        DataType::C128 => DataType::F64,
        _ => return cast(x, DataType::F64, Rounding::default()).unwrap().as_slice::<f64>().unwrap().to_vec(),
    };
    let parts = TensorData::adopt(real, &[2 * x.len()], x.bytes().unwrap().clone()).unwrap();
    numbers(&parts)
}
