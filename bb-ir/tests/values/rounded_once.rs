//! Tests that a number becomes the nearest float of 16 bits or fewer, however many digits it has.
//!
//! The expected values come from the definition: the middle between two neighbours becomes the even one, and every other number the
//! nearer one. All middles are tried, and the numbers next to them, as `f64`, as integers and as texts.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "tests")]

use bb_ir::convert::{Rounding, bf16_from_f64, cast, decode_table, f16_from_f64};
use bb_ir::op::RoundMode;
use bb_ir::{DataType, TensorData, bf16, f16};

/// The floats of a type that are not negative, in ascending order, with their codes, which ascend by one.
struct Floats {
    dtype: DataType,
    values: Vec<f64>,
    /// The code beyond the greatest value of the type, or beyond its saturated value.
    beyond: u64,
}

impl Floats {
    fn all() -> Vec<Floats> {
        let halves = |dtype, last: u16, value: fn(u16) -> f64| Floats {
            dtype,
            values: (0..=last).map(value).collect(),
            beyond: u64::from(last) + 1,
        };
        let mut all = vec![
            halves(DataType::F16, f16::MAX.to_bits(), |code| f16::from_bits(code).to_f64()),
            halves(DataType::BF16, bf16::MAX.to_bits(), |code| bf16::from_bits(code).to_f64()),
        ];
        for (dtype, last) in [
            (DataType::F8E4M3FN, 0x7E),
            (DataType::F8E4M3FNUZ, 0x7F),
            (DataType::F8E5M2, 0x7B),
            (DataType::F8E5M2FNUZ, 0x7F),
            (DataType::F6E2M3, 0x1F),
            (DataType::F6E3M2, 0x1F),
            (DataType::F4E2M1, 0x07),
        ] {
            let table = decode_table(dtype).unwrap();
            let values = (0..=last).map(|code| f64::from(table[code])).collect();
            all.push(Floats { dtype, values, beyond: last as u64 });
        }
        all
    }

    /// Calls a function with each code, the value of the code, and the middle to the next value.
    fn each(&self, mut f: impl FnMut(u64, f64, f64)) {
        for (code, &value) in self.values.iter().enumerate() {
            // Behind the last value is the one that the type would have there if it had one more.
            let last = self.values.len() - 1;
            let next = self.values.get(code + 1).copied().unwrap_or(2.0 * value - self.values[last - 1]);
            f(code as u64, value, f64::midpoint(value, next));
        }
    }

    /// The code behind a code.
    fn next(&self, code: u64) -> u64 {
        (code + 1).min(self.beyond)
    }

    /// The code that the middle behind a code becomes.
    fn even(&self, code: u64) -> u64 {
        if code.is_multiple_of(2) { code } else { self.next(code) }
    }
}

/// Casts, and returns the codes of the elements.
fn codes(x: &TensorData, to: DataType) -> Vec<u64> {
    let y = cast(x, to, Rounding::default()).unwrap();
    let bytes = y.unpacked().unwrap();
    let size = bytes.len() / x.len();
    bytes.chunks(size).map(|c| c.iter().rev().fold(0, |all, &b| all << 8 | u64::from(b))).collect()
}

fn assert_codes<T: std::fmt::Debug>(to: DataType, x: &[T], got: &[u64], expected: &[u64]) {
    assert_eq!(got.len(), expected.len());
    for ((x, got), expected) in x.iter().zip(got).zip(expected) {
        assert_eq!(got, expected, "{x:?} as {to}");
    }
}

#[test]
fn doubles_beside_every_middle_become_the_nearer_float() {
    for floats in Floats::all() {
        let (mut x, mut expected) = (Vec::new(), Vec::new());
        floats.each(|code, value, middle| {
            x.extend([value, middle.next_down(), middle, middle.next_up()]);
            expected.extend([code, code, floats.even(code), floats.next(code)]);
            // Further away, by about the number of digits of `f32`.
            x.extend([middle * (1.0 - 2f64.powi(-26)), middle * (1.0 + 2f64.powi(-26))]);
            expected.extend([code, floats.next(code)]);
        });
        assert_codes(
            floats.dtype,
            &x,
            &codes(&TensorData::new(&[x.len()], &x).unwrap(), floats.dtype),
            &expected,
        );
        let negative: Vec<f64> = x.iter().map(|x| -x).collect();
        let sign = 1 << (floats.dtype.bits() - 1);
        let got = codes(&TensorData::new(&[x.len()], &negative).unwrap(), floats.dtype);
        // Two types have no negative zero.
        let has_zero = !matches!(floats.dtype, DataType::F8E4M3FNUZ | DataType::F8E5M2FNUZ);
        let expected: Vec<u64> =
            expected.iter().map(|&code| if code > 0 || has_zero { code | sign } else { 0 }).collect();
        assert_codes(floats.dtype, &negative, &got, &expected);
        for (x, expected) in x.iter().zip(&expected) {
            match floats.dtype {
                DataType::F16 => assert_eq!(u64::from(f16_from_f64(-x).to_bits()), *expected, "{x:e}"),
                DataType::BF16 => assert_eq!(u64::from(bf16_from_f64(-x).to_bits()), *expected, "{x:e}"),
                _ => {}
            }
        }
    }
}

