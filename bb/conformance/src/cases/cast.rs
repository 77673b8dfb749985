//! The cases of `cast` and `constant`: from and to every element type.

use crate::check::{refused, refused_type};
use crate::{Subject, assert_numbers, assert_same, assert_tensor, numbers, sample, tensor};
use DataType::{Bool, F32, I4, I8, I16, I32, I64, String, U4, U8, U16, U32};
use DataType::{C64, C128, F4E2M1, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0};
use bb_core::ext::{ErasedError, ErasedTensor};
use bb_core::{DataType, RoundMode, TensorData};
use bb_ir::op::Primitive;

/// Casts a tensor with ONNX's default attributes.
fn to(on: &Subject<'_>, x: &ErasedTensor, dtype: DataType) -> Result<ErasedTensor, ErasedError> {
    on.cast(x, dtype, true, RoundMode::Up)
}

/// ONNX Cast.
pub fn cast(on: &Subject<'_>) {
    between_all(on);
    compute_types(on);
    truncation(on);
    small_floats(on);
    powers_of_two(on);
    text(on);
}

/// Checks that 1 stays 1 in every type, and that a cast to the tensor's own type changes nothing.
fn between_all(on: &Subject<'_>) {
    if !on.supports(&[F32]) {
        return;
    }
    let one = tensor(on, [3], [1f32; 3]);
    let unrelated = |a: DataType, b: DataType| a == String && matches!(b, C64 | C128);
    for from in on.taken(Primitive::Cast, 0) {
        let x = on.made(to(on, &one, from));
        for into in on.taken(Primitive::Cast, 0) {
            let there = to(on, &x, into);
            if unrelated(from, into) || unrelated(into, from) {
                let succeeded =
                    || format!("`cast` from {from} to {into} succeeded, but ONNX does not define it:");
                refused_type(there, Primitive::Cast, Some(into), &[from, into], succeeded);
                continue;
            }
            let there = on.made(there);
            assert_eq!(
                (bb_core::Tensor::dtype(&there), bb_core::Tensor::shape(&there)),
                (into, &[3][..]),
                "{from} to {into}"
            );
            // A bool as a string is not a number, so it cannot be cast back.
            if (from, into) != (Bool, String) {
                assert_tensor(on, to(on, &there, F32), [3], [1f32; 3]);
            }
        }
        for shape in [&[][..], &[0], &[5], &[2, 3]] {
            let x = sample(from, shape);
            assert_same(on, to(on, &on.bring(&x), from), &x);
        }
        let empty = to(on, &tensor(on, [2, 0], [0f32; 0]), from);
        assert_same(on, empty, &sample(from, &[2, 0]));
    }
}

/// Checks casts between every two compute types, with numbers that all of these types represent.
fn compute_types(on: &Subject<'_>) {
    let values = [0.0, 1.0, 2.0, 100.0];
    let compute = on.taken(Primitive::Cast, 0).into_iter().filter(|t| t.is_compute());
    for from in compute.clone() {
        for into in compute.clone() {
            let want = if from == Bool { [0.0, 1.0, 1.0, 1.0] } else { values };
            let x = numbers(on, from, [2, 2], values);
            assert_numbers(on, to(on, &x, into), into, [2, 2], want);
            if let Some(turned) = on.reversed(&x) {
                let [a, b, c, d] = want;
                assert_numbers(on, to(on, &turned, into), into, [2, 2], [a, c, b, d]);
            }
        }
    }
}

