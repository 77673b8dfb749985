//! Parses and checks models, which must end in an error or in a graph with all promised properties.
#![no_main]

use bb_ir::Limits;
use bb_ir::check::{CheckOptions, check, parse_model};
use bb_ir::graph::{Attribute, Graph};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use std::collections::HashSet;

fuzz_target!(|data: &[u8]| {
    // The limits are small so that a run is short; larger limits work in the same way.
    let limits = Limits {
        nodes: 10_000,
        tensor_elements: 1 << 20,
        tensor_bytes: 1 << 22,
        total_tensor_bytes: 1 << 24,
        sparse_bytes: 1 << 22,
        total_text_bytes: 1 << 22,
        ..Limits::default()
    };
    let options = CheckOptions { limits, operators: bb::onnx::OPERATORS, ..CheckOptions::default() };
    let Ok(model) = parse_model(Bytes::copy_from_slice(data), &options.limits) else { return };
    if let Ok(checked) = check(&model, &options) {
        promises(&checked.graph);
    }
});

/// Checks the properties that the documentation of `bb_ir::graph` promises.
fn promises(graph: &Graph) {
    let mut known: HashSet<_> = graph.inputs.iter().copied().collect();
    known.extend(graph.constants.iter().map(|c| c.0));
    known.extend(graph.captures.iter().map(|c| c.1));
    for node in &graph.nodes {
        assert!(node.inputs.iter().flatten().all(|v| known.contains(v)), "a value is read before it is made");
        for (_, attribute) in node.attributes.iter() {
            let graphs = match attribute {
                Attribute::Graph(g) => std::slice::from_ref(&**g),
                Attribute::Graphs(g) => g,
                _ => continue,
            };
            for inner in graphs {
                assert!(inner.captures.iter().all(|c| known.contains(&c.0)), "a capture is not there yet");
                promises(inner);
            }
        }
        assert!(node.outputs.iter().flatten().all(|v| known.insert(*v)), "a value is made twice");
    }
    assert!(graph.outputs.iter().all(|v| known.contains(v)));
    assert!(known.iter().all(|v| v.index() < graph.values.len()));
    let names: HashSet<&str> = graph.values.iter().map(|v| v.name.as_str()).collect();
    assert_eq!(names.len(), graph.values.len(), "names are unique");
}
