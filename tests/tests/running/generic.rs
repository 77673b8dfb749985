//! Tests a running backend where a function is generic over its backend: results, native kernels, gradients, whole graphs.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ext::{ConvOptions, Ops};
use bb::{
    Backend, BackendHandle, CompileOptions, DataType, Error, Executable, Module, Registry, Runtime, Tensor,
    Value,
};
use bb_cpu::Cpu;
use bb_reference::Reference;
use bb_tests::few::Few;
use std::collections::HashMap;

fn each() -> [BackendHandle; 3] {
    let registry = Registry::builder().declared::<Cpu>().declared::<Reference>().build();
    let few = BackendHandle::new(Runtime::erased("few", Few::least(), &[]));
    [registry.backend("cpu").unwrap(), registry.backend("reference").unwrap(), few]
}

fn numbers(x: &Value) -> Vec<f32> {
    x.to_host(1 << 20).unwrap().as_slice::<f32>().unwrap().to_vec()
}

/// The mean of `softplus(x)²`.
fn loss<B: Ops + ?Sized>(on: &B, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
    let y = on.softplus(x)?;
    on.reduce_mean(&on.mul(&y, &y)?, &[], false)
}

#[test]
fn a_function_over_any_backend_takes_a_handle() {
    for on in each() {
        let x = on.tensor(&[2], &[0f32, 1.0]).unwrap();
        let expected = [0f64, 1.0].map(|x| x.exp().ln_1p());
        let mean = expected.iter().map(|y| y * y).sum::<f64>() / 2.0;
        let found = numbers(&loss(&on, &x).unwrap());
        assert!((f64::from(found[0]) - mean).abs() < 1e-6, "{found:?}, not {mean}");
        assert_eq!((Tensor::dtype(&x), Tensor::shape(&x), Tensor::rank(&x)), (DataType::F32, &[2][..], 1));
        // Lists, optional operands, several results, and methods that read elements.
        let parts = Backend::split(&on, &x, 0, &[1, 1]).unwrap();
        assert_eq!(numbers(&Backend::concat(&on, &[&parts[1], &parts[0]], 0).unwrap()), [1.0, 0.0]);
        let image = on.tensor(&[1, 1, 2, 2], &[1f32, 2.0, 3.0, 4.0]).unwrap();
        let filter = on.tensor(&[1, 1, 2, 2], &[1f32; 4]).unwrap();
        let sum = bb::ext::Nn::conv(&on, &image, &filter, None, ConvOptions::default()).unwrap();
        assert_eq!(numbers(&sum), [10.0]);
        assert_eq!(Ops::ints(&on, &on.tensor(&[2], &[7i64, 8]).unwrap()).unwrap(), [7, 8]);
    }
    let [cpu, reference, _] = each();
    let foreign = reference.tensor(&[1], &[1f32]).unwrap();
    assert!(matches!(loss(&cpu, &foreign), Err(Error::ForeignTensor { .. })));
}

#[test]
fn the_gradient_of_a_function_is_computed_on_a_handle() {
    for on in each() {
        let x = on.tensor(&[2], &[0f32, 1.0]).unwrap();
        let found = bb::gradient(&on, &[&x], &[0], |on, inputs| loss(on, &inputs[0])).unwrap();
        // By the chain rule: softplus(x) times the logistic function of x.
        let slope = |x: f64| x.exp().ln_1p() / (1.0 + (-x).exp());
        for (found, expected) in numbers(&found.gradients[0]).into_iter().zip([slope(0.0), slope(1.0)]) {
            assert!((f64::from(found) - expected).abs() < 1e-6, "{found}, not {expected}");
        }
    }
}

/// A native kernel counts as one call of the backend; a body would make many.
#[test]
fn native_kernels_run() {
    let [cpu, ..] = each();
    let x = cpu.tensor(&[1, 2, 3, 4], &[0.5f32; 24]).unwrap();
    let calls = || cpu.runtime().status().calls;
    let before = calls();
    bb::ext::Llm::attention(&cpu, &x, &x, &x, None, Default::default()).unwrap();
    assert_eq!(calls() - before, 1);
}

#[test]
fn a_graph_runs_on_a_handle_as_on_any_backend() {
    let graph = bb::trace(&[("x", DataType::F32, &[2])], |on, inputs| Ok(vec![on.exp(&inputs[0])?])).unwrap();
    for on in each() {
        let x = on.tensor(&[2], &[0f32, 1.0]).unwrap();
        let named = HashMap::from([("x".to_owned(), x.clone())]);
        let results = Backend::execute(&on, &graph, named, Default::default()).unwrap();
        let expected = [1.0, std::f32::consts::E];
        let near = |x: &Value| numbers(x).iter().zip(expected).all(|(x, y)| (x - y).abs() < 1e-6);
        assert!(near(&results["output_0"]));
        let module = Module::from_graph(&graph, &[], &[]).unwrap();
        let compiled = Backend::compile(&on, module, &CompileOptions::default()).unwrap();
        let run = |program: &dyn Executable<BackendHandle>| program.run(&on, &[Some(&x)]).unwrap();
        assert!(near(&run(&*compiled)[0]));
        assert_eq!((compiled.inputs()[0].name.as_str(), compiled.outputs().len()), ("x", 1));
    }
}