/// Source: NumPy 2.3 on x86-64, `astype`.
fn truncation(on: &Subject<'_>) {
    if on.supports(&[F32, I32]) {
        let x = tensor(on, [8], [-1.9f32, -0.5, 0.5, 1.9, 3e9, f32::NAN, f32::INFINITY, f32::NEG_INFINITY]);
        let least = i32::MIN;
        assert_tensor(on, to(on, &x, I32), [8], [-1, 0, 0, 1, least, least, least, least]);
        if on.supports(&[I8, U8, I16]) {
            let x = tensor(on, [3], [300.7f32, -129.0, -1.9]);
            assert_tensor(on, to(on, &x, I8), [3], [44i8, 127, -1]);
            assert_tensor(on, to(on, &x, U8), [3], [44u8, 127, 255]);
            assert_tensor(on, to(on, &x, I16), [3], [300i16, -129, -1]);
        }
    }
    if on.supports(&[F32, I64]) {
        let x = tensor(on, [4], [3e9f32, -1.9, 1e20, f32::NAN]);
        assert_tensor(on, to(on, &x, I64), [4], [3000000000i64, -1, i64::MIN, i64::MIN]);
    }
    if on.supports(&[F32, Bool]) {
        let x = tensor(on, [6], [0f32, -0.0, 0.1, -3.0, f32::NAN, f32::INFINITY]);
        assert_tensor(on, to(on, &x, Bool), [6], [false, false, true, true, true, true]);
    }
    if on.supports(&[I64, I32, U32, U8]) {
        let x = tensor(on, [4], [-1i64, 1 << 32, 300, i64::MIN]);
        assert_tensor(on, to(on, &x, I32), [4], [-1i32, 0, 300, 0]);
        assert_tensor(on, to(on, &x, U32), [4], [u32::MAX, 0, 300, 0]);
        assert_tensor(on, to(on, &x, U8), [4], [255u8, 0, 44, 0]);
    }
    if on.supports(&[U16, I16]) {
        assert_tensor(on, to(on, &tensor(on, [2], [65535u16, 1]), I16), [2], [-1i16, 1]);
    }
}

/// Returns the codes of a small float or of a packed type.
fn codes(on: &Subject<'_>, x: Result<ErasedTensor, ErasedError>) -> Vec<u8> {
    let x = on.made(x);
    let host = on.fetch(&x);
    host.unpacked().expect("memory").to_vec()
}

/// Source: onnx 1.23, the reference evaluator.
fn small_floats(on: &Subject<'_>) {
    if !on.supports(&[F32]) {
        return;
    }
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let x = tensor(on, [12], [0.0, 1.0, -1.5, 0.3, 448.0, 480.0, 60000.0, 1e6, -1e6, inf, -inf, nan]);
    let saturated: [(DataType, [u8; 12]); 4] = [
        (F8E4M3FN, [0x00, 0x38, 0xBC, 0x2A, 0x7E, 0x7E, 0x7E, 0x7E, 0xFE, 0x7E, 0xFE, 0x7F]),
        (F8E4M3FNUZ, [0x00, 0x40, 0xC4, 0x32, 0x7F, 0x7F, 0x7F, 0x7F, 0xFF, 0x7F, 0xFF, 0x80]),
        (F8E5M2, [0x00, 0x3C, 0xBE, 0x35, 0x5F, 0x60, 0x7B, 0x7B, 0xFB, 0x7B, 0xFB, 0x7E]),
        (F8E5M2FNUZ, [0x00, 0x40, 0xC2, 0x39, 0x63, 0x64, 0x7F, 0x7F, 0xFF, 0x7F, 0xFF, 0x80]),
    ];
    for (dtype, want) in saturated.into_iter().filter(|(dtype, _)| on.supports(&[*dtype])) {
        assert_eq!(codes(on, on.cast(&x, dtype, true, RoundMode::Up)), want, "f32 to {dtype}, saturating");
    }
    let exceeding: [(DataType, [u8; 12]); 4] = [
        (F8E4M3FN, [0x00, 0x38, 0xBC, 0x2A, 0x7E, 0x7F, 0x7F, 0x7F, 0xFF, 0x7F, 0xFF, 0x7F]),
        (F8E4M3FNUZ, [0x00, 0x40, 0xC4, 0x32, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80]),
        (F8E5M2, [0x00, 0x3C, 0xBE, 0x35, 0x5F, 0x60, 0x7B, 0x7C, 0xFC, 0x7C, 0xFC, 0x7E]),
        (F8E5M2FNUZ, [0x00, 0x40, 0xC2, 0x39, 0x63, 0x64, 0x7F, 0x80, 0x80, 0x80, 0x80, 0x80]),
    ];
    for (dtype, want) in exceeding.into_iter().filter(|(dtype, _)| on.supports(&[*dtype])) {
        let got = codes(on, on.cast(&x, dtype, false, RoundMode::Up));
        // The sign of a NaN is not compared.
        let equal = got
            .iter()
            .zip(want)
            .all(|(&g, w)| g == w || (dtype == F8E4M3FN && g & 0x7F == 0x7F && w & 0x7F == 0x7F));
        assert!(equal && got.len() == 12, "f32 to {dtype}, not saturating: {got:x?}, expected {want:x?}");
    }
    if on.supports(&[F4E2M1]) {
        let x = tensor(on, [8], [0.0f32, 1.0, -1.5, 0.25, 2.5, 5.0, 100.0, -6.0]);
        assert_eq!(codes(on, to(on, &x, F4E2M1)), [0, 2, 0xB, 0, 4, 6, 7, 0xF], "f32 to f4e2m1");
    }
    if on.supports(&[I4, U4, I8]) {
        let x = tensor(on, [5], [-8i8, -1, 0, 3, 7]);
        let small = on.made(to(on, &x, I4));
        assert_eq!(
            on.fetch(&small).bytes().expect("ready elements")[..],
            [0xF8, 0x30, 0x07],
            "i4 is packed, the first in the low nibble"
        );
        assert_tensor(on, to(on, &small, I8), [5], [-8i8, -1, 0, 3, 7]);
        let x = tensor(on, [3], [15i8, 0, 9]);
        let small = on.made(to(on, &x, U4));
        assert_tensor(on, to(on, &small, I8), [3], [15i8, 0, 9]);
    }
}

