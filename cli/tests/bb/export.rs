//! Tests `bb export`: other programs and `bb` itself can read the exported models.

use crate::process::{bb, folder, write};
use bb::ir::proto::ModelProto;
use bb_tests::model::{model, node};
use prost::Message;
use std::path::{Path, PathBuf};

/// `y = softmax(x)` for any number of rows.
fn softmax() -> Vec<u8> {
    model(&[("x", &[-1, 3])], vec![node("Softmax", &["x"], &["y"])], &[("y", &[-1, 3])])
}

fn read(path: &Path) -> ModelProto {
    ModelProto::decode(&*std::fs::read(path).unwrap()).unwrap()
}

fn operators(model: &ModelProto) -> Vec<&str> {
    model.graph.as_ref().unwrap().node.iter().map(|node| node.op_type()).collect()
}

/// Exports a model; returns the file, or the errors.
fn export(folder: &Path, input: &str, more: &[&str]) -> Result<PathBuf, String> {
    let output = folder.join("out.onnx");
    let mut arguments = vec!["export", input, "--output", output.to_str().unwrap()];
    arguments.extend(more);
    let ended = bb(&arguments);
    if ended.code() != 0 {
        return Err(ended.err);
    }
    assert!(ended.out.lines().any(|line| line == output.to_str().unwrap()), "{}", ended.out);
    Ok(output)
}

#[test]
fn a_model_is_written_as_authored_unless_it_is_to_be_lowered() {
    let folder = folder("export-how");
    let input = write(&folder, "model.onnx", &softmax());
    assert_eq!(operators(&read(&export(&folder, &input, &[]).unwrap())), ["Softmax"]);
    let lowered = read(&export(&folder, &input, &["--lowered"]).unwrap());
    assert_eq!(operators(&lowered), ["ReduceMax", "Sub", "Exp", "ReduceSum", "Div"]);
    assert_eq!((lowered.ir_version(), lowered.opset_import[0].version()), (10, 21));
    let kept = read(&export(&folder, &input, &["--keep", "Softmax,Conv", "--opset", "13"]).unwrap());
    assert_eq!(operators(&kept), ["Softmax"]);
    assert_eq!((kept.ir_version(), kept.opset_import[0].version()), (7, 13));
    let kept = read(&export(&folder, &input, &["--keep", "all", "--ir-version", "9"]).unwrap());
    assert_eq!((operators(&kept), kept.ir_version()), (vec!["Softmax"], 9));
}

#[test]
fn an_exported_model_computes_what_its_source_computes() {
    let folder = folder("export-run");
    let input = write(&folder, "model.onnx", &softmax());
    let output = |model: &str| {
        let ended =
            bb(&["run", model, "--backend", "reference", "--shape", "x=2,3", "--random", "7", "--json"]);
        assert_eq!(ended.code(), 0, "{}", ended.err);
        ended.json()["outputs"].clone()
    };
    let expected = output(&input);
    let written = export(&folder, &input, &["--lowered", "--opset", "17", "--shape", "x=2,3"]).unwrap();
    assert_eq!(output(written.to_str().unwrap()), expected);
    // No operation depends on the extents, so they stay open.
    let written = export(&folder, &input, &["--lowered"]).unwrap();
    assert_eq!(output(written.to_str().unwrap()), expected);
}

#[test]
fn a_check_of_extents_leaves_them_open() {
    let folder = folder("export-check");
    let layer = node("LayerNormalization", &["x", "scale"], &["y"]);
    let source = model(&[("x", &[-1, 3]), ("scale", &[3])], vec![layer], &[("y", &[-1, 3])]);
    let mut source = ModelProto::decode(&*source).unwrap();
    source.opset_import[0].version = Some(17);
    let input = write(&folder, "model.onnx", &source.encode_to_vec());
    let written = read(&export(&folder, &input, &["--lowered", "--opset", "17"]).unwrap());
    assert!(!operators(&written).contains(&"LayerNormalization"), "{:?}", operators(&written));
}

#[test]
fn files_of_the_source_are_not_overwritten() {
    let folder = folder("export-over");
    let input = write(&folder, "out.onnx", &softmax());
    let refused = export(&folder, &input, &[]).unwrap_err();
    assert!(refused.contains("belongs to the model that is read"), "{refused}");
    assert_eq!(std::fs::read(&input).unwrap(), softmax());
    // The files with its external data are not overwritten either.
    let weights = bb::TensorData::new(&[3], &[1f32, 2.0, 3.0]).unwrap();
    let mut proto = ModelProto::decode(&*softmax()).unwrap();
    let graph = proto.graph.as_mut().unwrap();
    graph.node[0] = node("Add", &["x", "w"], &["y"]);
    graph.initializer.push(weights.to_proto("w"));
    let from = write(&folder, "from.onnx", &proto.encode_to_vec());
    let external = export(&folder, &from, &["--external-above", "4"]);
    // The export creates the file with the external data.
    let external = external.unwrap();
    assert_eq!(std::fs::metadata(folder.join("out.onnx.data")).unwrap().len(), 12);
    std::fs::rename(&external, folder.join("named.onnx")).unwrap();
    let named = folder.join("named.onnx");
    let refused = export(&folder, named.to_str().unwrap(), &["--external-above", "4"]).unwrap_err();
    assert!(refused.contains("out.onnx.data"), "{refused}");
    assert_eq!(std::fs::metadata(folder.join("out.onnx.data")).unwrap().len(), 12);
}

#[test]
fn refusals_name_the_option_that_helps() {
    let folder = folder("export-refused");
    let input = write(&folder, "model.onnx", &softmax());
    let refused = |more: &[&str]| export(&folder, &input, more).unwrap_err();
    assert!(refused(&["--opset", "12"]).contains("--lowered"));
    let old = refused(&["--lowered", "--opset", "12"]);
    assert!(old.contains("expected 13 to"), "{old}");
    let unknown = refused(&["--keep", "softmax"]);
    assert!(unknown.contains("did you mean `Softmax`?"), "{unknown}");
    assert!(refused(&["--shape", "x=2,3"]).contains("--lowered"));
    assert!(refused(&["--lowered", "--shape", "z=2,3"]).contains("`x`"));
    assert!(refused(&["--lowered", "--ir-version", "99"]).contains("expected 4 to 14"));
    // The elements of this matrix determine the shape of a result.
    let sums = model(
        &[("x", &[-1, 3])],
        vec![node("Shape", &["x"], &["s"]), node("Expand", &["one", "s"], &["y"])],
        &[("y", &[-1, 3])],
    );
    let mut proto = ModelProto::decode(&*sums).unwrap();
    let one = bb::TensorData::new(&[1], &[1f32]).unwrap();
    proto.graph.as_mut().unwrap().initializer.push(one.to_proto("one"));
    let input = write(&folder, "shape.onnx", &proto.encode_to_vec());
    let open = export(&folder, &input, &["--lowered"]).unwrap_err();
    assert!(open.contains("`x[0]`") && open.contains("--dim"), "{open}");
    assert!(export(&folder, &input, &["--lowered", "--shape", "x=2,3"]).is_ok());
    let missing = bb(&["export", &input, "-o", folder.join("none/out.onnx").to_str().unwrap()]);
    assert_eq!(missing.code(), 1);
    assert!(missing.err.contains("cannot write"), "{}", missing.err);
}
