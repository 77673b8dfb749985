//! Tests `bb inspect`: the facts of a model file, its parameters, the cost of a run, and the picture of the
//! graph.

use crate::process::{bb, data, folder, write};
use bb::ir::proto::{AttributeProto, ModelProto, StringStringEntryProto, TensorProto};
use bb_tests::model::{custom, model, named, node};
use prost::Message;
use std::path::Path;

/// `y = x w` for any number of rows, with the extras that an exporter adds.
fn exported(folder: &Path) -> String {
    let bytes = model(
        &[("x", &[-1, 3])],
        vec![named("product", node("MatMul", &["x", "w"], &["y"]))],
        &[("y", &[-1, 5])],
    );
    let mut proto = ModelProto::decode(&*bytes).unwrap();
    proto.producer_name = Some("exporter".to_owned());
    proto.producer_version = Some("1.2".to_owned());
    let entry = |key: &str, value: &str| StringStringEntryProto {
        key: Some(key.to_owned()),
        value: Some(value.to_owned()),
    };
    proto.metadata_props =
        vec![entry("classes", "cat,dog"), entry("steers\u{1b}[31m", "a\nterminal\u{1b}[0m")];
    let weights = bb::TensorData::new(&[3, 5], &[0.5f32; 15]).unwrap();
    let graph = proto.graph.as_mut().unwrap();
    graph.initializer.push(weights.to_proto("w"));
    graph.initializer.push(bb::TensorData::new(&[2], &[7i64, 8]).unwrap().to_proto("unread"));
    write(folder, "model.onnx", &proto.encode_to_vec())
}

