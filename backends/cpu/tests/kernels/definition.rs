//! Tests that every operation equals its definition, computed element by element, for every element type and layout.
//!
//! Results are compared bit by bit, except that all NaNs are equal and that functions have a tolerance.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ext::{Nn, Scalar};
use bb::ir::convert::{bf16_from_f64, f16_from_f64};
use bb::{Backend, DataType, Element, Tensor, TensorData, bf16, f16};
use bb_cpu::{Array, Cpu, CpuError};

/// The numbers of rows and columns of two planes: none, a few, whole vectors, vectors with remaining elements, and more
/// than a buffer contains.
const EXTENTS: [[usize; 2]; 9] =
    [[0, 3], [1, 1], [1, 5], [3, 5], [2, 8], [4, 17], [6, 130], [1, 2100], [2, 4200]];

/// The layout of an operand of two planes with `r` rows and `c` columns: its shape in memory, the function that creates a
/// view of it, and the index in memory of element `(o, i, j)`.
struct Layout {
    extents: fn(usize, usize) -> [usize; 3],
    view: fn(&Cpu, &Array) -> Result<Array, CpuError>,
    at: fn([usize; 2], [usize; 3]) -> usize,
}

const LAYOUTS: [Layout; 9] = [
    // Contiguous.
    Layout { extents: |r, c| [2, r, c], view: same, at: |[r, c], [o, i, j]| (o * r + i) * c + j },
    // Transposed.
    Layout {
        extents: |r, c| [2, c, r],
        view: |cpu, x| cpu.transpose(x, &[0, 2, 1]),
        at: |[r, c], [o, i, j]| (o * c + j) * r + i,
    },
    // Every second element, in reverse.
    Layout {
        extents: |r, c| [2, r, 2 * c],
        view: |cpu, x| cpu.slice(x, &[-1], &[i64::MIN], &[2], &[-2]),
        at: |[r, c], [o, i, j]| (o * r + i) * 2 * c + 2 * c - 1 - 2 * j,
    },
    // Rows that are parts of longer rows.
    Layout {
        extents: |r, c| [2, r, c + 3],
        view: |cpu, x| cpu.slice(x, &[2], &[-1], &[2], &[1]),
        at: |[r, c], [o, i, j]| (o * r + i) * (c + 3) + 2 + j,
    },
    // Planes and rows in reverse.
    Layout {
        extents: |r, c| [2, r, c],
        view: |cpu, x| cpu.slice(x, &[-1, -1], &[i64::MIN, i64::MIN], &[0, 1], &[-1, -1]),
        at: |[r, c], [o, i, j]| ((1 - o) * r + (r - 1 - i)) * c + j,
    },
    // The plane index is the innermost dimension.
    Layout {
        extents: |r, c| [r, c, 2],
        view: |cpu, x| cpu.transpose(x, &[2, 0, 1]),
        at: |[_, c], [o, i, j]| (i * c + j) * 2 + o,
    },
    // A row, a column and an element, which are broadcast.
    Layout { extents: |_, c| [2, 1, c], view: same, at: |[_, c], [o, _, j]| o * c + j },
    Layout { extents: |r, _| [1, r, 1], view: same, at: |_, [_, i, _]| i },
    Layout { extents: |_, _| [1, 1, 1], view: same, at: |_, _| 0 },
];

#[expect(clippy::unnecessary_wraps, reason = "it stands beside views that may fail")]
fn same(_: &Cpu, x: &Array) -> Result<Array, CpuError> {
    Ok(x.clone())
}

impl Layout {
    /// Returns an operand whose memory repeats `values`, and its elements in the view's order.
    fn operand<T: Element + Copy>(&self, cpu: &Cpu, [r, c]: [usize; 2], values: &[T]) -> (Array, Vec<T>) {
        let extents = (self.extents)(r, c);
        // The multiplier is coprime to the number of values, so that all of them occur.
        let memory: Vec<T> =
            (0..extents.iter().product()).map(|i: usize| values[i * 7919 % values.len()]).collect();
        let x = cpu.constant(&TensorData::new(&extents, &memory).unwrap()).unwrap();
        let x = (self.view)(cpu, &x).unwrap();
        let indices = (0..2).flat_map(|o| (0..r).flat_map(move |i| (0..c).map(move |j| [o, i, j])));
        (x, indices.map(|at| memory[(self.at)([r, c], at)]).collect())
    }
}

