//! Tests that meaningless or impossible models are refused at once, by an error that names the cause.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

use bb::onnx::OnnxValue;
use bb::{
    BackendAttrs, BackendHandle, CompileOptions, DataType, Deployment, Error, Module, Problem, Runtime,
    TensorData, Value,
};
use bb_reference::Reference;
use bb_tests::{backends, model};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn each() -> impl Iterator<Item = BackendHandle> {
    backends::NAMES.into_iter().map(|name| BackendHandle::new(backends::start(name).unwrap()))
}

fn floats(value: &Value) -> Vec<f32> {
    value.to_host(1 << 20).unwrap().as_slice().unwrap().to_vec()
}

/// The messages of an error and of its causes.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let rest = error.source().map(causes).unwrap_or_default();
    format!("{error}: {rest}")
}

/// Negates an input `x`.
fn negation() -> Vec<u8> {
    model::model(&[("x", &[1])], vec![model::node("Neg", &["x"], &["y"])], &[("y", &[1])])
}

#[test]
fn inputs_beyond_those_of_the_graph_are_refused() {
    for handle in each() {
        let x = handle.tensor(&[1], &[1f32]).unwrap();
        let module = Module::from_bytes(negation()).unwrap();
        let plan = handle.compile(module.clone(), &CompileOptions::default()).unwrap();
        let counted = |error: Error| {
            assert!(matches!(error, Error::InputCount { expected: 1, got: 2 }), "{error:?}");
        };
        counted(plan.run(&[Some(&x), Some(&x)]).unwrap_err());
        counted(plan.run(&[Some(&x), None]).unwrap_err());
        let item = || Some(OnnxValue::Tensor(x.clone()));
        counted(plan.run_items(&[item(), item()]).unwrap_err());
        let deployed = Deployment::builder().model("m", negation()).backend(handle.clone()).ready().unwrap();
        counted(deployed.run(&[Some(&x), Some(&x)]).unwrap_err());
        let named = |names: &[&str]| names.iter().map(|&name| (name.to_owned(), x.clone())).collect();
        let graph = Arc::new(module.graph().to_proto().unwrap());
        let inputs: HashMap<String, Value> = named(&["x", "w"]);
        let opsets = module.graph().opsets().unwrap();
        let attrs = BackendAttrs::default().with_opsets(&opsets);
        let error = handle.runtime().clone().dispatch(graph, inputs, attrs).wait().unwrap_err();
        assert!(
            matches!(&error, Error::UnknownInput { name, expected } if name == "w" && *expected == ["x"]),
            "{} on {}",
            causes(&error),
            handle.name()
        );
    }
}

#[test]
fn inputs_of_one_name_are_refused() {
    for handle in each() {
        let x = handle.tensor(&[1], &[1f32]).unwrap();
        let module = Module::from_bytes(negation()).unwrap();
        let plan = handle.compile(module, &CompileOptions::default()).unwrap();
        let error = plan.run_named(&[("x", &x), ("x", &x)]).unwrap_err();
        assert!(matches!(error, Error::RepeatedInput { name } if name == "x"));
    }
    let types = [("x", DataType::F32, &[1usize][..]), ("x", DataType::F32, &[1])];
    let traced = bb::trace(&types, |on, inputs| Ok(vec![bb::Backend::add(on, &inputs[0], &inputs[1])?]));
    assert!(traced.is_err(), "two inputs are called `x`");
    assert!(causes(&traced.unwrap_err()).contains("`x`"));
    let sum = model::node("Add", &["x", "x"], &["y"]);
    let twice = model::model(&[("x", &[1]), ("x", &[1])], vec![sum], &[("y", &[1])]);
    assert!(causes(&Module::from_bytes(twice).unwrap_err()).contains("`x`"));
}

