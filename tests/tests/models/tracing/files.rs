//! Tests that models are written to files completely or not at all, and that large initializers go to a separate
//! file on request.

use super::{run_module, traced};
use bb::export::{ExportOptions, Keep, ModelTrace, inlined, save};
use bb::ir::graph::Dim;
use bb::{Backend, DataType, Error, Module, TensorData};
use prost::Message;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Makes an empty folder.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tracing").join(name);
    // Files of an earlier run must not be mistaken for files of this one.
    let _absent = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn weights() -> TensorData {
    let numbers: Vec<f32> = (0..6000).map(|i| i as f32).collect();
    TensorData::new(&[2, 3000], &numbers).unwrap()
}

fn weighted() -> ModelTrace {
    ModelTrace::new(&[("x", DataType::F32, &[1, 2])], |on, x| {
        let small = on.constant(&TensorData::new(&[1, 2], &[1f32, 2.0])?)?;
        Ok(vec![on.matmul(&on.add(&x[0], &small)?, &on.constant(&weights())?)?])
    })
    .unwrap()
}

#[test]
fn a_saved_model_is_one_file_unless_asked_otherwise() {
    let folder = folder("saved");
    let x = TensorData::new(&[1, 2], &[1f32, -1.0]).unwrap();
    // The columns are `i` and `3000 + i`: twice the first plus the second.
    let expected: Vec<f32> = (0..3000).map(|i| (2 * i + 3000 + i) as f32).collect();
    let check = |path: &Path| {
        let module = Module::load(path).unwrap();
        assert_eq!(
            run_module(module, std::slice::from_ref(&x), "cpu")[0].as_slice::<f32>().unwrap(),
            expected
        );
    };
    let one = folder.join("one.onnx");
    assert_eq!(weighted().save(&one, &ExportOptions::default()).unwrap(), [one.as_path()]);
    check(&one);
    let two = folder.join("two.onnx");
    let beside = folder.join("two.onnx.data");
    let files = weighted().save(&two, &ExportOptions::default().external_above(100)).unwrap();
    assert_eq!(files, [beside.as_path(), two.as_path()]);
    assert_eq!(std::fs::metadata(&beside).unwrap().len(), 24_000);
    assert!(std::fs::metadata(&two).unwrap().len() < 1000);
    check(&two);
    assert_eq!(names(&folder), ["one.onnx", "two.onnx", "two.onnx.data"]);
    // Existing files are replaced.
    weighted().save(&two, &ExportOptions::default().external_above(1)).unwrap();
    check(&two);
}

#[test]
fn a_file_that_cannot_be_written_leaves_nothing() {
    let folder = folder("refused");
    let absent = folder.join("absent").join("model.onnx");
    assert!(matches!(
        weighted().save(&absent, &ExportOptions::default()),
        Err(Error::Write { path, .. }) if path == absent
    ));
    // There is a folder with the name of the model; this is noticed only after both files were written.
    let taken = folder.join("taken.onnx");
    std::fs::create_dir(&taken).unwrap();
    assert!(weighted().save(&taken, &ExportOptions::default()).is_err());
    assert_eq!(names(&folder), ["taken.onnx"]);
}

#[test]
fn a_graph_for_backends_is_what_it_was() {
    let trace = ModelTrace::new(&[("x", DataType::F32, &[2, 2]), ("w", DataType::F32, &[2, 3])], |on, x| {
        super::layer(on, &x[0], &x[1])
    })
    .unwrap();
    let operators = |graph: &bb::GraphProto| -> Vec<String> {
        graph.node.iter().map(|n| n.op_type().to_owned()).collect()
    };
    assert_eq!(operators(&trace.graph().unwrap()), operators(&traced()));
}

