//! Tests functions of single elements: the result of an element does not depend on its position, and unsupported
//! types are refused with typed errors.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::ext::{Extended, Image, Llm, Nn, Scalar};
use bb::ir::convert::{bf16_from_f64, f16_from_f64};
use bb::{Backend, DataType, Element, RoundMode, TensorData};
use bb_cpu::{Array, Cpu};
use bb_reference::Reference;

type Function<B, T> = fn(&B, &T) -> Result<T, <B as Backend>::Error>;

/// Returns the functions of one float operand.
fn functions<B: Scalar + Nn>() -> Vec<(&'static str, Function<B, B::Tensor>)> {
    vec![
        ("sqrt", |on, x| on.sqrt(x)),
        ("exp", |on, x| on.exp(x)),
        ("log", |on, x| on.log(x)),
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
        ("expm1", |on, x| on.expm1(x)),
        ("log1p", |on, x| on.log1p(x)),
        ("sigmoid", |on, x| on.sigmoid(x)),
        ("softplus", |on, x| on.softplus(x)),
        ("erf", |on, x| on.erf(x)),
        ("floor", |on, x| on.floor(x)),
        ("ceil", |on, x| on.ceil(x)),
        ("round", |on, x| on.round(x)),
        ("reciprocal", |on, x| on.reciprocal(x)),
        ("gelu", |on, x| on.gelu(x, false)),
        ("gelu", |on, x| on.gelu(x, true)),
        ("swish", |on, x| on.swish(x, 1.0)),
        ("swish", |on, x| on.swish(x, 0.7)),
        ("elu", |on, x| on.elu(x, 1.0)),
        ("leaky_relu", |on, x| on.leaky_relu(x, 0.01)),
        ("hard_sigmoid", |on, x| on.hard_sigmoid(x, 0.2, 0.5)),
    ]
}

fn same<T: Element + Copy>(from: impl Fn(f64) -> T, bits: impl Fn(T) -> u64) {
    let cpu = Cpu::new();
    let one = |x: &[T]| cpu.constant(&TensorData::new(&[x.len()], x).unwrap()).unwrap();
    let host = |y: &Array| -> Vec<u64> {
        cpu.to_host(y).unwrap().as_slice::<T>().unwrap().iter().map(|&v| bits(v)).collect()
    };
    let powers: (&str, Function<Cpu, Array>) = ("pow", |on, x| on.pow(x, x));
    for (name, f) in functions::<Cpu>().into_iter().chain([powers]) {
        // The result of an element in a one-element tensor must be its result in every tensor.
        let inputs: Vec<T> = (0..70).map(|i| from(0.37 + f64::from(i) * 0.0917)).collect();
        let alone: Vec<u64> = inputs.iter().flat_map(|&v| host(&f(&cpu, &one(&[v])).unwrap())).collect();
        for len in 1..=70 {
            let x = inputs.split_at(len).0;
            assert_eq!(host(&f(&cpu, &one(x)).unwrap()), alone.split_at(len).0, "{name} of {len}");
        }
        // A view of every second element, which is not contiguous.
        let spread: Vec<T> = inputs.iter().flat_map(|&v| [v, from(1.0)]).collect();
        let view = cpu.slice(&one(&spread), &[0], &[140], &[0], &[2]).unwrap();
        assert_eq!(host(&f(&cpu, &view).unwrap()), alone, "{name} of a view");
        let long: Vec<T> = inputs.iter().copied().cycle().take(70_000).collect();
        let long = host(&f(&cpu, &one(&long)).unwrap());
        assert!(long.chunks(70).all(|chunk| chunk == alone), "{name} of many");
    }
}

#[test]
fn a_result_does_not_depend_on_the_place_of_its_element() {
    same(|v| v, f64::to_bits);
    same(|v| v as f32, |v| v.to_bits().into());
    same(f16_from_f64, |v| v.to_bits().into());
    same(bf16_from_f64, |v| v.to_bits().into());
}

/// Creates a tensor of two zeros of any type.
fn element<B: Backend>(on: &B, dtype: DataType) -> B::Tensor {
    let zero = TensorData::zeros(dtype, &[1, 1, 2], 1 << 10).unwrap();
    on.constant(&zero).unwrap()
}

fn refuses<B: Scalar + Nn + Llm + Image>(on: &B) {
    let rows: Vec<(&'static str, Function<B, B::Tensor>)> = vec![
        ("softmax", |on, x| on.softmax(x, -1)),
        ("log_softmax", |on, x| on.log_softmax(x, -1)),
        ("layer_normalization", |on, x| on.layer_normalization(x, x, None, Default::default())),
        ("rms_normalization", |on, x| on.rms_normalization(x, x, -1, 1e-5)),
        ("average_pool", |on, x| on.average_pool(x, &[1], Default::default())),
        ("dft", |on, x| on.dft(x, 1, false, false)),
    ];
    for &dtype in DataType::ALL {
        let x = element(on, dtype);
        for (name, f) in functions::<B>().into_iter().chain(rows.iter().copied()) {
            let result = f(on, &x);
            assert_eq!(result.is_ok(), dtype.is_float(), "{name} of {dtype}");
            let Err(error) = result else { continue };
            let text = error.to_string();
            assert!(text.contains(name) && text.contains(&dtype.to_string()), "{name} of {dtype}: {text}");
            if !["sqrt", "exp", "log"].contains(&name) {
                assert_eq!(text, format!("`{name}` takes elements of f16, bf16, f32 or f64, got {dtype}"));
            }
        }
        let truth = dtype == DataType::Bool;
        let logical = [on.not(&x), on.and(&x, &x), on.or(&x, &x), on.xor(&x, &x)];
        assert!(logical.iter().all(|y| y.is_ok() == truth), "logic of {dtype}");
        let number = dtype.is_float() || dtype.is_integer();
        let ordered = [on.sign(&x), on.trunc(&x), on.clip(&x, None, None), on.relu(&x)];
        assert!(ordered.iter().all(|y| y.is_ok() == number), "order of {dtype}");
        use DataType::{F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ};
        let small = matches!(dtype, F8E4M3FN | F8E4M3FNUZ | F8E5M2 | F8E5M2FNUZ);
        let special = dtype.is_float() || small;
        assert_eq!(on.is_nan(&x).is_ok(), special, "is_nan of {dtype}");
        assert_eq!(on.is_inf(&x, true, true).is_ok(), special, "is_inf of {dtype}");
    }
}

#[test]
fn functions_of_floats_take_floats_alone() {
    refuses(&Cpu::new());
    refuses(&Extended::new(&Reference, &[]));
}

#[test]
fn infinities_follow_the_definitions() {
    fn check<B: Scalar + Nn>(on: &B) {
        for dtype in [DataType::F64, DataType::F32, DataType::F16, DataType::BF16] {
            let x = TensorData::new(&[2], &[f64::NEG_INFINITY, f64::INFINITY]).unwrap();
            let x = on.cast(&on.constant(&x).unwrap(), dtype, true, RoundMode::Up).unwrap();
            for y in [on.swish(&x, 1.0), on.gelu(&x, false), on.gelu(&x, true)] {
                let y = on.cast(&y.unwrap(), DataType::F64, true, RoundMode::Up).unwrap();
                let y = on.to_host(&y).unwrap();
                let [low, high] = y.as_slice::<f64>().unwrap() else { unreachable!("two elements") };
                assert!(low.is_nan() && *high == f64::INFINITY, "{dtype}: {low}, {high}");
            }
        }
    }
    check(&Cpu::new());
    check(&Extended::new(&Reference, &[]));
}
