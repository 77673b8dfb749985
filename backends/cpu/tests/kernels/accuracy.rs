//! Measures errors of element-wise functions, in units in the last place, against high-precision test vectors.
//!
//! `BB_WRITE=1 cargo test -p bb-cpu --test kernels accuracy` writes the table of the maximum errors to `bb/docs/semantics.md`.
//! Without the variable, no error may exceed the bound in that page.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "tests")]

use bb::ext::{Extended, Ops};
use bb::{Backend, DataType, RoundMode, TensorData};
use bb_cpu::Cpu;
use bb_reference::Reference;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

type Function<B> = fn(&B, &<B as Backend>::Tensor) -> Result<<B as Backend>::Tensor, <B as Backend>::Error>;

/// Returns the functions, by the names of their test vectors.
fn functions<B: Ops>() -> Vec<(&'static str, Function<B>)> {
    vec![
        ("sqrt", |on, x| on.sqrt(x)),
        ("exp", |on, x| on.exp(x)),
        ("expm1", |on, x| on.expm1(x)),
        ("log", |on, x| on.log(x)),
        ("log1p", |on, x| on.log1p(x)),
        ("sin", |on, x| on.sin(x)),
        ("cos", |on, x| on.cos(x)),
        ("tan", |on, x| on.tan(x)),
        ("asin", |on, x| on.asin(x)),
        ("acos", |on, x| on.acos(x)),
        ("atan", |on, x| on.atan(x)),
        ("sinh", |on, x| on.sinh(x)),
        ("cosh", |on, x| on.cosh(x)),
        ("tanh", |on, x| on.tanh(x)),
        ("asinh", |on, x| on.asinh(x)),
        ("acosh", |on, x| on.acosh(x)),
        ("atanh", |on, x| on.atanh(x)),
        ("sigmoid", |on, x| on.sigmoid(x)),
        ("softplus", |on, x| on.softplus(x)),
        ("erf", |on, x| on.erf(x)),
        ("gelu", |on, x| on.gelu(x, false)),
        ("gelu_tanh", |on, x| on.gelu(x, true)),
        ("swish", |on, x| on.swish(x, 1.0)),
        ("elu", |on, x| on.elu(x, 1.0)),
    ]
}

/// The element types, with the number of significand digits and the exponent of the smallest normal number.
const TYPES: [(DataType, &str, i32, i32); 4] = [
    (DataType::F32, "f32", 24, -126),
    (DataType::F64, "f64", 53, -1022),
    (DataType::F16, "f16", 11, -14),
    (DataType::BF16, "bf16", 8, -126),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reads the test vectors of a function. Each row is an argument, the function's value as an `f64`, and the error of that value.
fn vectors(name: &str, kind: &str) -> Vec<[f64; 3]> {
    let bytes = std::fs::read(root().join(format!("tests/data/accuracy/{name}.{kind}"))).unwrap();
    let number = |b: &[u8]| f64::from_le_bytes(b.try_into().unwrap());
    bytes.chunks(24).map(|row| [number(&row[..8]), number(&row[8..16]), number(&row[16..])]).collect()
}

/// Returns the maximum error of a function, and the argument where it occurs.
fn worst<B: Ops>(on: &B, name: &str, f: Function<B>, of: (DataType, &str, i32, i32)) -> (f64, f64) {
    let (dtype, kind, digits, least) = of;
    let rows = vectors(name, kind);
    let x: Vec<f64> = rows.iter().map(|row| row[0]).collect();
    let x = on.constant(&TensorData::new(&[x.len()], &x).unwrap()).unwrap();
    let x = on.cast(&x, dtype, true, RoundMode::Up).unwrap();
    let y = on.cast(&f(on, &x).unwrap(), DataType::F64, true, RoundMode::Up).unwrap();
    let y = on.to_host(&y).unwrap();
    let mut worst = (0.0, 0.0);
    for (&y, [x, value, rest]) in y.as_slice::<f64>().unwrap().iter().zip(rows) {
        let exponent = ((value.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(least);
        // The unit may be subnormal, so compute it as a product of two normal powers of two.
        let unit = 2f64.powi(exponent) * 2f64.powi(1 - digits);
        let off = ((y - value) - rest).abs() / unit;
        let off = if off.is_nan() { f64::INFINITY } else { off };
        if off > worst.0 {
            worst = (off, x);
        }
    }
    worst
}

/// Returns the lines of the table with the measured errors.
fn table() -> String {
    let (cpu, reference) = (Cpu::new(), Extended::new(&Reference, &[]));
    let mut text = "| function | f32 | f64 | f16 | bf16 | body: f32 | f64 | f16 | bf16 |\n".to_owned();
    text.push_str("|---|---|---|---|---|---|---|---|---|\n");
    for ((name, f), (_, body)) in functions::<Cpu>().into_iter().zip(functions::<Extended<'_, Reference>>()) {
        write!(text, "| `{name}` |").unwrap();
        let errors = TYPES.map(|of| worst(&cpu, name, f, of)).into_iter();
        for (error, at) in errors.chain(TYPES.map(|of| worst(&reference, name, body, of))) {
            println!("{name}: {error:.3} at {at:e}");
            // Round up, so that the page states a bound.
            write!(text, " {:.2} |", (error * 100.0).ceil() / 100.0).unwrap();
        }
        text.push('\n');
    }
    text
}

const BEGIN: &str = "<!-- errors -->\n";
const END: &str = "<!-- end of errors -->";

fn numbers(table: &str) -> Vec<(&str, Vec<f64>)> {
    let rows = table.lines().skip(2).filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    rows.map(|(name, rest)| (name, rest.split('|').filter_map(|n| n.trim().parse().ok()).collect())).collect()
}

#[test]
fn errors_are_those_of_the_documentation() {
    let path = root().join("bb/docs/semantics.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (stated, after) = rest.split_once(END).unwrap();
    let measured = table();
    if std::env::var_os("BB_WRITE").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{measured}{END}{after}")).unwrap();
        return;
    }
    let (stated, measured) = (numbers(stated), numbers(&measured));
    assert_eq!(stated.len(), measured.len());
    for ((name, bounds), (of, errors)) in stated.iter().zip(&measured) {
        assert_eq!(name, of);
        assert_eq!((bounds.len(), errors.len()), (8, 8), "{name}");
        for (bound, error) in bounds.iter().zip(errors) {
            assert!(error <= bound, "{name}: an error of {error}, stated is {bound}");
        }
    }
}

/// Kernels have errors of at most two units. Kernels of 16-bit floats have errors of half a unit, plus the error of their `f32`
/// computation. GELU of `f64` multiplies by the complementary error function, which already has an error of more than one unit.
#[test]
fn kernels_are_accurate() {
    let cpu = Cpu::new();
    for (name, f) in functions::<Cpu>() {
        for of in TYPES {
            let (error, at) = worst(&cpu, name, f, of);
            let most = match of.0 {
                DataType::F64 if name == "gelu" => 2.2,
                DataType::F32 | DataType::F64 => 2.0,
                _ => 0.502,
            };
            assert!(error <= most, "{name} of {} is {error} units off at {at:e}", of.1);
        }
    }
}