/// Exports every model in `tests/data/models` as a case below the folder. Returns their number and the models
/// that cannot be lowered.
pub(crate) fn export_models(folder: &Path) -> (usize, Vec<String>) {
    let models = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/models");
    let (mut written, mut refused) = (0, Vec::new());
    for entry in std::fs::read_dir(models).unwrap() {
        let case = entry.unwrap().path();
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        let module = Module::load(case.join("model.onnx")).unwrap();
        let given = bb::conformance::onnx::read_tensors(&case.join("test_data_set_0"), "input").unwrap();
        let names = module.graph().inputs.iter().map(|v| module.graph().name_of(*v).to_owned());
        let known = |x: &TensorData| x.shape().iter().map(|&d| Dim::Known(d)).collect();
        let shapes: HashMap<String, Vec<Dim>> = names.zip(given.iter().map(known)).collect();
        let mut models = vec![("inlined", inlined(&module).unwrap())];
        match ModelTrace::of_module(&module, &shapes) {
            Ok(trace) => {
                let kept = |opset| ExportOptions::default().opset(opset).keep(Keep::All);
                for (how, options) in [
                    ("lowered", ExportOptions::default()),
                    ("kept", kept(21)),
                    ("kept-17", kept(17)),
                    ("lowered-26", ExportOptions::default().opset(26)),
                ] {
                    models.push((how, trace.model(&options).unwrap_or_else(|e| panic!("{name}: {e}"))));
                }
            }
            Err(Error::NotOneGraph { .. } | Error::NotTensor { .. }) => refused.push(name.clone()),
            Err(error) => panic!("{name}: {error}"),
        }
        for (how, model) in models {
            let to = folder.join(format!("{name}.{how}"));
            std::fs::create_dir_all(to.join("test_data_set_0")).unwrap();
            for file in std::fs::read_dir(case.join("test_data_set_0")).unwrap() {
                let file = file.unwrap();
                std::fs::copy(file.path(), to.join("test_data_set_0").join(file.file_name())).unwrap();
            }
            // The model's tolerance. Without it, the runner uses the tolerance of ONNX's own cases.
            std::fs::copy(case.join("data.json"), to.join("data.json")).unwrap();
            let beside = (how == "kept").then_some(1000);
            save(model, &to.join("model.onnx"), beside).unwrap();
            written += 1;
        }
    }
    refused.sort();
    (written, refused)
}

#[test]
fn models_are_exported_and_run_as_before() {
    let folder = folder("models");
    let (written, refused) = export_models(&folder);
    // A branch of the first model depends on a value that is known only at run time; an output of the second model is a
    // sequence of maps.
    assert_eq!(refused, ["silero_vad_op16", "skl_ovo"]);
    assert!(written > 30);
    let on = bb_tests::backends::start("cpu").unwrap();
    for case in std::fs::read_dir(&folder).unwrap() {
        let case = case.unwrap().path();
        bb::conformance::onnx::run(&case, &on).unwrap_or_else(|e| panic!("{}: {e:?}", case.display()));
    }
}

#[test]
fn bytes_are_those_of_the_message() {
    let bytes = weighted().bytes(&ExportOptions::default()).unwrap();
    let read = bb::ir::proto::ModelProto::decode(&*bytes).unwrap();
    assert_eq!(read, weighted().model(&ExportOptions::default()).unwrap());
}

/// A model with one node and the inputs `x` of these extents and `d`, whose default is 2.
fn module(x: &[i64], node: bb::ir::proto::NodeProto) -> Module {
    use bb_tests::model::model;
    let bytes = model(&[("x", x), ("d", &[1])], vec![node], &[("y", x)]);
    let mut proto = bb::ir::proto::ModelProto::decode(&*bytes).unwrap();
    proto.ir_version = Some(8);
    let default = TensorData::new(&[1], &[2f32]).unwrap();
    proto.graph.as_mut().unwrap().initializer.push(default.to_proto("d"));
    Module::from_bytes(proto.encode_to_vec()).unwrap()
}

#[test]
fn a_default_becomes_a_constant_and_open_extents_stay_open() {
    let module = module(&[-1, 3], bb_tests::model::node("Mul", &["x", "d"], &["y"]));
    let trace = ModelTrace::of_module(&module, &HashMap::new()).unwrap();
    let model = trace.model(&ExportOptions::default()).unwrap();
    let graph = model.graph.as_ref().unwrap();
    assert_eq!(graph.input.iter().map(|i| i.name()).collect::<Vec<_>>(), ["x"]);
    assert_eq!(graph.initializer[0].name(), "d");
    let x = TensorData::new(&[2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    let doubled = TensorData::new(&[2, 3], &[2f32, 4.0, 6.0, 8.0, 10.0, 12.0]).unwrap();
    assert_eq!(super::run(&model, std::slice::from_ref(&x), "cpu"), std::slice::from_ref(&doubled));
    // If the model is not lowered, a caller may override the default.
    let graph = inlined(&module).unwrap().graph.unwrap();
    assert_eq!((graph.input.len(), graph.initializer.len()), (2, 1));
}

#[test]
fn extents_that_do_not_fit_the_model_are_refused() {
    let module = module(&[-1, 3], bb_tests::model::node("Mul", &["x", "d"], &["y"]));
    let of = |input: &str, dims: &[usize]| {
        let dims = dims.iter().map(|&d| Dim::Known(d)).collect();
        ModelTrace::of_module(&module, &HashMap::from([(input.to_owned(), dims)])).map(|_| ())
    };
    assert!(of("x", &[2, 3]).is_ok());
    assert!(matches!(of("x", &[2]), Err(Error::NoDimension { dimension: 1, rank: 2, .. })));
    assert!(matches!(of("x", &[2, 4]), Err(Error::DeclaredExtent { dimension: 1, declared: 3, got: 4, .. })));
    assert!(matches!(of("d", &[1]), Err(Error::UnknownInput { .. })));
}