/// A number type with the values that tests use.
trait Value: Element + Copy + PartialEq {
    /// Returns values that include the limits and special values of the type, and some valid divisors.
    fn values() -> Vec<Self>;
    /// Returns whether a result equals the expected one. For floats, all NaNs are equal, and zeros of different sign are
    /// different.
    fn is(self, expected: Self) -> bool;
    fn is_zero(self) -> bool;
    fn wide(self) -> f64;
}

macro_rules! integers {
    ($($t:ident)*) => {$(
        impl Value for $t {
            fn values() -> Vec<$t> {
                vec![0, 1, 2, 3, 7, 100, $t::MAX, $t::MAX - 1, $t::MIN, $t::MIN + 1, $t::MAX / 2, 5, (0 as $t).wrapping_sub(1)]
            }
            fn is(self, expected: $t) -> bool { self == expected }
            fn is_zero(self) -> bool { self == 0 }
            fn wide(self) -> f64 { self as f64 }
        }
    )*};
}

macro_rules! floats {
    ($($t:ident: $make:expr, $wide:expr;)*) => {$(
        impl Value for $t {
            fn values() -> Vec<$t> {
                [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 7.25, 1e-3, -90.0, 60000.0, 1e30, 1e-41,
                    f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -0.3].map($make).to_vec()
            }
            fn is(self, expected: $t) -> bool {
                self.to_bits() == expected.to_bits() || self.is_nan() && expected.is_nan()
            }
            fn is_zero(self) -> bool { $wide(self) == 0.0 }
            fn wide(self) -> f64 { $wide(self) }
        }
    )*};
}

integers!(i8 i16 i32 i64 u8 u16 u32 u64);
floats! {
    f32: |v| v as f32, f64::from;
    f64: |v| v, |v: f64| v;
    f16: f16_from_f64, f16::to_f64;
    bf16: bf16_from_f64, bf16::to_f64;
}

fn list<T: Element + Copy>(cpu: &Cpu, x: &Array) -> Vec<T> {
    cpu.to_host(x).unwrap().as_slice::<T>().unwrap().to_vec()
}

type One = fn(&Cpu, &Array) -> Result<Array, CpuError>;
type Two = fn(&Cpu, &Array, &Array) -> Result<Array, CpuError>;

/// Checks an operation with one operand for every layout.
fn unary<T: Value>(name: &str, f: One, near: impl Fn(T, T) -> bool, define: impl Fn(T) -> T) {
    let cpu = Cpu::new();
    for extents in EXTENTS {
        for (l, layout) in LAYOUTS.iter().enumerate() {
            let (x, elements) = layout.operand(&cpu, extents, &T::values());
            let got = list::<T>(&cpu, &f(&cpu, &x).unwrap());
            let want = elements.iter().map(|&v| define(v));
            // A broadcast operand has fewer results than `elements`, so check only the first.
            let repeats = got.len() != elements.len();
            for (i, (got, want)) in
                got.into_iter().zip(want).enumerate().take(if repeats { 1 } else { usize::MAX })
            {
                let v = elements[i];
                assert!(
                    near(got, want),
                    "{name}({v:?}) is {got:?}, expected {want:?}: {extents:?}, layout {l}"
                );
            }
        }
    }
}