/// A block of this size has more bits than an address can count.
#[test]
fn blocks_beyond_all_numbers_are_refused() {
    let mut experts = model::node("QMoE", &["x", "router", "w", "s", "", "v", "t"], &["y"]);
    experts.domain = Some("com.microsoft".to_owned());
    experts = model::with_int(experts, "block_size", i64::MAX);
    let bytes = |from, to| model::with_int(model::node("Cast", &[from], &[to]), "to", 2);
    let serialized = model::model(
        &[
            ("x", &[2, 8]),
            ("router", &[2, 2]),
            ("a", &[2, 4, 4]),
            ("s", &[2, 4]),
            ("b", &[2, 8, 2]),
            ("t", &[2, 8]),
        ],
        vec![bytes("a", "w"), bytes("b", "v"), experts],
        &[("y", &[2, 8])],
    );
    for handle in each() {
        let module = Module::from_bytes(serialized.clone()).unwrap();
        let given = |shape: &[usize]| handle.tensor(shape, &vec![1f32; shape.iter().product()]).unwrap();
        let inputs = [
            given(&[2, 8]),
            given(&[2, 2]),
            given(&[2, 4, 4]),
            given(&[2, 4]),
            given(&[2, 8, 2]),
            given(&[2, 8]),
        ];
        let inputs: Vec<Option<&Value>> = inputs.iter().map(Some).collect();
        let plan = handle.compile(module, &CompileOptions::default());
        let error = plan.and_then(|plan| plan.run(&inputs)).unwrap_err();
        let text = causes(&error);
        assert!(text.contains("`QMoE`: operand 2 has elements of u8"), "{text}");
    }
}

#[test]
fn models_and_backends_of_one_name_are_refused() {
    let reference = || BackendHandle::new(Runtime::new(Reference));
    let problems = |built: Result<Deployment, Error>| match built {
        Err(Error::NotReady { problems }) => problems.0,
        other => panic!("{other:?}"),
    };
    let one = Deployment::builder().backend(reference());
    let found = problems(one.model("m", negation()).model("m", negation()).ready());
    assert!(matches!(found.as_slice(), [Problem::DuplicateModel { model }] if model == "m"), "{found:?}");

    let two = Deployment::builder().model("m", negation()).backend(reference()).backend(reference());
    let found = problems(two.ready());
    let [problem @ Problem::DuplicateBackend { backend }] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(backend, "reference");
    assert_eq!(
        problem.to_string(),
        "two backends are called `reference`; bind one of them alone, or start one under another name"
    );
    let same = reference();
    let twice = Deployment::builder().model("m", negation()).backend(same.clone()).backend(same);
    assert!(twice.ready().is_ok(), "the same instance may be bound twice");
}

#[test]
fn unsqueeze_without_axes_changes_nothing() {
    for handle in each() {
        let x = handle.tensor(&[2], &[1f32, 2.0]).unwrap();
        let y = handle.unsqueeze(&x, &[]).unwrap();
        assert_eq!((y.shape(), floats(&y)), (&[2][..], vec![1.0, 2.0]), "{}", handle.name());
        let nodes = vec![model::ints("axes", &[]), model::node("Unsqueeze", &["x", "axes"], &["y"])];
        let bytes = model::model(&[("x", &[2])], nodes, &[("y", &[2])]);
        let plan = handle.compile(Module::from_bytes(bytes).unwrap(), &CompileOptions::default()).unwrap();
        assert_eq!(floats(&plan.run(&[Some(&x)]).unwrap()[0]), [1.0, 2.0]);
    }
}

#[test]
fn a_pattern_with_unbalanced_brackets_is_an_error() {
    for (pattern, elements) in [("(a", 1), ("a)", 1), ("[a", 1), ("a)|(b", 1), ("(a", 0)] {
        let mut node = model::node("RegexFullMatch", &["x"], &["y"]);
        node.attribute.push(bb::ir::proto::AttributeProto {
            name: Some("pattern".to_owned()),
            r#type: Some(bb::ir::proto::attribute_proto::AttributeType::String as i32),
            s: Some(pattern.as_bytes().to_vec()),
            ..Default::default()
        });
        let bytes = model::model(&[("x", &[-1])], vec![node], &[("y", &[-1])]);
        let bytes = model::typed(bytes, &[("x", DataType::String), ("y", DataType::Bool)]);
        for handle in each() {
            let texts = vec!["a"; elements];
            let x = handle.runtime().constant(&TensorData::strings(&[elements], &texts).unwrap()).unwrap();
            let module = Module::from_bytes(bytes.clone()).unwrap();
            let ran =
                handle.compile(module, &CompileOptions::default()).and_then(|plan| plan.run(&[Some(&x)]));
            let error = causes(&ran.expect_err(pattern));
            assert!(error.contains("pattern") && error.contains(pattern), "{error}");
        }
    }
}

