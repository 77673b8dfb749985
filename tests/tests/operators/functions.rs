//! Tests bodies that are built from primitives: the accuracy of elementary functions, NaN and infinities, and that tracing records
//! only primitives.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ext::{AttentionOptions, ConvOptions, Create, Extended, Llm, MaxPoolOptions, Nn, Ops, Scalar};
use bb::trace::{TraceStop, TracedTensor, Tracer};
use bb::{Backend, DataType, Primitive, TensorData};
use bb_reference::Reference;

/// Calls the function of one operand called `name`.
fn call<B: Ops>(on: &B, name: &str, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
    match name {
        "expm1" => on.expm1(x),
        "log1p" => on.log1p(x),
        "sigmoid" => on.sigmoid(x),
        "softplus" => on.softplus(x),
        "erf" => on.erf(x),
        "sin" => on.sin(x),
        "cos" => on.cos(x),
        "tan" => on.tan(x),
        "asin" => on.asin(x),
        "acos" => on.acos(x),
        "atan" => on.atan(x),
        "sinh" => on.sinh(x),
        "cosh" => on.cosh(x),
        "tanh" => on.tanh(x),
        "asinh" => on.asinh(x),
        "acosh" => on.acosh(x),
        "atanh" => on.atanh(x),
        other => panic!("no function `{other}`"),
    }
}

fn on_reference(name: &str, x: &TensorData) -> TensorData {
    let on = Extended::new(&Reference, &[]);
    let x = on.constant(x).unwrap();
    on.to_host(&call(&on, name, &x).unwrap()).unwrap()
}

/// Returns the distance of neighbouring floats at `y`, for floats with `digits` bits and exponents from
/// `least` on.
fn ulp(y: f64, digits: i32, least: i32) -> f64 {
    let exponent = if y == 0.0 { least } else { (y.abs().log2().floor() as i32).max(least) };
    // One power would be computed as the reciprocal of infinity where the result is no normal number.
    2f64.powi(exponent) * 2f64.powi(1 - digits)
}

/// The table was computed with mpmath, with more digits than `f64`.
#[test]
fn elementary_functions_are_exact_to_a_few_units_in_the_last_place() {
    let table = include_str!("../../data/functions/elementary.tsv");
    let mut worst: Vec<(String, f64, f64)> = Vec::new();
    for line in table.lines().filter(|l| !l.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let (name, x, y): (_, f64, f64) = (fields[0], fields[1].parse().unwrap(), fields[2].parse().unwrap());
        let wide = on_reference(name, &TensorData::scalar(x)).as_slice::<f64>().unwrap()[0];
        let narrow =
            f64::from(on_reference(name, &TensorData::scalar(x as f32)).as_slice::<f32>().unwrap()[0]);
        let errors = ((wide - y).abs() / ulp(y, 53, -1022), (narrow - y).abs() / ulp(y, 24, -126));
        assert!(
            errors.0 <= 8.0 && errors.1 <= 8.0,
            "{name}({x}): {errors:?} units off; {wide} and {narrow}, expected {y}"
        );
        match worst.last_mut().filter(|w| w.0 == name) {
            Some(w) => (w.1, w.2) = (w.1.max(errors.0), w.2.max(errors.1)),
            None => worst.push((name.to_owned(), errors.0, errors.1)),
        }
    }
    assert_eq!(worst.len(), 17);
}

/// Source: C99, annex F.
#[test]
fn nan_and_infinities_follow_ieee_754() {
    let inf = f64::INFINITY;
    let nan = f64::NAN;
    let limits = [
        ("expm1", inf, -1.0),
        ("log1p", inf, nan),
        ("sigmoid", 1.0, 0.0),
        ("softplus", inf, 0.0),
        ("erf", 1.0, -1.0),
        ("sin", nan, nan),
        ("cos", nan, nan),
        ("tan", nan, nan),
        ("asin", nan, nan),
        ("acos", nan, nan),
        ("atan", std::f64::consts::FRAC_PI_2, -std::f64::consts::FRAC_PI_2),
        ("sinh", inf, -inf),
        ("cosh", inf, inf),
        ("tanh", 1.0, -1.0),
        ("asinh", inf, -inf),
        ("acosh", inf, nan),
        ("atanh", nan, nan),
    ];
    for (name, high, low) in limits {
        let x = TensorData::new(&[3], &[nan, inf, -inf]).unwrap();
        let y = on_reference(name, &x).as_slice::<f64>().unwrap().to_vec();
        let same = |got: f64, want: f64| got == want || (got.is_nan() && want.is_nan());
        assert!(y[0].is_nan() && same(y[1], high) && same(y[2], low), "{name}: {y:?}");
    }
}

