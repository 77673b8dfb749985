//! Tests that damaged weights are found whatever reads them first: a kernel, or planning.

use crate::process::{bb, folder, write};
use bb::ir::proto::tensor_proto::DataLocation;
use bb::ir::proto::{GraphProto, NodeProto, StringStringEntryProto, TensorProto};
use bb::{DataType, FileAccess, Limits, TensorData};
use bb_tests::model::{node, serialized, value, with_int};
use std::path::Path;

const BACKENDS: [&str; 3] = ["cpu", "reference", "whole-graph"];

/// A model of one node `z` of an input `x` and weights.
struct Model {
    node: NodeProto,
    /// The extents of `x`, of `f32`.
    input: &'static [&'static str],
    /// The weights; the last of them lies in a file of its own.
    weights: Vec<(&'static str, TensorData)>,
    /// The element type of `z`.
    output: DataType,
}

fn floats(shape: &[usize]) -> TensorData {
    let numbers: Vec<f32> =
        (0..shape.iter().product()).map(|i: usize| (i as f32 * 0.7).sin() / 2.0).collect();
    TensorData::new(shape, &numbers).unwrap()
}

fn integers(numbers: &[i64]) -> TensorData {
    TensorData::new(&[numbers.len()], numbers).unwrap()
}

fn hidden(op: &str, gates: usize) -> Model {
    let node = with_int(node(op, &["x", "w", "r"], &["z"]), "hidden_size", 8);
    let weights = vec![("r", floats(&[1, gates * 8, 8])), ("w", floats(&[1, gates * 8, 5]))];
    Model { node, input: &["6", "1", "5"], weights, output: DataType::F32 }
}

/// Operators that read their weights in all ways: when they are planned, prepared, shaped and run.
fn models() -> Vec<Model> {
    let one = |node: NodeProto, input: &'static [&'static str], name: &'static str, w: TensorData| Model {
        node,
        input,
        weights: vec![(name, w)],
        output: DataType::F32,
    };
    let scale = TensorData::new(&[], &[0.25f32]).unwrap();
    let scales = TensorData::new(&[4], &[1f32, 1.0, 2.0, 2.0]).unwrap();
    let condition = TensorData::bools(&[2, 5], &[true; 10]).unwrap();
    vec![
        hidden("LSTM", 4),
        hidden("GRU", 3),
        hidden("RNN", 1),
        one(node("MatMul", &["x", "w"], &["z"]), &["2", "5"], "w", floats(&[5, 4])),
        one(node("Gemm", &["x", "w"], &["z"]), &["2", "5"], "w", floats(&[5, 4])),
        one(node("Conv", &["x", "w"], &["z"]), &["1", "2", "6", "6"], "w", floats(&[3, 2, 3, 3])),
        one(node("Add", &["x", "w"], &["z"]), &["2", "5"], "w", floats(&[2, 5])),
        one(node("GridSample", &["x", "w"], &["z"]), &["1", "1", "5", "5"], "w", floats(&[1, 3, 3, 2])),
        one(node("Resize", &["x", "", "w"], &["z"]), &["1", "1", "3", "3"], "w", scales),
        one(node("Resize", &["x", "", "", "w"], &["z"]), &["1", "1", "3", "3"], "w", integers(&[1, 1, 6, 6])),
        one(node("Reshape", &["x", "w"], &["z"]), &["2", "5"], "w", integers(&[5, 2])),
        one(node("Expand", &["x", "w"], &["z"]), &["1", "5"], "w", integers(&[3, 5])),
        one(node("Slice", &["x", "w", "w"], &["z"]), &["2", "5"], "w", integers(&[1])),
        one(node("Gather", &["x", "w"], &["z"]), &["4", "5"], "w", integers(&[1, 3, 0])),
        one(node("Pad", &["x", "w"], &["z"]), &["2", "5"], "w", integers(&[1, 0, 0, 1])),
        one(with_int(node("TopK", &["x", "w"], &["z", ""]), "axis", 1), &["2", "5"], "w", integers(&[2])),
        one(node("Where", &["w", "x", "x"], &["z"]), &["2", "5"], "w", condition),
        one(
            node("ScatterND", &["x", "w", "u"], &["z"]),
            &["4"],
            "w",
            TensorData::new(&[1, 1], &[2i64]).unwrap(),
        ),
        Model {
            output: DataType::U8,
            ..one(node("QuantizeLinear", &["x", "w"], &["z"]), &["2", "5"], "w", scale)
        },
    ]
}

