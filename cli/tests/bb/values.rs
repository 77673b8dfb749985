//! Tests inputs and outputs: files of every kind, intermediate values, JSON, file names.

use crate::process::{bb, data, fed, folder, write};
use bb::{DataType, TensorData};
use bb_tests::model::{model, node};
use prost::Message;
use std::path::Path;

/// `mid = -x` and `y = exp(mid)`.
fn two_steps() -> Vec<u8> {
    let nodes = vec![node("Neg", &["x"], &["mid"]), node("Exp", &["mid"], &["y"])];
    model(&[("x", &[2])], nodes, &[("y", &[2])])
}

fn x_file(folder: &Path) -> String {
    write(folder, "x.npy", &TensorData::new(&[2], &[0f32, 1.0]).unwrap().to_npy().unwrap())
}

fn npy(path: &Path) -> TensorData {
    TensorData::from_npy(std::fs::read(path).unwrap().into()).unwrap()
}

/// Returns a little-endian number of `bytes` bytes.
fn le(number: u64, bytes: usize) -> Vec<u8> {
    number.to_le_bytes()[..bytes].to_vec()
}

/// Makes a ZIP archive with stored members, as NumPy's `savez` does.
fn zip(members: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in members {
        let at = out.len() as u64;
        let size = le(bytes.len() as u64, 4);
        let shared =
            [le(20, 2), le(0, 2), le(0, 2), le(0, 4), le(u64::from(checksum(bytes)), 4), size.clone(), size]
                .concat();
        let lengths = [le(name.len() as u64, 2), le(0, 2)].concat();
        out.extend([b"PK\x03\x04", &*shared, &*lengths, name.as_bytes(), bytes].concat());
        let rest = [le(0, 2), le(0, 2), le(0, 2), le(0, 4), le(at, 4)].concat();
        directory.extend([b"PK\x01\x02", &*le(20, 2), &*shared, &*lengths, &*rest, name.as_bytes()].concat());
    }
    let count = le(members.len() as u64, 2);
    let places = [le(directory.len() as u64, 4), le(out.len() as u64, 4)].concat();
    out.extend([&*directory, b"PK\x05\x06", &*le(0, 4), &*count, &*count, &*places, &*le(0, 2)].concat());
    out
}

