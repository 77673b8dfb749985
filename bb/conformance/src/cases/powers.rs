//! The cases of `sqrt pow exp log`.

use super::definition::{each_integer, pairs};
use crate::check::refused;
use crate::{Subject, assert_near, assert_numbers, assert_tensor, numbers, tensor};
use bb_core::DataType;
use bb_core::ext::{ErasedError, ErasedTensor};
use bb_ir::op::Primitive;

const INFINITY: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// Checks a function of one float on every float type: at these points, for different ranks, and on an
/// empty tensor.
fn function(
    on: &Subject<'_>,
    op: Primitive,
    call: impl Fn(&ErasedTensor) -> Result<ErasedTensor, ErasedError>,
    points: &[(f64, f64)],
) {
    for dtype in on.taken(op, 0) {
        let (x, want): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
        assert_near(on, call(&numbers(on, dtype, [x.len()], &x)), dtype, [x.len()], &want);
        assert_near(on, call(&numbers(on, dtype, [x.len(), 1], &x)), dtype, [x.len(), 1], &want);
        // This length fills several vector registers and leaves a remainder.
        let (long, wanted): (Vec<f64>, Vec<f64>) = points.iter().copied().cycle().take(67).unzip();
        assert_near(on, call(&numbers(on, dtype, [67], long)), dtype, [67], wanted);
        for (&x, &want) in x.iter().zip(&want) {
            assert_near(on, call(&numbers(on, dtype, [], [x])), dtype, [], [want]);
        }
        assert_numbers(on, call(&numbers(on, dtype, [3, 0], [])), dtype, [3, 0], []);
    }
}

/// ONNX Sqrt. Source: NumPy 2.3, `np.sqrt` in float64.
pub fn sqrt(on: &Subject<'_>) {
    let points = [
        (0.0, 0.0),
        (1.0, 1.0),
        (2.0, std::f64::consts::SQRT_2),
        (3.0, 1.7320508075688772),
        (0.25, 0.5),
        (144.0, 12.0),
        (-1.0, NAN),
        (-INFINITY, NAN),
        (INFINITY, INFINITY),
        (NAN, NAN),
    ];
    function(on, Primitive::Sqrt, |x| on.sqrt(x), &points);
}

/// ONNX Exp. Source: NumPy 2.3, `np.exp` in float64.
pub fn exp(on: &Subject<'_>) {
    let points = [
        (0.0, 1.0),
        (1.0, std::f64::consts::E),
        (-1.0, 0.36787944117144233),
        (0.5, 1.6487212707001282),
        (-2.5, 0.0820849986238988),
        (4.0, 54.598150033144236),
        (10.0, 22026.465794806718),
        (-9.0, 0.00012340980408667956),
        (1000.0, INFINITY),
        (-1000.0, 0.0),
        (INFINITY, INFINITY),
        (-INFINITY, 0.0),
        (NAN, NAN),
    ];
    function(on, Primitive::Exp, |x| on.exp(x), &points);
}

/// ONNX Log. Source: NumPy 2.3, `np.log` in float64.
pub fn log(on: &Subject<'_>) {
    let points = [
        (1.0, 0.0),
        (2.0, std::f64::consts::LN_2),
        (0.5, -std::f64::consts::LN_2),
        (10.0, std::f64::consts::LN_10),
        (0.125, -2.0794415416798357),
        (3.0, 1.0986122886681098),
        (1024.0, 6.931471805599453),
        (0.0, -INFINITY),
        (-1.0, NAN),
        (-INFINITY, NAN),
        (INFINITY, INFINITY),
        (NAN, NAN),
    ];
    function(on, Primitive::Log, |x| on.log(x), &points);
}

/// ONNX Pow: C's `pow` for floats. Integers wrap; for a negative exponent, the result is truncated.
pub fn pow(on: &Subject<'_>) {
    let small = (|i: usize| (1 + i % 3) as f64, |i: usize| (i % 4) as f64);
    pairs(on, Primitive::Pow, |a, b| on.pow(a, b), small, |_, a, b| a.powf(b), None);
    float_points(on);
    mixed(on);
    integers(on);
}

