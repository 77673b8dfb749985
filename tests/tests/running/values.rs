//! Tests that values have the methods of a tensor, and that compiled graphs run by position and by name.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::{BackendHandle, CompileOptions, DataType, Deployment, Error, Module, Primitive, TensorData, Value};
use bb_tests::backends;
use bb_tests::model::{model, node};

fn each() -> impl Iterator<Item = BackendHandle> {
    backends::NAMES.into_iter().map(|name| BackendHandle::new(backends::start(name).unwrap()))
}

fn floats(x: &Value) -> Vec<f32> {
    x.to_host(1024).unwrap().as_slice::<f32>().unwrap().to_vec()
}

fn close(x: &Value, expected: &[f32]) {
    let got = floats(x);
    assert_eq!(got.len(), expected.len());
    assert!(got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{got:?}, expected {expected:?}");
}

/// Attention with one head, as a component would write it.
fn attention(q: &Value, k: &Value, v: &Value) -> Result<Value, Error> {
    let scale = q.scalar_like(f64::sqrt(2.0))?;
    let scores = (q.matmul(&k.transpose(&[1, 0])?)? / scale)?;
    scores.softmax(-1)?.matmul(v)
}

/// By definition: if q and k are the identity, the scores are 1/√2 on the diagonal and 0 elsewhere. The softmax
/// therefore weighs a row's own value with e^(1/√2) / (e^(1/√2) + 1).
#[test]
fn component_code_reads_like_arithmetic() {
    let own = 0.5f32.sqrt().exp() / (0.5f32.sqrt().exp() + 1.0);
    for on in each() {
        let x = on.tensor(&[2, 2], &[1f32, 0.0, 0.0, 1.0]).unwrap();
        let y = attention(&x, &x, &x).unwrap();
        assert_eq!((y.rank(), y.shape(), y.dtype()), (2, [2, 2].as_slice(), DataType::F32), "{}", on.name());
        close(&y, &[own, 1.0 - own, 1.0 - own, own]);
        assert_eq!(y.owner(), on.owner());
    }
}

#[test]
fn operators_are_the_methods_of_their_name() {
    for on in each() {
        let a = on.tensor(&[2], &[6f32, 8.0]).unwrap();
        let b = on.tensor(&[2], &[2f32, 4.0]).unwrap();
        close(&(&a + &b).unwrap(), &[8.0, 12.0]);
        close(&(&a - b.clone()).unwrap(), &[4.0, 4.0]);
        close(&(a.clone() * &b).unwrap(), &[12.0, 32.0]);
        close(&(a.clone() / b.clone()).unwrap(), &[3.0, 2.0]);
        close(&(-&a).unwrap(), &[-6.0, -8.0]);
        close(&(-a).unwrap(), &[-6.0, -8.0]);
    }
}

/// Operations without an operand, with a list of operands, with several results, and of a family.
#[test]
fn every_kind_of_row_is_a_method() {
    for on in each() {
        let a = on.tensor(&[2], &[1f32, -2.0]).unwrap();
        close(&a.constant(&TensorData::new(&[1], &[7f32]).unwrap()).unwrap(), &[7.0]);
        close(&Value::concat(&[&a, &a], 0).unwrap(), &[1.0, -2.0, 1.0, -2.0]);
        let halves = a.split(0, &[1, 1]).unwrap();
        assert_eq!(halves.len(), 2);
        close(halves.last().unwrap(), &[-2.0]);
        close(&a.clip(Some(&a.scalar_like(0.0).unwrap()), None).unwrap(), &[1.0, 0.0]);
        let nothing = Value::concat(&[], 0).unwrap_err();
        assert!(matches!(nothing, Error::Operand { op, .. } if op == Primitive::Concat.spec().method));
    }
}

#[test]
fn operands_of_two_backends_are_an_error_that_says_what_to_write() {
    let [one, other]: [BackendHandle; 2] = each().take(2).collect::<Vec<_>>().try_into().unwrap();
    let (a, b) = (one.tensor(&[1], &[1f32]).unwrap(), other.tensor(&[1], &[2f32]).unwrap());
    let error = (&a + &b).unwrap_err();
    assert!(matches!(error, Error::ForeignTensor { op: "add", .. }), "{error}");
    assert!(error.to_string().contains("by `adopt` of the handle of"), "{error}");
    close(&(&a + one.adopt(&b).unwrap()).unwrap(), &[3.0]);
}

#[test]
fn a_value_whose_backend_is_gone_says_so() {
    let on = each().next().unwrap();
    let a = on.tensor(&[1], &[1f32]).unwrap();
    drop(on);
    assert!(matches!((&a + &a).unwrap_err(), Error::Gone { .. }));
}

/// `z = x - y`: the test would fail if the operands were exchanged.
fn difference() -> Vec<u8> {
    model(&[("x", &[1]), ("y", &[1])], vec![node("Sub", &["x", "y"], &["z"])], &[("z", &[1])])
}

#[test]
fn a_compiled_graph_runs_by_position_and_by_name() {
    for on in each() {
        let module = Module::from_bytes(difference()).unwrap();
        let graph = on.compile(module, &CompileOptions::default()).unwrap();
        let (x, y) = (on.tensor(&[1], &[5f32]).unwrap(), on.tensor(&[1], &[3f32]).unwrap());
        close(graph.run(&[Some(&x), Some(&y)]).unwrap().first().unwrap(), &[2.0]);
        let named = graph.run_named(&[("y", &y), ("x", &x)]).unwrap();
        assert_eq!(named.len(), 1);
        close(named.get("z").unwrap(), &[2.0]);
        let error = |inputs: &[(&str, &Value)]| graph.run_named(inputs).unwrap_err().to_string();
        assert_eq!(
            error(&[("x", &x), ("w", &y)]),
            r#"`w` is no input of the graph; its inputs are ["x", "y"]"#
        );
        assert_eq!(error(&[("x", &x), ("x", &y)]), "input `x` is given twice");
        let missing = graph.run_named(&[("x", &x)]).unwrap_err();
        let first: &dyn std::error::Error = &missing;
        let innermost = std::iter::successors(Some(first), |error| error.source()).last().unwrap();
        assert_eq!(innermost.to_string(), r#"input `y` is missing; the graph needs ["x", "y"]"#);
    }
}

#[test]
fn a_deployment_runs_by_position_and_by_name() {
    for on in each() {
        let ready = Deployment::builder().model("m", difference()).backend(on.clone()).ready().unwrap();
        let (x, y) = (on.tensor(&[1], &[5f32]).unwrap(), on.tensor(&[1], &[3f32]).unwrap());
        close(ready.run(&[Some(&x), Some(&y)]).unwrap().first().unwrap(), &[2.0]);
        let outputs = ready.run_named([("y", y.clone()), ("x", x.clone())]).unwrap();
        close(outputs.get("z").unwrap(), &[2.0]);
        let many = ready.run(&[Some(&x), Some(&y), None]).unwrap_err().to_string();
        assert_eq!(many, "the graph takes 2 inputs, got 3");
        let twice = ready.run_named([("x", x.clone()), ("x", y)]).unwrap_err().to_string();
        assert_eq!(twice, "input `x` is given twice");
        let missing = ready.run(&[Some(&x)]).unwrap_err().to_string();
        assert_eq!(missing, r#"input `y` is missing; the graph needs ["x", "y"]"#);
    }
}
