//! Tests that weights stay in their files until they are used, and that files which are not models are
//! recognized.

use crate::process::{bb, capped, capped_own, folder, write};
use bb::TensorData;
use bb_ir::proto::{
    GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto, TensorProto,
    ValueInfoProto,
};
use bb_tests::model::node;
use prost::Message;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

/// The private memory that a process may use, in KiB; it is a fraction of the weights.
const OWN: usize = 512 << 10;

const ROWS: u64 = 1 << 20;
const COLUMNS: u64 = 1024;
/// 4 GiB.
const BYTES: u64 = ROWS * COLUMNS * 4;

/// Writes the first number of a row, and no other byte of the file.
fn set_row(file: &mut std::fs::File, start: u64, row: u64, value: f32) {
    file.seek(SeekFrom::Start(start + row * COLUMNS * 4)).unwrap();
    file.write_all(&value.to_le_bytes()).unwrap();
}

/// A model that gathers the rows 1 and `ROWS - 1` of `table`; the table is the last field.
fn gathers(table: Option<TensorProto>, producer: &str) -> ModelProto {
    let indices = TensorData::new(&[2], &[1i64, ROWS as i64 - 1]).unwrap().to_proto("rows");
    let output = ValueInfoProto { name: Some("y".into()), ..ValueInfoProto::default() };
    let graph = GraphProto {
        name: Some("g".into()),
        node: vec![NodeProto { name: Some("take".into()), ..node("Gather", &["table", "rows"], &["y"]) }],
        initializer: [Some(indices), table].into_iter().flatten().collect(),
        output: vec![output],
        ..GraphProto::default()
    };
    let opset = OperatorSetIdProto { domain: None, version: Some(21) };
    ModelProto {
        ir_version: Some(9),
        producer_name: Some(producer.to_owned()),
        opset_import: vec![opset],
        graph: Some(graph),
        ..ModelProto::default()
    }
}

fn table() -> TensorProto {
    TensorProto {
        name: Some("table".into()),
        data_type: Some(1),
        dims: vec![ROWS as i64, COLUMNS as i64],
        ..TensorProto::default()
    }
}

/// Writes the model and its table, as a sparse file `table.bin`.
fn with_external_table(folder: &Path) -> String {
    let mut file = std::fs::File::create(folder.join("table.bin")).unwrap();
    file.set_len(BYTES).unwrap();
    set_row(&mut file, 0, 1, 1.5);
    set_row(&mut file, 0, ROWS - 1, 2.5);
    let location = StringStringEntryProto { key: Some("location".into()), value: Some("table.bin".into()) };
    let table = TensorProto { data_location: Some(1), external_data: vec![location], ..table() };
    write(folder, "model.onnx", &gathers(Some(table), "").encode_to_vec())
}

/// Appends the key and the length of a bytes field to a message, without the bytes.
fn field(message: &mut Vec<u8>, number: u8, mut length: u64) {
    message.push(number << 3 | 2);
    while length >= 0x80 {
        message.push(length as u8 | 0x80);
        length >>= 7;
    }
    message.push(length as u8);
}

/// Writes a model as a sparse file that contains the table. The offset of the table is a multiple of 4 plus `odd` bytes.
fn with_inner_table(folder: &Path, odd: usize) -> String {
    // The messages are nested; the length of each precedes the bytes that the file is filled with.
    let around = |producer: &str| {
        let model = gathers(None, producer);
        let graph = model.graph.clone().unwrap_or_default().encode_to_vec();
        let mut tensor = table().encode_to_vec();
        field(&mut tensor, 9, BYTES);
        let mut inner = graph;
        field(&mut inner, 5, tensor.len() as u64 + BYTES);
        inner.extend(tensor);
        let mut outer = ModelProto { graph: None, ..model }.encode_to_vec();
        field(&mut outer, 7, inner.len() as u64 + BYTES);
        outer.extend(inner);
        outer
    };
    let start = (0..4).map(|n| around(&"p".repeat(n + 1))).find(|start| start.len() % 4 == odd).unwrap();
    let path = folder.join("inner.onnx");
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(&start).unwrap();
    file.set_len(start.len() as u64 + BYTES).unwrap();
    set_row(&mut file, start.len() as u64, 1, 1.5);
    set_row(&mut file, start.len() as u64, ROWS - 1, 2.5);
    path.to_str().unwrap().to_owned()
}