impl Model {
    /// Serializes the model with weights inside.
    fn whole(&self) -> Vec<u8> {
        self.with(self.weights.iter().map(|(name, w)| w.to_proto(name)).collect())
    }

    /// Serializes the model with the last of the weights in a file, and this digest of the file.
    fn external(&self, folder: &Path, digest: &str) -> String {
        let (name, w) = self.weights.last().unwrap();
        let bytes = w.bytes().unwrap();
        write(folder, "w.bin", bytes);
        let length = bytes.len().to_string();
        let entries = [("location", "w.bin"), ("offset", "0"), ("length", &length), ("checksum", digest)];
        let entry = |(key, value): (&str, &str)| StringStringEntryProto {
            key: Some(key.to_owned()),
            value: Some(value.to_owned()),
        };
        let outside = TensorProto {
            raw_data: None,
            data_location: Some(DataLocation::External as i32),
            external_data: entries.map(entry).into(),
            ..w.to_proto(name)
        };
        let inside = self.weights.iter().rev().skip(1).map(|(name, w)| w.to_proto(name));
        write(folder, "model.onnx", &self.with(inside.chain([outside]).collect()))
    }

    fn with(&self, mut initializer: Vec<TensorProto>) -> Vec<u8> {
        if self.node.input.iter().any(|name| name == "u") {
            initializer.push(floats(&[1]).to_proto("u"));
        }
        serialized(GraphProto {
            name: Some("damaged".to_owned()),
            input: vec![value("x", 1, self.input)],
            output: vec![value("z", self.output.to_onnx(), &[])],
            node: vec![self.node.clone()],
            initializer,
            ..GraphProto::default()
        })
    }
}

#[test]
fn a_false_digest_of_external_data_ends_every_command() {
    let folder = folder("damaged-external");
    let out = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (compiled, exported) = (out("out.bb"), out("out.onnx"));
    for model in models() {
        let op = model.node.op_type();
        let path = model.external(&folder, &"00".repeat(20));
        let mut commands: Vec<Vec<&str>> =
            BACKENDS.map(|on| vec!["run", &path, "--random", "--backend", on]).into();
        commands.extend(BACKENDS.map(|on| vec!["compile", path.as_str(), "-o", &compiled, "--backend", on]));
        commands.push(vec!["bench", &path, "--runs", "1", "--warmup", "0"]);
        commands.push(vec!["compare", &path, "--backend", "cpu", "--backend", "reference"]);
        commands.push(vec!["export", &path, "--output", &exported]);
        commands.push(vec!["export", &path, "--output", &exported, "--lowered"]);
        for command in commands {
            let ended = bb(&command);
            assert_eq!(ended.code(), 1, "{op}: {command:?}: {}{}", ended.out, ended.err);
            assert!(ended.err.contains("SHA-1"), "{op}: {command:?}: {}", ended.err);
        }
        let inspected = bb(&["inspect", &path]);
        assert!(!inspected.err.contains("panicked") && inspected.code() <= 1, "{op}: {}", inspected.err);
    }
}

#[test]
fn a_true_digest_of_external_data_lets_every_model_run() {
    let folder = folder("sound-external");
    for model in models() {
        // `bb` says what the digest is.
        let path = model.external(&folder, "00");
        let told = bb(&["run", &path, "--random"]).err;
        let digest = told.split("SHA-1 digest ").nth(1).map(|rest| &rest[..40]);
        let digest = digest.unwrap_or_else(|| panic!("{}: {told}", model.node.op_type())).to_owned();
        let path = model.external(&folder, &digest);
        let whole = write(&folder, "whole.onnx", &model.whole());
        for backend in BACKENDS {
            let outputs = |model: &str| {
                let ended = bb(&["run", model, "--random", "3", "--backend", backend, "--json"]);
                assert_eq!(ended.code(), 0, "{}", ended.err);
                ended.json()["outputs"].clone()
            };
            assert_eq!(outputs(&path), outputs(&whole), "{}", model.node.op_type());
        }
    }
}

