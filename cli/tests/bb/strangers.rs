//! Tests that names and texts of strangers' models control neither the terminal nor what else is read on it.

use crate::process::{Ended, bb, folder, write};
use bb::TensorData;
use bb::ir::proto::{GraphProto, ModelProto, NodeProto, StringStringEntryProto};
use bb::ir::text::is_hidden;
use bb_tests::model::{node, serialized, value};
use prost::Message;

/// Clears the screen, sets the title, rings, returns, ends the line and the text, and turns the order of reading around.
const EVIL: &str = "\u{1b}[2J\u{1b}]0;pwned\u{7}\r\nerror: none\0\u{9b}2J\u{202e}\u{2066}\u{200b}";

/// The printed form of [`EVIL`].
const SHOWN: &str = "\\u{1b}[2J\\u{1b}]0;pwned\\u{7}\\r\\nerror: none\\0\\u{9b}2J\\u{202e}\\u{2066}\\u{200b}";

fn evil(name: &str) -> String {
    format!("{name}{EVIL}")
}

/// A model all of whose texts are hostile; `op` is that of its second node.
fn hostile(op: &str) -> Vec<u8> {
    let name = |node: NodeProto, name: &str| NodeProto { name: Some(evil(name)), ..node };
    let [x, w, y, z] = ["x", "w", "y", "z"].map(evil);
    let graph = GraphProto {
        name: Some(evil("graph")),
        input: vec![value(&x, 1, &[&evil("rows"), "2"])],
        output: vec![value(&z, 1, &["7", "9"])],
        initializer: vec![TensorData::new(&[2], &[1f32, 2.0]).unwrap().to_proto(&w)],
        node: vec![name(node("Add", &[&x, &w], &[&y]), "first"), name(node(op, &[&y], &[&z]), "second")],
        ..GraphProto::default()
    };
    let mut model = ModelProto::decode(&*serialized(graph)).unwrap();
    model.producer_name = Some(evil("producer"));
    model.domain = Some(evil("domain"));
    let entry = StringStringEntryProto { key: Some(evil("key")), value: Some(evil("value")) };
    model.metadata_props.push(entry);
    model.encode_to_vec()
}

/// Checks that a command shows nothing that controls the terminal, and forges no line.
fn is_harmless(ended: &Ended, what: &str) {
    for (stream, text) in [("output", &ended.out), ("errors", &ended.err)] {
        let hidden = text.chars().find(|&c| c != '\n' && is_hidden(c));
        assert_eq!(hidden, None, "{what}: {stream}: {text:?}");
        let forged = text.lines().any(|line| line.starts_with("error: none"));
        assert!(!forged, "{what}: {stream}: {text}");
    }
}

#[test]
fn no_command_prints_what_controls_a_terminal() {
    let folder = folder("strangers");
    let model = write(&folder, "model.onnx", &hostile("Relu"));
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (compiled, exported, dot) = (path("out.bb"), path("out.onnx"), path("out.dot"));
    let (svg, html) = (path("out.svg"), path("out.html"));
    // An argument of a process has no NUL, so that this dimension is not in the model.
    let dim = format!("{}=3", evil("rows").replace('\0', ""));
    let commands: Vec<Vec<&str>> = vec![
        vec!["inspect", &model],
        vec!["inspect", &model, "--json"],
        vec!["inspect", &model, "--stage", "hir"],
        vec!["inspect", &model, "--stage", "mir"],
        vec!["inspect", &model, "--after", "trace"],
        vec!["inspect", &model, "--graph", &dot],
        vec!["inspect", &model, "--graph", &svg],
        vec!["inspect", &model, "--graph", &html],
        vec!["run", &model, "--random"],
        vec!["run", &model],
        vec!["run", &model, "--random", "--json"],
        vec!["run", &model, "--random", "--fetch-all"],
        vec!["run", &model, "--random", "--dim", "absent\u{1b}=2"],
        vec!["run", &model, "--input", "absent\u{1b}=x.npy"],
        vec!["run", "absent\u{1b}.onnx"],
        vec!["bench", &model, "--runs", "1", "--profile"],
        vec!["bench", &model, "--runs", "1", "--profile", "--json"],
        vec!["compare", &model, "--backend", "cpu", "--backend", "reference", "--per-node", "--dim", &dim],
        vec!["compare", &model, "--backend", "cpu", "--backend", "reference", "--json"],
        vec!["compile", &model, "-o", &compiled],
        vec!["export", &model, "--output", &exported],
        vec!["export", &model, "--output", &exported, "--lowered"],
    ];
    let mut succeeded = 0;
    for command in commands {
        let ended = bb(&command);
        is_harmless(&ended, &format!("{command:?}"));
        succeeded += usize::from(ended.code() == 0);
    }
    assert!(succeeded >= 14, "{succeeded} commands succeeded");
    let inspected = bb(&["inspect", &model]).out;
    // Cells may be broken where the table has no room.
    assert!(inspected.contains(&format!("x{SHOWN}")), "{inspected}");
    for file in [dot, svg, html] {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains(['\u{1b}', '\u{7}', '\0', '\u{9b}', '\u{202e}', '\u{2066}']), "{file}");
    }
}

#[test]
fn errors_show_names_escaped_and_cut() {
    let folder = folder("strangers-errors");
    let model = write(&folder, "model.onnx", &hostile(&evil("Nope")));
    for command in
        [&["run", &model, "--random"][..], &["inspect", &model], &["compile", &model, "-o", "x.bb"]]
    {
        let ended = bb(command);
        assert_eq!(ended.code(), 1, "{command:?}: {}", ended.out);
        is_harmless(&ended, &format!("{command:?}"));
        let all = format!("{}{}", ended.out, ended.err);
        assert!(all.contains(&format!("`Nope{SHOWN}`")), "{command:?}: {all}");
    }
    // Names of the length that the limits allow, many times in one message.
    let long = "n".repeat(60_000);
    let outputs: Vec<String> = (0..50).map(|i| format!("{long}{i}")).collect();
    let graph = GraphProto {
        name: Some("long".to_owned()),
        input: vec![value(&long, 1, &["2"])],
        output: outputs.iter().map(|name| value(name, 1, &["2"])).collect(),
        node: outputs.iter().map(|name| node(&long, &[&long], &[name])).collect(),
        ..GraphProto::default()
    };
    let unknown = write(&folder, "long.onnx", &serialized(graph));
    let absent = format!("{}=x.npy", "a".repeat(60_000));
    for command in
        [&["run", &unknown, "--random"][..], &["run", &unknown, "--input", &absent], &["inspect", &unknown]]
    {
        let ended = bb(command);
        assert_eq!(ended.code(), 1, "{}", ended.out);
        assert!(ended.err.len() < 64 << 10, "{} bytes of {:?}", ended.err.len(), &command[..1]);
        assert!(ended.out.len() < 64 << 10, "{} bytes of {:?}", ended.out.len(), &command[..1]);
    }
}