#[test]
fn the_facts_of_the_file_are_printed() {
    let folder = folder("inspect-facts");
    let path = exported(&folder);
    let json = bb(&["inspect", &path, "--json"]).json();
    let model = &json["model"];
    assert_eq!((&model["producer"], &model["producer_version"]), (&"exporter".into(), &"1.2".into()));
    assert_eq!((&model["ir_version"], &model["opsets"]["ai.onnx"]), (&10.into(), &23.into()));
    assert_eq!(model["metadata"]["classes"], "cat,dog");
    // 3 by 5 floats of 4 bytes, and two integers of 8 bytes.
    let parameters = serde_json::json!({
        "elements": 17, "bytes": 76,
        "by_type": { "f32": { "elements": 15, "bytes": 60 }, "i64": { "elements": 2, "bytes": 16 } },
    });
    assert_eq!(model["parameters"], parameters);
    let text = bb(&["inspect", &path]).out;
    for part in ["exporter 1.2", "ai.onnx 23", "cat,dog", "15 f32, 2 i64, 76 bytes"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    assert!(!text.contains('\x1b'), "what a model says does not steer the terminal");
}

#[test]
fn parameters_of_constants_and_subgraphs_count() {
    let folder = folder("inspect-constants");
    let mut constant = node("Constant", &[], &["c"]);
    let value = bb::TensorData::new(&[4], &[1f32; 4]).unwrap().to_proto("c");
    constant.attribute.push(AttributeProto {
        name: Some("value".to_owned()),
        r#type: Some(4),
        t: Some(value),
        ..AttributeProto::default()
    });
    let bytes = model(&[("x", &[4])], vec![constant, node("Add", &["x", "c"], &["y"])], &[("y", &[4])]);
    let json = bb(&["inspect", &write(&folder, "model.onnx", &bytes), "--json"]).json();
    assert_eq!(json["model"]["parameters"]["by_type"]["f32"]["elements"], 4);
}

#[test]
fn external_data_is_listed_with_its_bytes() {
    let folder = folder("inspect-external");
    let bytes = model(&[("x", &[2])], vec![node("Add", &["x", "w"], &["y"])], &[("y", &[2])]);
    let mut proto = ModelProto::decode(&*bytes).unwrap();
    let entry = |key: &str, value: &str| StringStringEntryProto {
        key: Some(key.to_owned()),
        value: Some(value.to_owned()),
    };
    proto.graph.as_mut().unwrap().initializer.push(TensorProto {
        name: Some("w".to_owned()),
        data_type: Some(1),
        dims: vec![2],
        data_location: Some(1),
        external_data: vec![entry("location", "weights.bin")],
        ..TensorProto::default()
    });
    write(&folder, "weights.bin", &[0; 8]);
    let path = write(&folder, "model.onnx", &proto.encode_to_vec());
    let json = bb(&["inspect", &path, "--json"]).json();
    assert_eq!(json["model"]["external_data"], serde_json::json!([{ "file": "weights.bin", "bytes": 8 }]));
    let text = bb(&["inspect", &path]).out;
    assert!(text.contains("weights.bin: 8 bytes"), "{text}");
}

#[test]
fn operations_are_counted_for_given_extents_and_else_the_open_ones_are_named() {
    let folder = folder("inspect-cost");
    let path = exported(&folder);
    let open = bb(&["inspect", &path, "--json"]).json();
    assert_eq!(open["cost"], serde_json::json!({ "open_extents": ["x[0]"] }));
    let text = bb(&["inspect", &path]).out;
    assert!(text.contains("they depend on `x[0]`, which --dim or --shape gives"), "{text}");
    for backend in ["cpu", "reference", "whole-graph"] {
        let json = bb(&["inspect", &path, "--shape", "x=7,3", "--backend", backend, "--json"]).json();
        let cost = &json["cost"];
        assert_eq!(
            (&cost["flops_per_run"], &cost["counted_until"]),
            (&(2 * 7 * 3 * 5).into(), &serde_json::Value::Null)
        );
        assert_eq!(
            (&cost["bytes_read_per_run"], &cost["bytes_written_per_run"]),
            (&(4 * (21 + 15)).into(), &(4 * 35).into())
        );
        assert_eq!(
            (&cost["nodes"][0]["node"], &cost["nodes"][0]["operations"]),
            (&"product".into(), &1.into())
        );
    }
}

#[test]
fn rows_are_independent_or_the_node_that_mixes_them_is_named() {
    let folder = folder("inspect-rows");
    let path = exported(&folder);
    assert_eq!(bb(&["inspect", &path, "--json"]).json()["rows"], "independent");
    let nodes = vec![
        bb_tests::model::ints("axes", &[0]),
        named("most\u{1b}[31m", node("ReduceMax", &["x", "axes"], &["m"])),
        node("Sub", &["x", "m"], &["y"]),
    ];
    let path = write(&folder, "mixing.onnx", &model(&[("x", &[-1, 4])], nodes, &[("y", &[-1, 4])]));
    let text = bb(&["inspect", &path]).out;
    assert!(text.contains("not known to be independent: node"), "{text}");
    assert!(text.contains("(ReduceMax) computes over the rows") && !text.contains('\u{1b}'), "{text}");
    // No extent is open, so that there are no rows.
    let path = write(
        &folder,
        "fixed.onnx",
        &model(&[("x", &[4])], vec![node("Neg", &["x"], &["y"])], &[("y", &[4])]),
    );
    assert_eq!(bb(&["inspect", &path, "--json"]).json()["rows"], serde_json::Value::Null);
}

#[test]
fn costs_that_depend_on_values_are_not_counted() {
    let folder = folder("inspect-until");
    let nodes = vec![
        node("Neg", &["x"], &["n"]),
        named("places", node("NonZero", &["n"], &["p"])),
        bb_tests::model::with_int(node("Cast", &["p"], &["y"]), "to", 1),
    ];
    let path = write(&folder, "model.onnx", &model(&[("x", &[4])], nodes, &[("y", &[1, -1])]));
    let cost = &bb(&["inspect", &path, "--json"]).json()["cost"];
    assert_eq!((&cost["flops_per_run"], &cost["counted_until"]), (&4.into(), &"places".into()));
}

/// A model whose names contain markup.
fn hostile(folder: &Path) -> String {
    let evil = "</title><script>alert(1)</script>\"'&]]>";
    let nodes = vec![
        named(evil, node("Abs", &["x"], &["</svg><img src=x onerror=alert(2)>"])),
        custom("Missing<b>", &["</svg><img src=x onerror=alert(2)>"], &["y"]),
    ];
    write(folder, "model.onnx", &model(&[("x", &[2])], nodes, &[("y", &[2])]))
}

#[test]
fn a_picture_has_a_box_for_each_node_in_the_colour_of_what_runs_it() {
    let folder = folder("inspect-graph");
    let nodes = vec![
        named("a", node("Abs", &["x"], &["p"])),
        named("b", node("HardSwish", &["p"], &["q"])),
        named("c", node("NonZero", &["q"], &["r"])),
        named("d", custom("Other", &["r", "p"], &["y"])),
        named("e", node("Neg", &["x"], &["nobody"])),
    ];
    let path = write(&folder, "model.onnx", &model(&[("x", &[2])], nodes, &[("y", &[2])]));
    let file = folder.join("graph.svg");
    let ended = bb(&["inspect", &path, "--graph", file.to_str().unwrap()]);
    // The status says that a node is unsupported; the picture shows which one.
    assert_eq!(ended.code(), 1, "{}", ended.err);
    let svg = std::fs::read_to_string(&file).unwrap();
    let count = |part: &str| svg.matches(part).count();
    assert_eq!(count("<g class=\"n\">"), 5 + 2);
    for kind in ["input", "output", "native", "lowered", "host", "unsupported", "unused"] {
        // One box in the graph, and one in the legend.
        assert_eq!(count(&format!("class=\"b {kind}\"")), 2, "{kind}");
    }
    // The edges go from x to a and e, from p to b and d, and from q, r and y.
    assert_eq!(count("<path class=\"e\""), 7);
    assert!(svg.contains("<title>p f32[2]</title>"), "edges tell their values");
}

#[test]
fn names_cannot_leave_their_place_in_a_picture() {
    let folder = folder("inspect-graph-hostile");
    let path = hostile(&folder);
    for form in ["svg", "html"] {
        let file = folder.join(format!("graph.{form}"));
        bb(&["inspect", &path, "--graph", file.to_str().unwrap()]);
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains("<script>") && !text.contains("<img") && !text.contains("<b>"), "{text}");
        assert!(text.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{text}");
        assert_eq!(text.matches("</svg>").count(), 1);
        assert_eq!(text.matches("<script nonce").count(), usize::from(form == "html"));
        assert!(!text.contains("http://") || text.matches("http://").count() == 1, "the name space alone");
    }
    let file = folder.join("graph.dot");
    bb(&["inspect", &path, "--graph", file.to_str().unwrap()]);
    let dot = std::fs::read_to_string(&file).unwrap();
    assert!(dot.starts_with("digraph \"test\" {\n") && dot.ends_with("}\n"), "{dot}");
    assert!(dot.contains("</script>\\\"'&]]>"), "{dot}");
}

#[test]
fn a_real_model_is_drawn_in_every_form() {
    let folder = folder("inspect-graph-real");
    let path = data().join("models/basic_pitch/model.onnx").display().to_string();
    let nodes = bb(&["inspect", &path, "--json"]).json()["nodes"].as_array().unwrap().len();
    for form in ["svg", "html", "dot"] {
        let text = drawn(&folder, form, &path, &["--whole"]);
        let part = if form == "dot" { " [label=" } else { "<g class=\"n\">" };
        let boxes = text.matches(part).count();
        assert!(boxes > nodes, "{form}: {boxes} boxes of {nodes} nodes, and the inputs and outputs");
    }
}

/// Draws a model in a form, and returns the text of the file.
fn drawn(folder: &Path, form: &str, path: &str, options: &[&str]) -> String {
    let file = folder.join(format!("graph.{form}"));
    let ended = bb(&[&["inspect", path, "--graph", file.to_str().unwrap()][..], options].concat());
    assert_eq!(ended.code(), 0, "{}", ended.err);
    std::fs::read_to_string(&file).unwrap()
}

/// Four layers with a residual connection, each with a state that comes in and one that goes out, between two other nodes.
fn layers(folder: &Path) -> String {
    let mut nodes = vec![named("before", node("Exp", &["x"], &["h"]))];
    let (mut inputs, mut outputs) = (vec!["x".to_owned()], Vec::new());
    let mut hidden = "h".to_owned();
    for layer in 0..4 {
        let name = |what: &str| format!("{what}.{layer}");
        let [abs, mul, neg, past, next] = ["abs", "mul", "neg", "past", "next"].map(name);
        let step = |op: &str, reads: &[&str], gives: &str| {
            named(&format!("{op}_{layer}"), node(op, reads, &[gives]))
        };
        nodes.push(step("Abs", &[&hidden], &abs));
        nodes.push(step("Mul", &[&abs, &past], &mul));
        nodes.push(step("Neg", &[&mul], &neg));
        nodes.push(step("Add", &[&neg, &hidden], &next));
        inputs.push(past);
        outputs.push(next.clone());
        hidden = next;
    }
    nodes.push(named("after", node("Tanh", &[&hidden], &["y"])));
    outputs.push("y".to_owned());
    write(folder, "layers.onnx", &model(&ports(&inputs), nodes, &ports(&outputs)))
}

fn ports(names: &[String]) -> Vec<(&str, &[i64])> {
    names.iter().map(|name| (name.as_str(), &[2][..])).collect()
}

#[test]
fn layers_are_drawn_once() {
    let folder = folder("inspect-graph-layers");
    let path = layers(&folder);
    let count = |text: &str, part: &str| text.matches(part).count();
    let svg = drawn(&folder, "svg", &path, &[]);
    // One layer, the nodes around it, x and y, and the states of the first layer.
    assert_eq!(count(&svg, "<g class=\"n\">"), 4 + 2 + 2 + 2, "{svg}");
    assert!(svg.contains("4 times, 4 nodes each") && svg.contains("the last with Abs_3"), "{svg}");
    assert!(svg.contains("passes next.0 f32[2] to the next"), "{svg}");
    assert!(svg.contains("also past.3 f32[2]") && svg.contains("also next.2 f32[2]"), "{svg}");
    // x to before, before to two nodes, past to Mul, three inside, Add to the state and to after, after to y.
    assert_eq!(count(&svg, "<path class=\"e\""), 1 + 2 + 1 + 3 + 2 + 1);
    let whole = drawn(&folder, "svg", &path, &["--whole"]);
    assert_eq!(count(&whole, "<g class=\"n\">"), 16 + 2 + 5 + 5);
    assert!(!whole.contains("times, "), "{whole}");
    let html = drawn(&folder, "html", &path, &[]);
    assert_eq!((count(&html, "</svg>"), count(&html, "<g class=\"n\">")), (2, 10 + 28), "one of each");
    let dot = drawn(&folder, "dot", &path, &[]);
    assert!(dot.contains("subgraph cluster_0 { label=\"4 times, 4 nodes each\""), "{dot}");
}

#[test]
fn times_of_a_profile_colour_the_nodes() {
    let folder = folder("inspect-graph-times");
    let path = layers(&folder);
    let times = write(
        &folder,
        "times.json",
        bb(&["bench", &path, "--runs", "3", "--profile", "--json"]).out.as_bytes(),
    );
    let svg = drawn(&folder, "svg", &path, &["--times", &times]);
    assert!(svg.contains("all 4 of this place take ") && svg.contains("all together take "), "{svg}");
    let html = drawn(&folder, "html", &path, &["--times", &times]);
    assert!(html.contains("id=\"colours\"") && html.contains("data-coverage=\"#b9e4c0\""), "{html}");
    // Times that were written by hand: half of a run is in one node, and none in the others.
    let by_hand =
        r#"{"profile":{"seconds_per_run":2.0,"instructions":[{"node":"Abs_1","seconds_per_run":1.0}]}}"#;
    let by_hand = write(&folder, "by-hand.json", by_hand.as_bytes());
    let svg = drawn(&folder, "svg", &path, &["--times", &by_hand, "--whole"]);
    assert_eq!(svg.matches("takes 1.000 s, 50.0 % of a run").count(), 1, "{svg}");
    assert_eq!(svg.matches("takes 0.00 µs, 0.0 % of a run").count(), 17, "{svg}");
    let wrong = write(&folder, "wrong.json", b"{\"profile\": 3}");
    for (file, why) in
        [(wrong.as_str(), "has no times of nodes"), ("missing.json", "cannot read `missing.json`")]
    {
        let graph = folder.join("no.svg");
        let ended = bb(&["inspect", &path, "--graph", graph.to_str().unwrap(), "--times", file]);
        assert_eq!(ended.code(), 1);
        assert!(ended.err.contains(why), "{}", ended.err);
    }
}

#[test]
fn a_picture_of_another_form_is_an_error() {
    let folder = folder("inspect-graph-form");
    let path = exported(&folder);
    let ended = bb(&["inspect", &path, "--graph", folder.join("graph.png").to_str().unwrap()]);
    assert_eq!(ended.code(), 1);
    assert!(ended.err.contains("is drawn to a file that ends in .svg, .html or .dot"), "{}", ended.err);
}