#[test]
fn texts_beside_every_middle_become_the_nearer_float() {
    for floats in Floats::all() {
        let (mut x, mut expected) = (Vec::new(), Vec::new());
        floats.each(|code, value, middle| {
            // A middle has at most 134 digits behind the point, and these are all.
            let middle = format!("{middle:.140}");
            let above = format!("{middle}0000001");
            x.extend([format!("{value:e}"), middle.clone(), above.clone(), format!("-0{above}e+0")]);
            let sign = 1 << (floats.dtype.bits() - 1);
            expected.extend([code, floats.even(code), floats.next(code), floats.next(code) | sign]);
            // One less in the last digit that is not 0, and nines behind it.
            let digits = middle.trim_end_matches('0').trim_end_matches('.');
            let (head, last) = digits.split_at(digits.len() - 1);
            if let Some(less) = last.parse::<u8>().unwrap().checked_sub(1) {
                let point = if head.contains('.') { "" } else { "." };
                x.push(format!("{head}{less}{point}99999999999999999999"));
                expected.push(code);
            }
        });
        let texts: Vec<&str> = x.iter().map(String::as_str).collect();
        let got = codes(&TensorData::strings(&[x.len()], &texts).unwrap(), floats.dtype);
        assert_codes(floats.dtype, &x, &got, &expected);
    }
}

#[test]
fn texts_with_exponents_are_compared_with_the_middle_exactly() {
    // 1 + 2^-11 is the middle of 1 and the next number of `f16`.
    let rows = [
        ("1.00048828125", 0x3C00),
        ("1.000488281250000000000000000000000000001", 0x3C01),
        ("1.000488281249999999999999999999999999999", 0x3C00),
        ("100048828125e-11", 0x3C00),
        ("100048828125000000000000000000000001e-35", 0x3C01),
        ("0.0000000000000000000100048828125000000000000000000000000000001E20", 0x3C01),
        ("+.100048828124999999999999999999999999999e+1", 0x3C00),
        ("  1.000488281250000000000000000000000000001  ", 0x3C01),
        // The middle of the greatest number and what would be the next one.
        ("65519.99999999999999999999999999", 0x7BFF),
        ("65520", 0x7C00),
        ("65520.00000000000000000000000001", 0x7C00),
        // The middle of 0 and the least number.
        ("2.98023223876953125e-8", 0x0000),
        ("2.98023223876953125000000000000000000001e-8", 0x0001),
        ("1e-400", 0x0000),
        ("-1e-400", 0x8000),
        ("1e400", 0x7C00),
    ];
    for (text, code) in rows {
        assert_eq!(codes(&TensorData::strings(&[1], &[text]).unwrap(), DataType::F16), [code], "{text}");
    }
}

#[test]
fn integers_beside_middles_become_the_nearer_float() {
    // `bf16` has 8 digits, so that the middle behind `m * 2^e` is `(2 * m + 1) * 2^(e - 1)`.
    let (mut x, mut expected) = (Vec::new(), Vec::new());
    for exponent in 1..=56u64 {
        for m in 128..256u64 {
            let middle = (2 * m + 1) << (exponent - 1);
            let code = ((exponent + 7 + 127) << 7) + (m - 128);
            x.extend([middle - 1, middle, middle + 1]);
            expected.extend([code, code + code % 2, code + 1]);
        }
    }
    assert_codes(
        DataType::BF16,
        &x,
        &codes(&TensorData::new(&[x.len()], &x).unwrap(), DataType::BF16),
        &expected,
    );
    let (x, expected): (Vec<i64>, Vec<u64>) = x
        .iter()
        .zip(&expected)
        .filter_map(|(&x, code)| Some((-i64::try_from(x).ok()?, code | 0x8000)))
        .unzip();
    assert_codes(
        DataType::BF16,
        &x,
        &codes(&TensorData::new(&[x.len()], &x).unwrap(), DataType::BF16),
        &expected,
    );
}

/// ONNX's evaluator and ONNX Runtime round to `f32` first. A string or an integer is rounded directly to the nearest `f32`, without an
/// intermediate type.
#[test]
fn powers_of_two_are_rounded_from_the_nearest_f32() {
    let [above, middle] = ["1.000000059604644775390625000000000001", "1.000000059604644775390625"];
    let ints = [(1i64 << 61) + (1 << 37) + 1, (1 << 61) + (1 << 37)];
    let up = Rounding { saturate: true, mode: RoundMode::Up };
    let code = |x: &TensorData| u64::from(cast(x, DataType::F8E8M0, up).unwrap().bytes().unwrap()[0]);
    assert_eq!(code(&TensorData::strings(&[1], &[above]).unwrap()), 128);
    assert_eq!(code(&TensorData::strings(&[1], &[middle]).unwrap()), 127);
    assert_eq!(ints.map(|x| code(&TensorData::scalar(x))), [127 + 62, 127 + 61]);
    assert_eq!(code(&TensorData::scalar(1f64.next_up())), 127);
}
