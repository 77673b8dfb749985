//! Activations of 16-bit floats are computed in `f32` and rounded once, on every backend.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::{BackendHandle, CompileOptions, DataType, Module, RoundMode};
use bb_tests::backends;
use bb_tests::model::{model, node, typed};

/// An operator and its definition.
type Operator = (&'static str, fn(f64) -> f64);

/// Operators and their definitions in `f64`.
const OPERATORS: [Operator; 6] = [
    ("Mish", |x| x * x.exp().ln_1p().tanh()),
    ("Softsign", |x| x / (1.0 + x.abs())),
    ("Selu", |x| 1.050701022148132 * if x < 0.0 { 1.6732631921768188 * x.exp_m1() } else { x }),
    ("Elu", |x| if x < 0.0 { x.exp_m1() } else { x }),
    ("HardSigmoid", |x| (0.2 * x + 0.5).clamp(0.0, 1.0)),
    ("HardSwish", |x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0)),
];

#[test]
fn halves_are_rounded_once() {
    for (dtype, digits, least) in [(DataType::F16, 11, -14), (DataType::BF16, 8, -126)] {
        // Numbers of the type: each is an integer of six bits times a power of two.
        let x: Vec<f64> = (0..1200).map(|i| f64::from(i % 120 - 60) * 2f64.powi(i / 120 - 8)).collect();
        let n = x.len();
        for (op, definition) in OPERATORS {
            let extents = &[n as i64][..];
            let bytes = model(&[("x", extents)], vec![node(op, &["x"], &["y"])], &[("y", extents)]);
            let bytes = typed(bytes, &[("x", dtype), ("y", dtype)]);
            for name in backends::NAMES {
                let on = BackendHandle::new(backends::start(name).unwrap());
                let module = Module::from_bytes(bytes.clone()).unwrap();
                let graph = on.compile(module, &CompileOptions::default()).unwrap();
                let input = on.tensor(&[n], &x).unwrap();
                let input = input.cast(dtype, true, RoundMode::Up).unwrap();
                let results = graph.run(&[Some(&input)]).unwrap();
                let y = results.first().unwrap().cast(DataType::F64, true, RoundMode::Up).unwrap();
                let y = y.to_host(1 << 20).unwrap();
                for (&x, &y) in x.iter().zip(y.as_slice::<f64>().unwrap()) {
                    let want = definition(x);
                    let exponent = ((want.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(least);
                    let off = (y - want).abs() / 2f64.powi(exponent - digits + 1);
                    assert!(off <= 0.502, "{op}({x}) of {dtype} on {name} is {y}, {off} units off {want}");
                }
            }
        }
    }
}