/// Source: onnx 1.23, the reference evaluator.
fn powers_of_two(on: &Subject<'_>) {
    if !on.supports(&[F32, F8E8M0]) {
        return;
    }
    let x = tensor(on, [7], [1.0f32, 2.5, 3.0, 3.5, 0.3, 3e38, 5.0]);
    let modes: [(RoundMode, [u8; 7]); 3] = [
        (RoundMode::Up, [0x7F, 0x81, 0x81, 0x81, 0x7E, 0xFE, 0x82]),
        (RoundMode::Down, [0x7F, 0x80, 0x80, 0x80, 0x7D, 0xFE, 0x81]),
        (RoundMode::Nearest, [0x7F, 0x80, 0x81, 0x81, 0x7D, 0xFE, 0x81]),
    ];
    for (mode, want) in modes {
        assert_eq!(codes(on, on.cast(&x, F8E8M0, true, mode)), want, "f32 to f8e8m0, {mode:?}");
    }
}

/// Source: NumPy 2.3, `astype(str)` and back.
fn text(on: &Subject<'_>) {
    if !on.supports(&[String]) {
        return;
    }
    if on.supports(&[F32]) {
        let x = tensor(on, [6], [0.0f32, 1.5, -2.25, 1e20, f32::NAN, f32::INFINITY]);
        assert_tensor(on, to(on, &x, String), [6], ["0.0", "1.5", "-2.25", "1e+20", "nan", "inf"]);
        let x = tensor(on, [6], ["1", "-2.5", "1e3", "NaN", "-INF", "inf"]);
        let want = [1f32, -2.5, 1000.0, f32::NAN, f32::NEG_INFINITY, f32::INFINITY];
        assert_tensor(on, to(on, &x, F32), [6], want);
        for bad in ["", "one", "1,5", "0x10 "] {
            refused(on, to(on, &tensor(on, [2], ["1", bad]), F32), format_args!("{bad:?} is no number"));
        }
    }
    if on.supports(&[I64]) {
        let x = tensor(on, [3], [0i64, -7, i64::MAX]);
        assert_tensor(on, to(on, &x, String), [3], ["0", "-7", "9223372036854775807"]);
        let x = tensor(on, [3], ["0", "-7", "9223372036854775807"]);
        assert_tensor(on, to(on, &x, I64), [3], [0i64, -7, i64::MAX]);
    }
    if on.supports(&[Bool]) {
        assert_tensor(on, to(on, &tensor(on, [2], [true, false]), String), [2], ["True", "False"]);
    }
}

/// ONNX Constant: the result equals the argument bit by bit.
pub fn constant(on: &Subject<'_>) {
    for dtype in on.taken(Primitive::Constant, 0) {
        for shape in [&[][..], &[1], &[5], &[7, 3], &[0], &[3, 0, 2], &[1, 1, 1, 1, 1, 1, 1], &[1000]] {
            let x = sample(dtype, shape);
            assert_same(on, Ok(on.bring(&x)), &x);
        }
    }
    if on.supports(&[F32]) {
        // A NaN with a payload, a negative NaN, negative zero, and a subnormal.
        let bits = [0x7FC0_0001u32, 0xFFC0_0000, 0x8000_0000, 0x0000_0001].map(f32::from_bits);
        let x = TensorData::new(&[4], &bits).expect("four elements");
        assert_same(on, Ok(on.bring(&x)), &x);
    }
}