/// Computes ZIP's CRC-32 bit by bit.
fn checksum(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[test]
fn inputs_come_from_members_of_archives() {
    let folder = folder("values-npz");
    let path = write(&folder, "model.onnx", &two_steps());
    let one = TensorData::new(&[2], &[0f32, 1.0]).unwrap().to_npy().unwrap();
    let two = TensorData::new(&[2], &[2f32, 3.0]).unwrap().to_npy().unwrap();
    let archive = write(&folder, "all.npz", &zip(&[("x.npy", &one), ("other.npy", &two)]));
    let only = write(&folder, "only.npz", &zip(&[("arr_0.npy", &two)]));
    let mid = |input: &str| {
        let ended = bb(&["run", &path, "--input", &format!("x={input}"), "--fetch", "mid", "--json"]);
        assert_eq!(ended.code(), 0, "{}", ended.err);
        ended.json()["fetched"][0]["values"].clone()
    };
    assert_eq!(mid(&archive), serde_json::json!([-0.0, -1.0]));
    assert_eq!(mid(&format!("{archive}:other")), serde_json::json!([-2.0, -3.0]));
    assert_eq!(mid(&only), serde_json::json!([-2.0, -3.0]));
    let ended = bb(&["run", &path, "--input", &format!("x={archive}:othr")]);
    assert_eq!(ended.code(), 1);
    assert!(
        ended.err.contains("no member `othr`; it has `x`, `other`; did you mean `other`?"),
        "{}",
        ended.err
    );
    let mut damaged = std::fs::read(&only).unwrap();
    let last = damaged.windows(4).position(|w| w == b"PK\x01\x02").unwrap() - 1;
    damaged[last] ^= 1;
    let damaged = write(&folder, "damaged.npz", &damaged);
    let ended = bb(&["run", &path, "--input", &format!("x={damaged}")]);
    assert!(ended.code() == 1 && ended.err.contains("checksum"), "{}", ended.err);
    for cut in [0, 10, 40, 150] {
        let cut = write(&folder, "cut.npz", &std::fs::read(&only).unwrap()[..cut]);
        let ended = bb(&["run", &path, "--input", &format!("x={cut}")]);
        assert_eq!(ended.code(), 1, "{}", ended.err);
        assert!(ended.err.starts_with("error: "), "{}", ended.err);
    }
}

#[test]
fn an_input_comes_from_standard_input_and_only_one() {
    let folder = folder("values-stdin");
    let path = write(&folder, "model.onnx", &two_steps());
    let x = TensorData::new(&[2], &[0f32, 1.0]).unwrap();
    for bytes in [x.to_npy().unwrap(), x.to_proto("x").encode_to_vec()] {
        let ended = fed(&bytes, &["run", &path, "--input", "x=-", "--json"]);
        assert_eq!(ended.code(), 0, "{}", ended.err);
        assert_eq!(ended.json()["outputs"][0]["values"][0], 1.0);
    }
    let nodes = vec![node("Add", &["a", "b"], &["y"])];
    let path = write(&folder, "two.onnx", &model(&[("a", &[2]), ("b", &[2])], nodes, &[("y", &[2])]));
    let ended = fed(&x.to_npy().unwrap(), &["run", &path, "--input", "a=-", "--input", "b=-"]);
    assert!(ended.code() == 1 && ended.err.contains("--input is given twice for `-`"), "{}", ended.err);
}

#[test]
fn an_input_given_twice_or_of_a_name_like_another_is_an_error() {
    let folder = folder("values-twice");
    let nodes = vec![node("Neg", &["pixels"], &["y"])];
    let path = write(&folder, "model.onnx", &model(&[("pixels", &[2])], nodes, &[("y", &[2])]));
    let x = x_file(&folder);
    let ended = bb(&["run", &path, "--input", &format!("pixels={x}"), "--input", &format!("pixels={x}")]);
    assert!(ended.code() == 1 && ended.err.contains("--input is given twice for `pixels`"), "{}", ended.err);
    let ended = bb(&["run", &path, "--input", &format!("pixel={x}")]);
    assert!(ended.code() == 1 && ended.err.contains("did you mean `pixels`?"), "{}", ended.err);
}

#[test]
fn a_range_for_an_input_that_is_not_random_is_a_warning() {
    let folder = folder("values-range");
    let path = write(&folder, "model.onnx", &two_steps());
    let x = format!("x={}", x_file(&folder));
    for range in ["x=0..1", "0..1"] {
        let ended = bb(&["run", &path, "--input", &x, "--random", "--range", range]);
        assert_eq!(ended.code(), 0, "{}", ended.err);
        assert!(ended.err.contains("warning: --range has no effect"), "{}", ended.err);
    }
}

/// A PPM picture of 4 columns and 2 rows; its left half is red (255, 0, 0), its right half is (0, 51, 0).
fn ppm() -> Vec<u8> {
    let row = [[255u8, 0, 0], [255, 0, 0], [0, 51, 0], [0, 51, 0]].concat();
    [b"P6 4 2 255\n".to_vec(), row.clone(), row].concat()
}

/// Checks that the values are equal apart from a few roundings of f32.
fn assert_near(values: &[f64], expected: &[f64]) {
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-6 * b.abs().max(1.0);
    let alike = values.len() == expected.len() && values.iter().zip(expected).all(near);
    assert!(alike, "{values:?}, expected {expected:?}");
}

#[test]
fn pictures_are_laid_out_as_the_model_declares() {
    let folder = folder("values-picture");
    let picture = write(&folder, "picture.ppm", &ppm());
    let pixels = |extents: &[i64], options: &[&str]| {
        let path = write(
            &folder,
            "model.onnx",
            &model(&[("x", extents)], vec![node("Identity", &["x"], &["y"])], &[("y", extents)]),
        );
        let ended = bb(&[&["run", &path, "--image", &format!("x={picture}"), "--json"], options].concat());
        assert_eq!(ended.code(), 0, "{}", ended.err);
        let output = ended.json()["outputs"][0].clone();
        let values: Vec<f64> =
            output["values"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
        (output["shape"].clone(), values)
    };
    // Channels first: all red values, then all green, then all blue.
    let (shape, values) = pixels(&[1, 3, 2, 4], &[]);
    assert_eq!(shape, serde_json::json!([1, 3, 2, 4]));
    let red = [1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0];
    let green = red.map(|r| if r == 1.0 { 0.0 } else { 0.2 });
    assert_near(&values, &[red, green, [0.0; 8]].concat());
    // Channels last, blue first, unscaled, minus a mean, divided by a deviation.
    let (_, values) =
        pixels(&[1, 2, 4, 3], &["--channels", "bgr", "--scale", "1", "--mean", "0,1,5", "--std", "1,10,2"]);
    assert_near(&values[..6], &[0.0, -0.1, 125.0, 0.0, -0.1, 125.0]);
    assert_near(&values[6..9], &[0.0, 5.0, -2.5]);
    // Open extents are those of the picture; to other extents the picture is resized.
    assert_eq!(pixels(&[-1, 3, -1, -1], &[]).0, serde_json::json!([1, 3, 2, 4]));
    assert_eq!(pixels(&[1, 3, 8, 8], &[]).0, serde_json::json!([1, 3, 8, 8]));
    // Grey is about 0.299 red plus 0.587 green (ITU-R BT.601), so it is between black and the brightest
    // colour.
    let (shape, values) = pixels(&[2, 4], &[]);
    assert_eq!(shape, serde_json::json!([2, 4]));
    assert!(values.iter().all(|v| (0.0..1.0).contains(v)) && values[0] > values[2], "{values:?}");
}

#[test]
fn inputs_that_are_not_pictures_are_refused() {
    let folder = folder("values-no-picture");
    let picture = write(&folder, "picture.ppm", &ppm());
    let png = write(&folder, "x.png", b"\x89PNG\r\n\x1a\n");
    for (extents, option, expected) in [
        (&[1, 5, 8, 8][..], format!("--image=x={picture}"), "--layout"),
        (&[2], format!("--image=x={picture}"), "expected rank 2, 3 or 4"),
        (&[1, 3, 8, 8], format!("--image=x={png}"), "cannot be read as a picture"),
        (&[1, 3, 8, 8], format!("--input=x={png}"), "give it with --image x="),
        (&[1, 3, 8, 8], format!("--image=z={picture}"), "no input `z`"),
    ] {
        let bytes = model(&[("x", extents)], vec![node("Identity", &["x"], &["y"])], &[("y", extents)]);
        let ended = bb(&["run", &write(&folder, "model.onnx", &bytes), &option]);
        assert!(ended.code() == 1 && ended.err.contains(expected), "{option}: {}", ended.err);
    }
}

#[test]
fn intermediate_values_are_fetched_by_name() {
    let folder = folder("values-fetch");
    let path = write(&folder, "model.onnx", &two_steps());
    let x = format!("x={}", x_file(&folder));
    let output = folder.join("out");
    let ended =
        bb(&["run", &path, "--input", &x, "--fetch-all", "--json", "--output", output.to_str().unwrap()]);
    assert_eq!(ended.code(), 0, "{}", ended.err);
    let json = ended.json();
    let names = |key: &str| -> Vec<String> {
        json[key].as_array().unwrap().iter().map(|v| v["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((names("outputs"), names("fetched")), (vec!["y".to_owned()], vec!["mid".to_owned()]));
    assert_eq!(npy(&output.join("mid.npy")).as_slice::<f32>().unwrap(), [0.0, -1.0]);
    let ended = bb(&["run", &path, "--input", &x, "--fetch", "mid"]);
    assert!(ended.out.contains("FETCHED") && ended.out.contains("mid"), "{}", ended.out);
    let ended = bb(&["run", &path, "--input", &x, "--fetch", "midd"]);
    assert!(
        ended.code() == 1
            && ended.err.contains(
                "no value `midd`; its outputs are [\"y\"], and its other values can be requested too; did you mean `mid`?"
            ),
        "{}",
        ended.err
    );
}

#[test]
fn fetching_a_value_inside_a_branch_is_an_error() {
    let path = data().join("models/silero_vad_op16/model.onnx");
    let ended = bb(&["inspect", path.to_str().unwrap(), "--stage", "hir"]);
    let inner = ended.out.lines().find(|line| line.starts_with("    ") && line.contains(" = "));
    let name = inner.unwrap().split_once(" = ").unwrap().0.trim().split(", ").next().unwrap().to_owned();
    let ended = bb(&["run", path.to_str().unwrap(), "--random", "--fetch", &name]);
    assert_eq!(ended.code(), 1);
    assert!(ended.err.contains("inside the subgraph of node"), "{}", ended.err);
}

#[test]
fn json_has_all_values_or_the_first_and_their_count() {
    let folder = folder("values-json");
    let path = write(&folder, "model.onnx", &two_steps());
    let x = format!("x={}", x_file(&folder));
    let all = bb(&["run", &path, "--input", &x, "--json"]).json();
    assert_eq!(all["outputs"][0]["values"].as_array().unwrap().len(), 2);
    let first = bb(&["run", &path, "--input", &x, "--json", "--values", "1"]).json();
    let output = &first["outputs"][0];
    assert_eq!((&output["count"], &output["values"]), (&2.into(), &serde_json::json!([1.0])));
}

#[test]
fn outputs_with_similar_names_have_different_files() {
    let folder = folder("values-names");
    let names = ["a/b", "a_b", "A_b", "con", ".y", "..", "ä"];
    let nodes = names.iter().enumerate().map(|(i, name)| {
        // Each output is a different sum of the input, so that a missing file would show.
        let operands = vec!["x"; i + 1];
        node("Sum", &operands, &[name])
    });
    let outputs: Vec<(&str, &[i64])> = names.iter().map(|name| (*name, &[1i64][..])).collect();
    let path = write(&folder, "model.onnx", &model(&[("x", &[1])], nodes.collect(), &outputs));
    let x = write(&folder, "x.npy", &TensorData::new(&[1], &[1f32]).unwrap().to_npy().unwrap());
    let output = folder.join("out");
    let ended = bb(&["run", &path, "--input", &format!("x={x}"), "--output", output.to_str().unwrap()]);
    assert_eq!(ended.code(), 0, "{}", ended.err);
    let mut files: Vec<(String, f32)> = std::fs::read_dir(&output)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_lowercase();
            (name, npy(&path).as_slice::<f32>().unwrap()[0])
        })
        .collect();
    files.dedup_by(|a, b| a.0 == b.0);
    let mut values: Vec<f32> = files.iter().map(|(_, value)| *value).collect();
    values.sort_by(f32::total_cmp);
    assert_eq!(values, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], "{files:?}");
}

/// The two outputs of this model have similar names.
#[test]
fn two_outputs_have_two_files() {
    let folder = folder("values-twins");
    let output = folder.join("out");
    let path = data().join("trials/nametwins.onnx");
    let ended = bb(&["run", path.to_str().unwrap(), "--random", "--output", output.to_str().unwrap()]);
    assert_eq!(ended.code(), 0, "{}", ended.err);
    assert_eq!(std::fs::read_dir(&output).unwrap().count(), 2);
}

/// Makes a model of one `Identity`, or of an operator that makes a sequence, for a type.
fn of_type(dtype: DataType, op: &str) -> Vec<u8> {
    use bb::ir::proto::{ModelProto, type_proto};
    let bytes = model(&[("x", &[3])], vec![node(op, &["x"], &["y"])], &[("y", &[3])]);
    let mut model = ModelProto::decode(bytes.as_slice()).unwrap();
    let graph = model.graph.as_mut().unwrap();
    let Some(type_proto::Value::TensorType(ty)) = &mut graph.input[0].r#type.as_mut().unwrap().value else {
        panic!("the input is a tensor")
    };
    ty.elem_type = Some(dtype.to_onnx());
    graph.output[0].r#type = None;
    model.encode_to_vec()
}

#[test]
fn every_type_is_written_and_read_back() {
    let folder = folder("values-types");
    for dtype in
        [DataType::BF16, DataType::F8E4M3FN, DataType::I4, DataType::F16, DataType::C64, DataType::String]
    {
        let path = write(&folder, "model.onnx", &of_type(dtype, "Identity"));
        let (first, second) = (folder.join("first"), folder.join("second"));
        let ended = bb(&["run", &path, "--random", "--output", first.to_str().unwrap(), "--json"]);
        assert_eq!(ended.code(), 0, "{dtype}: {}", ended.err);
        let values = ended.json()["outputs"][0]["values"].clone();
        let file =
            ["npy", "pb"].map(|e| first.join(format!("y.{e}"))).into_iter().find(|f| f.is_file()).unwrap();
        let input = format!("x={}", file.display());
        let ended = bb(&["run", &path, "--input", &input, "--output", second.to_str().unwrap(), "--json"]);
        assert_eq!(ended.code(), 0, "{dtype}: {}", ended.err);
        assert_eq!(ended.json()["outputs"][0]["values"], values, "{dtype}");
        std::fs::remove_dir_all(first).unwrap();
    }
}

#[test]
fn sequences_are_written_whole_and_read_back() {
    let folder = folder("values-sequence");
    let path = write(&folder, "model.onnx", &of_type(DataType::BF16, "SequenceConstruct"));
    let output = folder.join("out");
    let ended = bb(&["run", &path, "--random", "--output", output.to_str().unwrap(), "--json"]);
    assert_eq!(ended.code(), 0, "{}", ended.err);
    let made = ended.json()["outputs"][0].clone();
    assert_eq!((&made["kind"], made["items"].as_array().unwrap().len()), (&"sequence".into(), 1));
    let read = bb::conformance::onnx::read_item(
        &output.join("y.pb"),
        &bb::ir::graph::ValueType::Sequence(Box::default()),
    );
    let Ok(bb::onnx::OnnxValue::Sequence(items)) = read else { panic!("{read:?}") };
    assert_eq!(items[0].tensor().unwrap().dtype(), DataType::BF16);
}
