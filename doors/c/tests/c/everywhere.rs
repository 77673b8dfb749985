//! Tests that a registered backend can be used by its name everywhere.

use crate::built;
use bb::{CompileOptions, Module};
use bb_layers as _;
use bb_reference as _;
use std::path::PathBuf;

/// Registers the backend written in C once, from a list of folders and files.
fn registered() {
    let folder = built::folder().join("a folder");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("README.txt"), "no library").unwrap();
    let list = std::env::join_paths([folder, built::plain().to_path_buf(), PathBuf::new()]).unwrap();
    let loaded = bb::load_path(&list).unwrap();
    assert_eq!(loaded.iter().map(|library| library.name()).collect::<Vec<_>>(), ["plain"]);
}

#[test]
fn the_registry_lists_and_opens_it() {
    registered();
    registered();
    assert_eq!(bb::Registry::global().entries().filter(|entry| entry.name == "plain").count(), 1);
    assert!(bb::supports_device("plain"));
    let on = bb::backend("plain").unwrap();
    let sum = on.add(&on.tensor(&[2], &[1f32, 2.]).unwrap(), &on.tensor(&[2], &[3f32, 4.]).unwrap()).unwrap();
    assert_eq!(sum.to_host(64).unwrap().as_slice::<f32>().unwrap(), [4., 6.]);
    assert!(
        bb::linked_backends().unwrap().iter().any(|linked| linked.name == "plain" && linked.backend.is_ok())
    );
    // Element types that the library lacks can be used if values may be rounded.
    let on = bb::backend("plain(narrow_floats)").unwrap();
    let half = bb::f16::from_f32;
    let x = on.tensor(&[2], &[half(0.5), half(2.)]).unwrap();
    assert_eq!(
        on.add(&x, &x).unwrap().to_host(64).unwrap().as_slice::<bb::f16>().unwrap(),
        [half(1.), half(4.)]
    );
}

/// Runs a model on inputs of ones. Returns its outputs, sorted by name.
fn run(model: &str, backend: &str) -> Vec<(String, bb::TensorData)> {
    let path = built::root().join("../../tests/data/models").join(model).join("model.onnx");
    let on = bb::backend(backend).unwrap();
    let model = on.compile(Module::load(path).unwrap(), &CompileOptions::default()).unwrap();
    let feeds: Vec<_> = model
        .inputs()
        .iter()
        .map(|port| {
            let bb::ir::graph::ValueType::Tensor { dtype, shape } = &port.ty else { panic!("a tensor") };
            let extent = |dim: &bb::ir::graph::Dim| match dim {
                bb::ir::graph::Dim::Known(extent) => *extent,
                _ => 2,
            };
            let shape: Vec<usize> = shape.iter().flatten().map(extent).collect();
            let ones = vec![1f32; shape.iter().product()];
            assert_eq!(*dtype, bb::DataType::F32);
            (port.name.clone(), on.tensor(&shape, &ones).unwrap())
        })
        .collect();
    let feeds: Vec<_> = feeds.iter().map(|(name, value)| (name.as_str(), value)).collect();
    let outputs = model.run_named(&feeds).unwrap();
    let mut outputs: Vec<_> =
        outputs.into_iter().map(|(name, value)| (name, on.to_host(&value).unwrap())).collect();
    outputs.sort_by(|a, b| a.0.cmp(&b.0));
    outputs
}

#[test]
fn models_run_on_it_under_layers_and_before_another() {
    registered();
    let expected = run("surfaces_gbr", "reference");
    for backend in [
        "plain",
        "first_of(plain, reference)",
        "first_of(reference, plain)",
        "metrics+plain",
        "check+metrics+plain",
    ] {
        let outputs = run("surfaces_gbr", backend);
        assert_eq!(outputs.len(), expected.len());
        for ((name, got), (_, want)) in outputs.iter().zip(&expected) {
            let (got, want) = (got.as_slice::<f32>().unwrap(), want.as_slice::<f32>().unwrap());
            assert!(
                got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-5),
                "{name} on {backend}: {got:?} {want:?}"
            );
        }
    }
}