/// Returns whether an error says that weights are damaged. An invalid boolean is found before checksums are compared.
fn is_found(error: &str) -> bool {
    error.contains("checksum") || error.contains("expected 0 or 1")
}

/// Where the tensors of a compiled model are in its file: after its body, of which bytes 16 to 23 state the length.
fn tensors_of(file: &[u8]) -> usize {
    let body = u64::from_le_bytes(file[16..24].try_into().unwrap()) as usize;
    (32 + body).next_multiple_of(64)
}

#[test]
fn a_flipped_bit_in_the_weights_of_a_compiled_model_is_found_when_its_plan_is_made_anew() {
    let folder = folder("damaged-compiled");
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (compiled, again, exported) = (path("model.bb"), path("again.bb"), path("out.onnx"));
    for model in models() {
        let op = model.node.op_type();
        let whole = write(&folder, "model.onnx", &model.whole());
        let ended = bb(&["compile", &whole, "-o", &compiled]);
        assert_eq!(ended.code(), 0, "{op}: {}", ended.err);
        let sound = std::fs::read(&compiled).unwrap();
        let first = tensors_of(&sound);
        let outputs = |more: &[&str]| bb(&[&["run", &compiled, "--random", "3", "--json"], more].concat());
        let expected = outputs(&[]).json()["outputs"].clone();
        for at in (first..sound.len()).step_by(61) {
            let mut bytes = sound.clone();
            bytes[at] ^= 4;
            std::fs::write(&compiled, &bytes).unwrap();
            for more in [&[][..], &["--limit", "value_bytes=64M"]] {
                // Zeros between tensors belong to none, and weights that nothing reads any more are not read.
                let ended = outputs(more);
                if ended.code() == 0 {
                    assert_eq!(ended.json()["outputs"], expected, "{op}: byte {at}, {more:?}");
                } else {
                    assert!(is_found(&ended.err), "{op}: byte {at}, {more:?}: {}", ended.err);
                }
            }
            if at > first {
                continue;
            }
            // What is written of damaged weights is nothing, rather than weights with a checksum of their own.
            for command in
                [["compile", &compiled, "-o", &again], ["export", &compiled, "--output", &exported]]
            {
                let ended = bb(&command);
                assert!(ended.code() == 1 && is_found(&ended.err), "{op}: {command:?}: {}", ended.err);
            }
        }
    }
}

#[test]
fn weights_of_one_place_are_checked_by_each_digest_that_the_model_states() {
    let folder = folder("damaged-twice");
    let model = Model {
        node: node("Gemm", &["x", "w", "w"], &["z"]),
        input: &["4", "4"],
        weights: vec![("w", floats(&[4, 4]))],
        output: DataType::F32,
    };
    // The second name of the same bytes states a digest that is false.
    let path = model.external(&folder, &"00".repeat(20));
    let mut twice =
        <bb::ir::proto::ModelProto as prost::Message>::decode(&*std::fs::read(path).unwrap()).unwrap();
    let graph = twice.graph.as_mut().unwrap();
    graph.node[0].input[2] = "v".to_owned();
    let mut second = graph.initializer[0].clone();
    second.name = Some("v".to_owned());
    graph.initializer[0].external_data.retain(|entry| entry.key() != "checksum");
    graph.initializer.push(second);
    let path = write(&folder, "twice.onnx", &prost::Message::encode_to_vec(&twice));
    for backend in BACKENDS {
        let ended = bb(&["run", &path, "--random", "--backend", backend]);
        assert!(ended.code() == 1 && ended.err.contains("SHA-1"), "{backend}: {}{}", ended.out, ended.err);
    }
    let limits = Limits { file_access: FileAccess::Read, ..Limits::default() };
    assert!(bb::Module::load_with(Path::new(&path), &limits).is_err(), "what is read is checked at once");
}