/// Checks an operation with two operands for every pair of layouts.
fn binary<T: Value, U: Element + Copy>(
    name: &str,
    f: Two,
    divides: bool,
    equal: impl Fn(U, U) -> bool,
    define: impl Fn(T, T) -> U,
    list: impl Fn(&Cpu, &Array) -> Vec<U>,
) {
    let cpu = Cpu::new();
    let divisors: Vec<T> = T::values().into_iter().filter(|v| !divides || !v.is_zero()).collect();
    for extents in EXTENTS {
        for (k, left) in LAYOUTS.iter().enumerate() {
            for (l, right) in LAYOUTS.iter().enumerate().filter(|(l, _)| k < 6 || *l < 6) {
                let (a, x) = left.operand(&cpu, extents, &T::values());
                let (b, y) = right.operand(&cpu, extents, &divisors);
                let result = f(&cpu, &a, &b).unwrap();
                let [r, c] = extents;
                assert_eq!(result.shape(), [2, r, c], "{name}");
                for (i, got) in list(&cpu, &result).into_iter().enumerate() {
                    let want = define(x[i], y[i]);
                    assert!(
                        equal(got, want),
                        "{name}({:?}, {:?}) is {got:?}, expected {want:?}: {extents:?}, layouts {k} and {l}",
                        x[i],
                        y[i],
                    );
                }
            }
        }
    }
}

/// Checks comparisons and `where`, which have one definition for all types.
fn compared<T: Value + PartialOrd>() {
    let bools = |cpu: &Cpu, x: &Array| {
        cpu.to_host(x).unwrap().to_bools().unwrap().iter().map(|&b| u8::from(b)).collect()
    };
    binary::<T, u8>("equal", |c, a, b| c.equal(a, b), false, |x, y| x == y, |a, b| u8::from(a == b), bools);
    binary::<T, u8>(
        "greater",
        |c, a, b| c.greater(a, b),
        false,
        |x, y| x == y,
        |a, b| u8::from(a > b),
        bools,
    );
    binary::<T, u8>("less", |c, a, b| c.less(a, b), false, |x, y| x == y, |a, b| u8::from(a < b), bools);
    binary::<T, T>(
        "where",
        |c, a, b| c.r#where(&c.less(a, b)?, a, b),
        false,
        T::is,
        |a, b| if a < b { a } else { b },
        list::<T>,
    );
}

macro_rules! check_integers {
    ($($test:ident: $t:ident $(, $signed:ident)?;)*) => {$(
        #[test]
        fn $test() {
            type Wide = i128;
            let two = |name, f: Two, define: fn(Wide, Wide) -> Wide| {
                binary::<$t, $t>(name, f, name == "div", $t::is, |a, b| define(a.into(), b.into()) as $t, list::<$t>);
            };
            two("add", |c, a, b| c.add(a, b), |a, b| a + b);
            two("sub", |c, a, b| c.sub(a, b), |a, b| a - b);
            two("mul", |c, a, b| c.mul(a, b), |a, b| a.wrapping_mul(b));
            two("div", |c, a, b| c.div(a, b), |a, b| a / b);
            two("maximum", |c, a, b| c.maximum(a, b), |a, b| if a > b { a } else { b });
            two("minimum", |c, a, b| c.minimum(a, b), |a, b| if a < b { a } else { b });
            let one = |name, f: One, define: fn(Wide) -> Wide| {
                unary::<$t>(name, f, $t::is, |v| define(v.into()) as $t);
            };
            one("abs", |c, x| c.abs(x), |v| if v < 0 { -v } else { v });
            one("relu", |c, x| c.relu(x), |v| if v < 0 { 0 } else { v });
            $(one(stringify!($signed), |c, x| c.$signed(x), |v| -v);)?
            compared::<$t>();
        }
    )*};
}

check_integers! {
    i8_equals_its_definition: i8, neg;
    i16_equals_its_definition: i16, neg;
    i32_equals_its_definition: i32, neg;
    i64_equals_its_definition: i64, neg;
    u8_equals_its_definition: u8;
    u16_equals_its_definition: u16;
    u32_equals_its_definition: u32;
    u64_equals_its_definition: u64;
}

/// The maximum error of a function, in units in the last place of the type.
const NEAR: f64 = 4.0;

