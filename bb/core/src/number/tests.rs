#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::{DataType, TensorData};

/// Returns pseudo-random numbers, and the extreme values of the types.
fn samples() -> Vec<Number> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut all: Vec<Number> =
        [0, 1, -1, 2, -2, 3, 7, i64::MAX, i64::MIN, i64::MAX - 1, 1 << 53, (1 << 53) + 1]
            .map(Number::Integer)
            .to_vec();
    all.extend(
        [0.0, -0.0, 0.5, 1.5, -2.5, 1e308, -1e308, 5e-324, 9.007199254740992e15, -9.3e18].map(Number::Float),
    );
    for _ in 0..12 {
        all.push(Number::Integer(next() as i64 >> (next() % 60)));
        all.push(Number::Float((next() as i64 as f64) / (1u64 << (next() % 60)) as f64));
    }
    all
}

/// Converts the result of a 128-bit computation to the expected result of the 64-bit one.
fn wide(result: Option<i128>) -> Result<Number, &'static str> {
    let value = result.ok_or("division")?;
    i64::try_from(value).map(Number::Integer).map_err(|_| "overflow")
}

fn kind(result: Result<Number, NumberError>) -> Result<Number, &'static str> {
    result.map_err(|error| match error {
        NumberError::Overflow { .. } => "overflow",
        NumberError::DivisionByZero { .. } => "division",
        NumberError::Domain { .. } => "domain",
        NumberError::NotFinite { .. } => "infinite",
        _ => "type",
    })
}

#[test]
fn integers_compute_as_in_128_bits() {
    for x in samples() {
        for y in samples() {
            let (Number::Integer(a), Number::Integer(b)) = (&x, &y) else { continue };
            let (a, b) = (i128::from(*a), i128::from(*b));
            let of = |f: fn(i128, i128) -> i128| wide(if b == 0 { None } else { Some(f(a, b)) });
            assert_eq!(kind(x.add(&y)), wide(Some(a + b)));
            assert_eq!(kind(x.sub(&y)), wide(Some(a - b)));
            assert_eq!(kind(x.mul(&y)), wide(Some(a * b)));
            assert_eq!(kind(x.remainder(&y)), of(|a, b| a % b), "{a} {b}");
            // By definition, the result is between 0 and the divisor, and differs from the dividend by a
            // multiple of the divisor.
            assert_eq!(
                kind(x.modulo(&y)),
                of(|a, b| a.rem_euclid(b.abs()) + if b < 0 && a.rem_euclid(b.abs()) != 0 { b } else { 0 })
            );
            assert_eq!(
                kind(x.floor_div(&y)),
                of(|a, b| if b < 0 { (-a).div_euclid(-b) } else { a.div_euclid(b) }),
                "{a} {b}"
            );
            assert_eq!(x.less(&y).unwrap(), a < b);
            assert_eq!(x.greater_or_equal(&y).unwrap(), a >= b);
            assert_eq!(x.min(&y).unwrap(), wide(Some(a.min(b))).unwrap());
            assert_eq!(x.max(&y).unwrap(), wide(Some(a.max(b))).unwrap());
        }
        if let Number::Integer(a) = x {
            assert_eq!(kind(x.neg()), wide(Some(-i128::from(a))));
            assert_eq!(kind(x.abs()), wide(Some(i128::from(a).abs())));
            assert_eq!([x.floor(), x.ceil(), x.round()], [Ok(x.clone()), Ok(x.clone()), Ok(x.clone())]);
        }
    }
}

#[test]
fn powers_of_integers_are_products() {
    for a in -12i64..=12 {
        let mut product = Some(1i128);
        for b in 0..=70i64 {
            let expected = product.and_then(|p| i64::try_from(p).ok()).map(Number::Integer);
            assert_eq!(kind(Number::from(a).pow(&Number::from(b))), expected.ok_or("overflow"), "{a} {b}");
            product = product.and_then(|p| p.checked_mul(a.into()));
        }
    }
    let large = Number::from((1i64 << 40) + 1);
    assert_eq!(Number::from(-1).pow(&large), Ok(Number::from(-1)));
    assert_eq!(Number::from(0).pow(&large), Ok(Number::from(0)));
    assert_eq!(kind(Number::from(2).pow(&large)), Err("overflow"));
    assert_eq!(Number::from(2).pow(&Number::from(-2)), Ok(Number::from(0.25)));
    assert_eq!(kind(Number::from(0).pow(&Number::from(-1))), Err("division"));
    assert_eq!(kind(Number::from(-2.0).pow(&Number::from(0.5))), Err("domain"));
    assert_eq!(kind(Number::from(-2.0).pow(&Number::from(1e300))), Err("infinite"));
}

