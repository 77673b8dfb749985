//! Runs the conformance cases on libraries of Rust backends.

use crate::built;
use bb::LoadedBackend;

fn load(name: &str) -> LoadedBackend {
    bb::load_backend(built::exported(name)).unwrap()
}

// Runs some of the cases. The tests of the linked backends run all of them with the same code.
bb::conformance!(reference, super::load("reference"), cases = 10);

bb::conformance!(whole_graph, super::load("whole_graph"), cases = 20);

/// Tests the element types that the backend written in C lacks: strings, `f16`, packed integers.
#[test]
fn tensors_of_every_type_come_back() {
    use bb::{Backend, DataType, TensorData};
    let on = load("reference");
    for &dtype in DataType::ALL {
        for shape in [&[][..], &[0], &[2, 3], &[1, 0, 4]] {
            let x = TensorData::zeros(dtype, shape, 1 << 20).unwrap();
            assert_eq!(on.to_host(&on.constant(&x).unwrap()).unwrap(), x, "{dtype} {shape:?}");
        }
    }
    let words = TensorData::strings(&[3], &["", "Straße", "日本"]).unwrap();
    assert_eq!(on.to_host(&on.constant(&words).unwrap()).unwrap(), words);
}

#[test]
fn panics_stay_in_their_library() {
    use bb::{Backend, TensorData};
    let on = load("panics");
    let x = on.constant(&TensorData::scalar(1f32)).unwrap();
    let error = on.add(&x, &x).unwrap_err();
    assert_eq!(error.to_string(), "backend `panics` panicked in `add`: add panics");
    assert!(matches!(error, bb::LoadedError::Panicked { .. }));
    let error = on.to_host(&x).unwrap_err();
    assert_eq!(error.to_string(), "backend `panics` panicked in `to_host`: to_host panics");
    // Dropping the backend panics inside the library, too.
    drop((x, on));
}

/// In older models, initializers are also listed as inputs.
#[test]
fn an_initializer_that_is_also_an_input_is_not_given() {
    use bb::ir::proto::{GraphProto, NodeProto, ValueInfoProto};
    use bb::{Backend, BackendAttrs, TensorData};
    let on = load("whole_graph");
    let name = |name: &str| Some(name.to_owned());
    let port = |port: &str| ValueInfoProto { name: name(port), ..ValueInfoProto::default() };
    let graph = GraphProto {
        name: name("sum"),
        node: vec![NodeProto {
            op_type: name("Add"),
            input: vec!["x".to_owned(), "w".to_owned()],
            output: vec!["y".to_owned()],
            ..NodeProto::default()
        }],
        // The initializer comes before the actual input.
        input: vec![port("w"), port("x")],
        initializer: vec![TensorData::new(&[2], &[10f32, 20.]).unwrap().to_proto("w")],
        output: vec![port("y")],
        ..GraphProto::default()
    };
    let x = on.constant(&TensorData::new(&[2], &[1f32, 2.]).unwrap()).unwrap();
    let outputs = on.execute(&graph, [("x".to_owned(), x)].into(), BackendAttrs::default()).unwrap();
    assert_eq!(on.to_host(&outputs["y"]).unwrap().as_slice::<f32>().unwrap(), [11., 22.]);
}