macro_rules! check_floats {
    ($($test:ident: $t:ident, in $wide:ident, $make:expr, $widen:expr, epsilon $epsilon:expr;)*) => {$(
        #[test]
        fn $test() {
            // Each result must equal the result in the wider type, rounded once.
            let two = |name, f: Two, define: fn($wide, $wide) -> $wide| {
                binary::<$t, $t>(name, f, false, $t::is, |a, b| $make(define($widen(a), $widen(b))), list::<$t>);
            };
            two("add", |c, a, b| c.add(a, b), |a, b| a + b);
            two("sub", |c, a, b| c.sub(a, b), |a, b| a - b);
            two("mul", |c, a, b| c.mul(a, b), |a, b| a * b);
            two("div", |c, a, b| c.div(a, b), |a, b| a / b);
            two("maximum", |c, a, b| c.maximum(a, b), |a, b| if a >= b || a.is_nan() { a } else { b });
            two("minimum", |c, a, b| c.minimum(a, b), |a, b| if a <= b || a.is_nan() { a } else { b });
            let one = |name, f: One, define: fn($wide) -> $wide| {
                unary::<$t>(name, f, $t::is, |v| $make(define($widen(v))));
            };
            one("neg", |c, x| c.neg(x), |v| -v);
            one("abs", |c, x| c.abs(x), |v| v.abs());
            one("sqrt", |c, x| c.sqrt(x), |v| v.sqrt());
            one("relu", |c, x| c.relu(x), |v| if v < 0.0 { 0.0 } else { v });
            // Functions have a tolerance, but infinities, zeros and NaN must be exact. The tolerance is absolute near
            // zero, because subnormal numbers have fewer digits.
            let near = |got: $t, want: $t| {
                let (got, want) = (got.wide(), want.wide());
                let off = NEAR * $epsilon * want.abs() + f64::from(f32::MIN_POSITIVE) * NEAR;
                got == want || got.is_nan() && want.is_nan() || (got - want).abs() <= off
            };
            let function = |name, f: One, define: fn(f64) -> f64| {
                unary::<$t>(name, f, near, |v| $make(define(v.wide()) as $wide));
            };
            function("exp", |c, x| c.exp(x), f64::exp);
            function("log", |c, x| c.log(x), f64::ln);
            function("tanh", |c, x| c.tanh(x), f64::tanh);
            function("sigmoid", |c, x| c.sigmoid(x), |v| 1.0 / (1.0 + (-v).exp()));
            // Swish of minus infinity is NaN, because the definition multiplies it by 0.
            function("swish", |c, x| c.swish(x, 1.0), |v| v / (1.0 + (-v).exp()));
            binary::<$t, $t>(
                "pow",
                |c, a, b| c.pow(a, b),
                false,
                near,
                |a, b| $make(a.wide().powf(b.wide()) as $wide),
                list::<$t>,
            );
            compared::<$t>();
        }
    )*};
}

check_floats! {
    f32_equals_its_definition: f32, in f32, |v| v, |v: f32| v, epsilon f64::from(f32::EPSILON);
    f64_equals_its_definition: f64, in f64, |v| v, |v: f64| v, epsilon f64::EPSILON;
    f16_equals_its_definition: f16, in f32, f16::from_f32, f16::to_f32, epsilon f16::EPSILON.to_f64();
    bf16_equals_its_definition: bf16, in f32, bf16::from_f32, bf16::to_f32, epsilon bf16::EPSILON.to_f64();
}

#[test]
fn bools_compare_and_elements_of_any_size_are_chosen() {
    let cpu = Cpu::new();
    for extents in EXTENTS {
        for left in &LAYOUTS[..6] {
            for right in &LAYOUTS {
                let (a, x) = left.operand::<u8>(&cpu, extents, &[0, 1, 1]);
                let (b, y) = right.operand::<u8>(&cpu, extents, &[1, 0, 0, 1]);
                let [a, b] = [a, b].map(|x| cpu.cast(&x, DataType::Bool, true, bb::RoundMode::Up).unwrap());
                let want: Vec<bool> = x.iter().zip(&y).map(|(x, y)| x == y).collect();
                let equal = cpu.equal(&a, &b).unwrap();
                assert_eq!(cpu.to_host(&equal).unwrap().to_bools().unwrap(), want);
                // Complex numbers have 8 or 16 bytes, and may be less aligned than that.
                for dtype in [DataType::C64, DataType::C128] {
                    let number = |x: &Array| cpu.cast(x, dtype, true, bb::RoundMode::Up).unwrap();
                    let chosen = cpu.r#where(&equal, &number(&a), &number(&b)).unwrap();
                    let back = cpu.cast(&chosen, DataType::Bool, true, bb::RoundMode::Up).unwrap();
                    let want: Vec<bool> =
                        x.iter().zip(&y).map(|(x, y)| if x == y { *x != 0 } else { *y != 0 }).collect();
                    assert_eq!(cpu.to_host(&back).unwrap().to_bools().unwrap(), want, "{dtype:?}");
                }
            }
        }
    }
}