/// Runs a model with little private memory, and checks both rows.
fn takes_two_rows(folder: &Path, model: &str) {
    let outputs = folder.join("outputs");
    let ended = capped_own(OWN, &["run", model, "--backend", "cpu", "--output", outputs.to_str().unwrap()]);
    assert_eq!(ended.code(), 0, "{}", ended.err);
    let y = TensorData::from_npy(std::fs::read(outputs.join("y.npy")).unwrap().into()).unwrap();
    assert_eq!(y.shape(), [2, COLUMNS as usize]);
    let elements = y.as_slice::<f32>().unwrap();
    assert_eq!((elements[0], elements[COLUMNS as usize]), (1.5, 2.5));
    assert_eq!(elements.iter().filter(|&&x| x != 0.0).count(), 2);
}

#[cfg(target_os = "linux")]
#[test]
fn a_table_of_4_gib_is_used_in_place() {
    let folder = folder("files-mapped");
    let model = with_external_table(&folder);
    takes_two_rows(&folder, &model);
    let ended = capped_own(OWN, &["inspect", &model]);
    assert_eq!(ended.code(), 0, "{}", ended.err);
    // If there is no memory for reading the whole file, the command reports an error and does not end by a
    // signal.
    let ended = capped_own(OWN, &["run", &model, "--limit", "file_access=read"]);
    assert_eq!(ended.code(), 1, "{}", ended.err);
    assert!(ended.err.contains("no memory for 4294967") && ended.err.contains("table"), "{}", ended.err);
    // The same holds for mapping if the address space is too small.
    let ended = capped(1 << 20, &["run", &model]);
    assert_eq!(ended.code(), 1, "{}", ended.err);
    assert!(ended.err.contains("no memory for 4294967"), "{}", ended.err);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_table_inside_a_model_of_4_gib_is_used_in_place() {
    let folder = folder("files-inner");
    takes_two_rows(&folder, &with_inner_table(&folder, 0));
    // Unaligned elements must be copied before a run, but inspecting the model does not touch them.
    let odd = with_inner_table(&folder, 1);
    let ended = capped_own(OWN, &["inspect", &odd]);
    assert_eq!(ended.code(), 0, "{}", ended.err);
    let ended = capped_own(OWN, &["run", &odd, "--backend", "cpu"]);
    assert_eq!(ended.code(), 1, "{}", ended.err);
    assert!(ended.err.contains("no memory for 4294967"), "{}", ended.err);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_model_in_the_current_folder_has_its_data_there() {
    let folder = folder("files-bare");
    std::fs::write(folder.join("w.bin"), 1.5f32.to_le_bytes()).unwrap();
    let location = StringStringEntryProto { key: Some("location".into()), value: Some("w.bin".into()) };
    let weight = TensorProto {
        data_location: Some(1),
        external_data: vec![location],
        name: Some("table".into()),
        data_type: Some(1),
        dims: vec![1],
        ..TensorProto::default()
    };
    let mut model = gathers(Some(weight), "");
    let graph = model.graph.as_mut().unwrap();
    graph.node = vec![node("Neg", &["table"], &["y"])];
    write(&folder, "model.onnx", &model.encode_to_vec());
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bb"));
    let output = command.current_dir(&folder).args(["run", "model.onnx"]).output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && out.contains("-1.5"),
        "{out}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn messages_say_what_a_file_is_and_what_to_do() {
    let folder = folder("files-messages");
    let pointer =
        write(&folder, "lfs.onnx", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n");
    let whole = write(&folder, "inner/model.onnx", &gathers(None, "").encode_to_vec());
    let absent = whole.replace("inner", "absent");
    let cases = [
        (pointer.as_str(), "`git lfs pull` fetches the file itself"),
        (folder.to_str().unwrap(), "is a folder; expected a file, such as"),
        (absent.as_str(), "there is no folder"),
    ];
    for (path, said) in cases {
        let ended = bb(&["inspect", path]);
        assert_eq!(ended.code(), 1, "{path}");
        assert!(ended.err.contains(said), "{path}: {}", ended.err);
    }
    let ended = bb(&["inspect", &whole, "--limit", "nodes=0"]);
    assert!(ended.err.contains("at most 0 allowed by the limit `nodes`, got 1"), "{}", ended.err);
    let ended = bb(&["inspect", &whole, "--limit", "noddes=0"]);
    assert!(
        ended.err.contains("there is no limit `noddes`") && ended.err.contains("`nodes` (1000000)"),
        "{}",
        ended.err
    );
}