#[test]
fn floats_and_mixtures_compute_as_ieee_754_says_and_report_what_is_not_finite() {
    let float = |x: &Number| match x {
        Number::Integer(a) => *a as f64,
        Number::Float(a) => *a,
        Number::Text(_) => f64::NAN,
    };
    let finite = |x: f64| if x.is_finite() { Ok(Number::Float(x)) } else { Err("infinite") };
    for x in samples() {
        for y in samples() {
            let (a, b) = (float(&x), float(&y));
            let quotient = if b == 0.0 { Err("division") } else { finite(a / b) };
            assert_eq!(kind(x.div(&y)), quotient);
            if x.number_type() == NumberType::Integer && y.number_type() == NumberType::Integer {
                continue;
            }
            assert_eq!(kind(x.add(&y)), finite(a + b));
            assert_eq!(kind(x.sub(&y)), finite(a - b));
            assert_eq!(kind(x.mul(&y)), finite(a * b));
            if b != 0.0 {
                assert_eq!(kind(x.remainder(&y)), finite(a % b));
                let Ok(Number::Float(rest)) = x.modulo(&y) else { panic!("{x} {y}") };
                assert!(rest == 0.0 || (rest < 0.0) == (b < 0.0), "{x} {y} {rest}");
                assert!(rest.abs() <= b.abs());
            } else {
                assert_eq!(kind(x.modulo(&y)), Err("division"));
                assert_eq!(kind(x.floor_div(&y)), Err("division"));
            }
        }
        if let Number::Float(a) = x {
            assert_eq!(x.round(), Ok(Number::Float(a.round_ties_even())));
            assert_eq!(x.neg(), Ok(Number::Float(-a)));
        }
    }
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(kind(Number::from(bad).add(&Number::from(1))), Err("infinite"));
        assert!(matches!(Number::from(1).less(&Number::from(bad)), Err(NumberError::NotFinite { .. })));
        assert_eq!(kind(Number::from(bad).round()), Err("infinite"));
    }
    // The values equal Python's `7.5 // -2` and `-7.5 // 2`.
    assert_eq!(Number::from(7.5).floor_div(&Number::from(-2)), Ok(Number::from(-4.0)));
    assert_eq!(Number::from(-7.5).floor_div(&Number::from(2)), Ok(Number::from(-4.0)));
    assert_eq!(Number::from(7.5).modulo(&Number::from(-2)), Ok(Number::from(-0.5)));
}

#[test]
fn integers_compare_with_floats_without_rounding() {
    let (a, b) = (Number::from((1i64 << 53) + 1), Number::from((1i64 << 53) as f64));
    assert_eq!((a.greater(&b), a.equal(&b), b.less(&a)), (Ok(true), Ok(false), Ok(true)));
    assert_eq!(Number::from(i64::MAX).less(&Number::from(9_223_372_036_854_775_808.0)), Ok(true));
    assert_eq!(Number::from(i64::MIN).equal(&Number::from(-9_223_372_036_854_775_808.0)), Ok(true));
    assert_eq!(Number::from(-1).greater(&Number::from(-1.5)), Ok(true));
    assert_eq!(Number::from(1).not_equal(&Number::from(1.0)), Ok(false));
    assert_eq!(Number::from(1).max(&Number::from(1.0)), Ok(Number::from(1)));
}

#[test]
fn texts_join_and_compare_and_nothing_else() {
    let (a, b) = (Number::from("ab"), Number::from("b"));
    assert_eq!(a.add(&b), Ok(Number::from("abb")));
    assert_eq!((a.less(&b), a.equal(&a), a.max(&b)), (Ok(true), Ok(true), Ok(b.clone())));
    let error = a.mul(&Number::from(2)).unwrap_err();
    assert_eq!(error.to_string(), "`mul` does not take text and integer");
    assert_eq!(kind(a.round()), Err("type"));
    assert!(matches!(a.equal(&Number::from(1)), Err(NumberError::Type { .. })));
    let error = Number::from(1).div(&Number::from(0)).unwrap_err();
    assert_eq!(error.to_string(), "`div` of 1 and 0 divides by zero");
}