/// Checks all reductions along all sets of axes, with small integers whose sums are exact in every type.
fn reductions<T: Value>(make: fn(i64) -> T, sums: bool) {
    let cpu = Cpu::new();
    let values: Vec<T> = [3, 1, 0, 2, 1, 1, 2, 0, 1, 5, 0].map(make).to_vec();
    for [r, c] in [[1, 1], [3, 5], [40, 3], [2, 70], [33, 130]] {
        for layout in &LAYOUTS[..6] {
            let (x, elements) = layout.operand(&cpu, [r, c], &values);
            for mask in 1..8usize {
                let gone = |axis: usize| mask >> axis & 1 == 1;
                let axes: Vec<i64> = (0..3).filter(|&axis| gone(axis as usize)).collect();
                let mut groups: Vec<Vec<f64>> = Vec::new();
                let kept =
                    |at: usize, extent: usize, axis: usize| if gone(axis) { (0, 1) } else { (at, extent) };
                for (k, v) in elements.iter().enumerate() {
                    let (i, j) = (kept(k / c % r, r, 1), kept(k % c, c, 2));
                    let group = (kept(k / c / r, 2, 0).0 * i.1 + i.0) * j.1 + j.0;
                    groups.resize(groups.len().max(group + 1), Vec::new());
                    groups[group].push(v.wide());
                }
                let check = |name: &str, result: Result<Array, CpuError>, define: &dyn Fn(&[f64]) -> f64| {
                    let got: Vec<f64> =
                        list::<T>(&cpu, &result.unwrap()).into_iter().map(Value::wide).collect();
                    let want: Vec<f64> = groups.iter().map(|group| define(group)).collect();
                    assert_eq!(got, want, "{name} of {r} x {c} over {axes:?}");
                };
                check("reduce_max", cpu.reduce_max(&x, &axes, false), &|g| {
                    g.iter().copied().fold(f64::MIN, f64::max)
                });
                check("reduce_min", cpu.reduce_min(&x, &axes, false), &|g| {
                    g.iter().copied().fold(f64::MAX, f64::min)
                });
                if sums {
                    let whole = |v: f64| if T::DTYPE.is_integer() { v.trunc() } else { v };
                    let rounded = |v: f64| match T::DTYPE {
                        DataType::F32 => f64::from(v as f32),
                        DataType::F16 => f16_from_f64(v).to_f64(),
                        DataType::BF16 => bf16_from_f64(v).to_f64(),
                        _ => whole(v),
                    };
                    check("reduce_sum", cpu.reduce_sum(&x, &axes, false), &|g| rounded(g.iter().sum()));
                    check("reduce_mean", cpu.reduce_mean(&x, &axes, false), &|g| {
                        rounded(g.iter().sum::<f64>() / g.len() as f64)
                    });
                }
            }
        }
    }
}

#[test]
fn reductions_equal_their_definition() {
    reductions(|v| v as f32, true);
    reductions(|v| v as f64, true);
    reductions(|v| v as i32, true);
    reductions(|v| v, true);
    reductions(|v| v as u32, true);
    reductions(|v| v as u64, true);
    reductions(|v| v as i8, false);
    reductions(|v| v as u8, false);
    reductions(|v| f16_from_f64(v as f64), false);
    reductions(|v| bf16_from_f64(v as f64), false);
}