/// Checks floats. Source: C11 annex F.10.4.4, which NumPy follows.
fn float_points(on: &Subject<'_>) {
    let points = [
        (2.0, -1.0, 0.5),
        (9.0, 0.5, 3.0),
        (2.0, 0.5, std::f64::consts::SQRT_2),
        (-2.0, 3.0, -8.0),
        (-2.0, 2.0, 4.0),
        (-8.0, 0.5, NAN),
        (0.0, 0.0, 1.0),
        (NAN, 0.0, 1.0),
        (1.0, NAN, 1.0),
        (NAN, 1.0, NAN),
        (0.0, -1.0, INFINITY),
        (INFINITY, -1.0, 0.0),
        (2.0, INFINITY, INFINITY),
        (0.5, INFINITY, 0.0),
        (-INFINITY, 3.0, -INFINITY),
    ];
    let column = |f: &dyn Fn(&(f64, f64, f64)) -> f64| -> Vec<f64> { points.iter().map(f).collect() };
    for dtype in on.taken(Primitive::Sqrt, 0) {
        let (a, b) = (column(&|p| p.0), column(&|p| p.1));
        let out = on.pow(&numbers(on, dtype, [15], a), &numbers(on, dtype, [15], b));
        assert_near(on, out, dtype, [15], column(&|p| p.2));
    }
}

/// Checks that base and exponent may have any two types, and that the result has the type of the base.
fn mixed(on: &Subject<'_>) {
    for base in on.taken(Primitive::Pow, 0) {
        for exponent in on.taken(Primitive::Pow, 1) {
            let a = numbers(on, base, [2, 2], [2.0, 3.0, 1.0, 5.0]);
            let b = numbers(on, exponent, [2], [3.0, 2.0]);
            assert_near(on, on.pow(&a, &b), base, [2, 2], [8.0, 9.0, 1.0, 25.0]);
        }
        // With a float exponent, the power of an integer is computed as a float and truncated.
        if base.is_integer() && on.supports(&[DataType::F32]) {
            let a = numbers(on, base, [5], [4.0, 9.0, 2.0, 7.0, -2.0]);
            let b = numbers(on, DataType::F32, [5], [0.5, 0.5, 0.5, -1.0, 3.0]);
            assert_numbers(on, on.pow(&a, &b), base, [5], [2.0, 3.0, 1.0, 0.0, -8.0]);
        }
    }
}

fn integers(on: &Subject<'_>) {
    if on.supports(&[DataType::I32]) {
        let a = tensor(on, [5], [3i32, -2, 2, 2, i32::MIN]);
        let b = tensor(on, [5], [21i32, 31, 31, 32, 1]);
        // 3^21 = 10460353203 = 2 * 2^32 + 1870418611.
        assert_tensor(on, on.pow(&a, &b), [5], [1870418611i32, i32::MIN, i32::MIN, 0, i32::MIN]);
        let a = tensor(on, [5], [2i32, 1, -1, -1, -3]);
        let b = tensor(on, [5], [-1i32, -5, -3, -2, -2]);
        assert_tensor(on, on.pow(&a, &b), [5], [0i32, 1, -1, 1, 0]);
        refused(
            on,
            on.pow(&tensor(on, [], [0i32]), &tensor(on, [], [-1i32])),
            "0 to the power of -1 has no value",
        );
    }
    if on.supports(&[DataType::I64]) {
        // 3^41 = 36472996377170786403 = 2 * 2^64 - 420491770248316829. Floats would not be exact enough.
        let out = on.pow(&tensor(on, [2], [3i64, 3037000499]), &tensor(on, [2], [41i64, 2]));
        assert_tensor(on, out, [2], [-420491770248316829i64, 9223372030926249001]);
    }
    each_integer!(on, T => {
        if on.supports(&[DataType::I64]) {
            let out = on.pow(&tensor(on, [2], [1i64, 2]), &tensor(on, [2], [T::MAX, 0 as T]));
            assert_tensor(on, out, [2], [1i64, 1]);
        }
    });
}
