//! Runs complete, real models, entirely on the GPU, and also divided between two backends with transfers
//! between them.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::conformance::onnx;
use bb::onnx::OnnxValue;
use bb::{BackendHandle, CompileOptions, Deployment, Module, NarrowError, Runtime, TensorData, Value};
use bb_cpu as _;
use bb_wgpu as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Returns the models in `tests/data/models`, and in the folder that the variable `BB_MODELS` names.
fn models() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/models");
    let folders = [Some(own), std::env::var_os("BB_MODELS").map(PathBuf::from)];
    folders.iter().flatten().flat_map(|folder| onnx::find(folder).unwrap()).collect()
}

fn wgpu() -> BackendHandle {
    bb::backend("wgpu").unwrap()
}

/// A model either passes, or needs an element type that the device does not support.
#[test]
fn models_run_on_the_device_alone() {
    let on: Arc<Runtime> = wgpu().runtime().clone();
    let mut wrong = Vec::new();
    for case in models() {
        match onnx::run(&case, &on) {
            Ok(()) => println!("{} ran", case.display()),
            Err(failure) => match NarrowError::cause_of(&failure) {
                Some(lacks) => println!("{} needs more: {lacks}", case.display()),
                None => wrong.push((case, failure)),
            },
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Every model passes on the combination of the device and the CPU, and each run transfers exactly the values
/// that the placement lists.
#[test]
fn models_run_on_the_first_of_device_and_processor() {
    for case in models() {
        let several = bb::first_of([wgpu(), bb::backend("cpu").unwrap()]).unwrap();
        let on = BackendHandle::start("several", several.clone());
        onnx::run(&case, on.runtime()).unwrap_or_else(|failure| panic!("{}: {failure:?}", case.display()));
        let module = Module::load(case.join("model.onnx")).unwrap();
        let planned = several.placement(&module).transfers.len() as u64;
        let program = on.compile(module, &CompileOptions::default()).unwrap();
        let inputs = onnx::read_inputs(&case.join("test_data_set_0"), program.inputs()).unwrap();
        let bring = |x: &Option<OnnxValue<TensorData>>| {
            x.as_ref().map(|x| x.try_map(&mut |x: &TensorData| on.runtime().constant(x))).transpose()
        };
        let inputs = inputs.iter().map(bring).collect::<Result<Vec<_>, _>>().unwrap();
        let before = several.transfers().values;
        let _results = program.run_items(&inputs).unwrap();
        let moved = several.transfers().values - before;
        println!("{}: {moved} transfers", case.display());
        assert_eq!(moved, planned, "{}", case.display());
    }
}

/// Returns the outputs of a model for the first data set of its folder, and the number of transferred values.
fn outputs(case: &Path, backends: &[BackendHandle], of_cpu: &[&str]) -> (Vec<TensorData>, usize) {
    let mut builder = Deployment::builder().model("m", case.join("model.onnx").as_path()).accept_narrowing();
    for backend in backends {
        builder = builder.backend(backend.clone());
    }
    for op in of_cpu {
        builder = builder.bind_op(*op, "cpu");
    }
    let node = builder.ready().unwrap();
    let transfers = node.model("m").unwrap().placement().transfers.len();
    // The inputs and outputs of the whole model, in order.
    let compiled = bb::backend("cpu").unwrap();
    let module = Module::load(case.join("model.onnx")).unwrap();
    let ports = compiled.compile(module, &CompileOptions::default()).unwrap();
    let inputs = onnx::read_inputs(&case.join("test_data_set_0"), ports.inputs()).unwrap();
    let on = node.backends().default_backend().unwrap();
    let bring = |item: Option<OnnxValue<TensorData>>| match item {
        Some(OnnxValue::Tensor(x)) => Some(on.runtime().constant(&x).unwrap()),
        _ => None,
    };
    let inputs: Vec<Option<Value>> = inputs.into_iter().map(bring).collect();
    let inputs: Vec<Option<&Value>> = inputs.iter().map(Option::as_ref).collect();
    let results = node.run(&inputs).unwrap();
    (results.iter().map(|y| y.to_host(usize::MAX).unwrap()).collect(), transfers)
}

/// Compares half of the model on the GPU and half on the CPU with the whole model on the CPU.
#[test]
fn a_model_on_two_backends_computes_the_same() {
    let cpu = bb::backend("cpu").unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/models");
    for (model, of_cpu) in
        [("magika", &["MatMul"][..]), ("basic_pitch", &["Conv"]), ("tiny_llama_primitives_op17", &["MatMul"])]
    {
        let case = root.join(model);
        let (expected, none) = outputs(&case, std::slice::from_ref(&cpu), &[]);
        let (got, transfers) = outputs(&case, &[wgpu(), cpu.clone()], of_cpu);
        assert!(none == 0 && transfers > 1, "{model}: {transfers} transfers");
        assert_eq!(expected.len(), got.len(), "{model}");
        for (expected, got) in expected.iter().zip(&got) {
            let tolerance = onnx::Tolerance { relative: 1e-3, absolute: 1e-5 };
            onnx::compare(expected, got, tolerance).unwrap_or_else(|error| panic!("{model}: {error}"));
        }
    }
}