#[test]
fn a_picture_beyond_the_limits_of_the_decoder_is_an_error() {
    // A PNG of 30000 x 30000 pixels of three bytes, which are more than 512 MiB, and the beginning of its data.
    const PNG: [u8; 68] = [
        137, 80, 78, 71, 13, 10, 26, 10, 0, 0, 0, 13, 73, 72, 68, 82, 0, 0, 117, 48, 0, 0, 117, 48, 8, 2, 0,
        0, 0, 233, 69, 111, 237, 0, 0, 0, 11, 73, 68, 65, 84, 120, 156, 99, 96, 128, 1, 0, 0, 10, 0, 1, 127,
        128, 116, 94, 0, 0, 0, 0, 73, 69, 78, 68, 174, 66, 96, 130,
    ];
    let node = model::node("ImageDecoder", &["x"], &["y"]);
    let bytes = model::model(&[("x", &[-1])], vec![node], &[("y", &[-1, -1, -1])]);
    let bytes = model::typed(bytes, &[("x", DataType::U8), ("y", DataType::U8)]);
    let handle = BackendHandle::new(Runtime::new(Reference));
    let x = handle.tensor(&[PNG.len()], &PNG).unwrap();
    let plan = handle.compile(Module::from_bytes(bytes).unwrap(), &CompileOptions::default()).unwrap();
    let error = causes(&plan.run(&[Some(&x)]).expect_err("too large"));
    assert!(error.contains("is a picture of 2700000000 bytes, of which 536870912 are allowed"), "{error}");
}

#[test]
fn a_transposed_convolution_adds_only_products_of_elements_that_exist() {
    // Each element of the operand times the filter, two places further on: ONNX's definition.
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    for (filter, x, expected) in [
        // No product contributes to the third position of each step.
        ([1.0, inf], [1.0, 2.0], [1.0, inf, 0.0, 2.0, inf]),
        ([1.0, 2.0], [inf, 1.0], [inf, inf, 0.0, 1.0, 2.0]),
        ([nan, 1.0], [1.0, 3.0], [nan, 1.0, 0.0, nan, 3.0]),
        ([-inf, 1.0], [0.0, 3.0], [nan, 0.0, 0.0, -inf, 3.0]),
    ] {
        let node = model::with_ints(model::node("ConvTranspose", &["x", "w"], &["y"]), "strides", &[3]);
        let bytes = model::model(&[("x", &[1, 1, 2]), ("w", &[1, 1, 2])], vec![node], &[("y", &[1, 1, 5])]);
        for handle in each() {
            let x = handle.tensor(&[1, 1, 2], &x).unwrap();
            let w = handle.tensor(&[1, 1, 2], &filter).unwrap();
            let module = Module::from_bytes(bytes.clone()).unwrap();
            let plan = handle.compile(module, &CompileOptions::default()).unwrap();
            let y = &plan.run(&[Some(&x), Some(&w)]).unwrap()[0];
            assert_eq!(y.shape(), [1, 1, 5]);
            let got = floats(y);
            let same = |(a, b): (&f32, &f32)| a == b || (a.is_nan() && b.is_nan());
            assert!(got.iter().zip(&expected).all(same), "{got:?}, {expected:?} on {}", handle.name());
        }
    }
}

#[test]
fn a_tensor_that_no_memory_can_hold_is_refused_at_once() {
    for handle in each() {
        for dtype in [DataType::U8, DataType::F32, DataType::F64] {
            for shape in [&[1usize << 62][..], &[1 << 31, 1 << 31], &[1 << 48]] {
                let start = Instant::now();
                let made = handle.zeros(shape, dtype).and_then(|x| handle.to_host(&x));
                let took = start.elapsed();
                assert!(made.is_err(), "{shape:?}");
                assert!(took < Duration::from_secs(1), "{took:?} for {shape:?} {dtype} on {}", handle.name());
            }
        }
    }
    assert!(TensorData::zeros(DataType::U8, &[1 << 62], usize::MAX).is_err());
}

#[cfg(unix)]
#[test]
fn a_case_whose_model_is_a_device_is_refused() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("endless");
    let _absent = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink("/dev/zero", folder.join("model.onnx")).unwrap();
    let error = causes(&bb::conformance::onnx::Contents::read(&folder).unwrap_err());
    assert!(error.contains("device"), "{error}");
    let ran = bb::conformance::onnx::run(&folder, &backends::start("reference").unwrap());
    assert!(causes(&ran.unwrap_err()).contains("device"));
}