#[test]
fn constants_have_the_value_or_are_refused() {
    let made = |x: Number, dtype| x.to_tensor(dtype).ok();
    assert_eq!(made(255.into(), DataType::U8), Some(TensorData::scalar(255u8)));
    assert_eq!(made(256.into(), DataType::U8), None);
    assert_eq!(made((-1).into(), DataType::U64), None);
    assert_eq!(made(2.0.into(), DataType::I32), Some(TensorData::scalar(2i32)));
    assert_eq!(made(2.5.into(), DataType::I32), None);
    assert_eq!(made(9.3e18.into(), DataType::I64), None);
    assert_eq!(made(0.1.into(), DataType::F32), Some(TensorData::scalar(0.1f32)));
    assert_eq!(made(1e39.into(), DataType::F32), None);
    assert_eq!(made(70000.into(), DataType::F16), None);
    assert_eq!(made(f64::NAN.into(), DataType::F64), None);
    assert_eq!(made(1.into(), DataType::Bool), Some(TensorData::bools(&[], &[true]).unwrap()));
    assert_eq!(made(2.into(), DataType::Bool), None);
    assert_eq!(made("1".into(), DataType::F32), None);
    assert_eq!(made(1.into(), DataType::String), None);
    let text = made("a".into(), DataType::String).unwrap();
    assert_eq!(Number::of_tensor(&text).unwrap(), Number::from("a"));
    assert_eq!(Number::of_tensor(&TensorData::scalar(i64::MAX)).unwrap(), Number::from(i64::MAX));
    assert!(Number::of_tensor(&TensorData::scalar(u64::MAX)).is_err());
    assert!(Number::of_tensor(&TensorData::new(&[2], &[1f32, 2.0]).unwrap()).is_err());
    assert_eq!(
        NumberOp::ALL.iter().map(|op| op.name()).collect::<std::collections::BTreeSet<_>>().len(),
        NumberOp::ALL.len()
    );
}

/// The values were computed with mpmath at 50 digits and rounded to `f64`.
#[test]
fn functions_give_floats_of_integers_too_and_report_what_is_not_defined() {
    let near = |x: Result<Number, NumberError>, expected: f64| {
        let Ok(Number::Float(value)) = x else { panic!("{x:?}, expected {expected}") };
        assert!(
            (value - expected).abs() <= 2.0 * f64::EPSILON * expected.abs(),
            "{value}, expected {expected}"
        );
    };
    for two in [Number::from(2), Number::from(2.0)] {
        near(two.sqrt(), std::f64::consts::SQRT_2);
        near(two.exp(), 7.38905609893065);
        near(two.log(), std::f64::consts::LN_2);
        near(two.sin(), 0.9092974268256817);
        near(two.cos(), -0.4161468365471424);
        near(two.tan(), -2.185039863261519);
    }
    // The angle is reduced exactly, even if it is large.
    near(Number::from(1e22).sin(), -0.8522008497671888);
    // The integer is rounded to 2^53 first.
    assert_eq!(Number::from((1i64 << 53) + 1).sqrt(), Ok(Number::from((1u64 << 53) as f64).sqrt().unwrap()));
    let Ok(Number::Float(zero)) = Number::from(-0.0).sqrt() else { panic!() };
    assert!(zero == 0.0 && zero.is_sign_negative());
    assert_eq!(Number::from(-800).exp(), Ok(Number::from(0.0)));
    for (found, wrong) in [
        (Number::from(-1).sqrt(), "domain"),
        (Number::from(-5e-324).sqrt(), "domain"),
        (Number::from(0).log(), "domain"),
        (Number::from(-0.0).log(), "domain"),
        (Number::from(-2).log(), "domain"),
        (Number::from(710).exp(), "infinite"),
    ] {
        assert_eq!(kind(found), Err(wrong));
    }
    let text = Number::from("2");
    for function in [Number::sqrt, Number::exp, Number::log, Number::sin, Number::cos, Number::tan] {
        assert_eq!(kind(function(&text)), Err("type"));
        assert_eq!(kind(function(&Number::from(f64::INFINITY))), Err("infinite"));
        assert_eq!(kind(function(&Number::from(f64::NAN))), Err("infinite"));
    }
    assert_eq!(Number::from(-1).sqrt().unwrap_err().to_string(), "`sqrt` of -1 is not defined");
}