/// Source: NumPy's `floor`, `ceil`, `trunc`, `rint` and `sign`.
#[test]
fn rounding_is_that_of_numpy() {
    let on = Extended::new(&Reference, &[]);
    let x = [-2.5f32, -1.5, -0.5, -0.0, 0.5, 1.5, 2.5, 1e30, f32::NEG_INFINITY];
    let t = on.constant(&TensorData::new(&[x.len()], &x).unwrap()).unwrap();
    let read = |y: Result<_, _>| on.to_host(&y.unwrap()).unwrap().as_slice::<f32>().unwrap().to_vec();
    let inf = f32::NEG_INFINITY;
    assert_eq!(read(on.floor(&t)), [-3.0, -2.0, -1.0, 0.0, 0.0, 1.0, 2.0, 1e30, inf]);
    assert_eq!(read(on.ceil(&t)), [-2.0, -1.0, 0.0, 0.0, 1.0, 2.0, 3.0, 1e30, inf]);
    assert_eq!(read(on.trunc(&t)), [-2.0, -1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 1e30, inf]);
    assert_eq!(read(on.round(&t)), [-2.0, -2.0, 0.0, 0.0, 0.0, 2.0, 2.0, 1e30, inf]);
    assert_eq!(read(on.sign(&t)), [-1.0, -1.0, -1.0, 0.0, 1.0, 1.0, 1.0, 1.0, -1.0]);
    assert!(read(on.ceil(&t))[2].is_sign_negative());
}

/// Source: NumPy. The result of `mod` has the sign of the divisor, the result of `fmod` has the sign of the dividend.
#[test]
fn remainders_take_the_sign_that_is_asked_for() {
    let on = Extended::new(&Reference, &[]);
    let tensor = |v: &[i32]| on.constant(&TensorData::new(&[v.len()], v).unwrap()).unwrap();
    let (a, b) = (tensor(&[-4, 7, 5, 4, -7, 8]), tensor(&[2, -3, 8, -2, 3, 5]));
    let read =
        |fmod| on.to_host(&on.modulo(&a, &b, fmod).unwrap()).unwrap().as_slice::<i32>().unwrap().to_vec();
    assert_eq!(read(false), [0, -2, 5, 0, 2, 3]);
    assert_eq!(read(true), [0, 1, 5, 0, -1, 3]);
}

/// Traces a function of one `f32` operand and returns the recorded operators.
fn recorded(
    shape: &[usize],
    function: impl FnOnce(&Tracer, &TracedTensor) -> Result<TracedTensor, TraceStop>,
) -> Vec<String> {
    let inputs = [("x", DataType::F32, shape)];
    let graph = bb::trace(&inputs, |on, xs| Ok(vec![function(on, &xs[0])?])).unwrap();
    graph.node.iter().map(|n| n.op_type().to_owned()).collect()
}

#[test]
fn tracing_records_primitives_only() {
    let all = [
        recorded(&[2, 3], |on, x| on.softmax(x, -1)),
        recorded(&[2, 3], |on, x| on.gelu(x, true)),
        recorded(&[2, 3], |on, x| on.rms_normalization(x, x, -1, 1e-5)),
        recorded(&[1, 2, 5, 5], |on, x| {
            let options =
                MaxPoolOptions { strides: &[2, 2], pads: &[1; 4], ceil: true, ..Default::default() };
            on.max_pool(x, &[3, 3], options)
        }),
        recorded(&[2, 2, 3, 3], |on, x| {
            on.conv(x, x, None, ConvOptions { pads: &[1; 4], ..Default::default() })
        }),
        recorded(&[1, 4, 3, 2], |on, x| on.attention(x, x, x, None, AttentionOptions::default())),
    ];
    for names in all {
        assert!(!names.is_empty());
        assert!(names.iter().all(|n| Primitive::from_name(n).is_some()), "{names:?}");
    }
}

/// Operations on constants are folded and leave no step.
#[test]
fn constants_are_folded() {
    assert_eq!(recorded(&[4], |on, x| on.relu(x)), ["Less", "Where"]);
}

/// NumPy's `broadcast_to`, along extents so large that several gathers are needed.
#[test]
fn expand_repeats_along_large_extents() {
    let on = Extended::new(&Reference, &[]);
    let x = on.constant(&TensorData::new(&[2, 1], &[3_u8, 250]).unwrap()).unwrap();
    for extent in [1 << 16, (1 << 16) + 1, 70_001, 200_000] {
        let y = on.to_host(&on.expand(&x, &[2, extent]).unwrap()).unwrap();
        assert_eq!(y.shape(), [2, extent]);
        let (first, second) = y.as_slice::<u8>().unwrap().split_at(extent);
        assert!(first.iter().all(|&v| v == 3) && second.iter().all(|&v| v == 250));
    }
}

/// A body is traced once for calls that are alike: for those that differ in the sign of a zero, it is traced again.
#[test]
fn calls_that_differ_in_the_bits_of_a_parameter_have_traces_of_their_own() {
    let on = Extended::new(&Reference, &[]);
    let x = on.constant(&TensorData::new(&[2], &[-1f64, 1.0]).unwrap()).unwrap();
    let bits = |alpha| {
        let y = on.to_host(&on.leaky_relu(&x, alpha).unwrap()).unwrap();
        y.as_slice::<f64>().unwrap()[0].to_bits()
    };
    for _ in 0..2 {
        assert_eq!([0.0, -0.0].map(bits), [(-0.0f64).to_bits(), 0.0f64.to_bits()]);
        assert_eq!([0.5, 0.25].map(bits), [(-0.5f64).to_bits(), (-0.25f64).to_bits()]);
    }
}

/// The trace of a body has the step that draws, not its result.
#[test]
fn draws_without_a_seed_differ_between_calls() {
    let on = Extended::new(&Reference, &[]);
    let draw = || on.to_host(&on.random_uniform(&[8], Default::default()).unwrap()).unwrap();
    assert_ne!(draw(), draw());
}
