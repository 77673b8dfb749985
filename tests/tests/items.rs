//! Cases whose inputs and results are no tensors: the files are read, and the values go in and come out of a graph.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::conformance::onnx::{find, run};
use bb_tests::backends;
use std::path::Path;

/// Written with ONNX's own writers, by `tests/data/items/make.py`.
#[test]
fn sequences_maps_and_optionals_are_read_go_in_and_come_out_on_every_backend() {
    let cases = find(&Path::new(env!("CARGO_MANIFEST_DIR")).join("data/items")).unwrap();
    assert!(cases.len() >= 10, "{}", cases.len());
    for backend in ["cpu", "reference", "whole-graph", "device"] {
        let on = backends::start(backend).unwrap();
        for case in &cases {
            run(case, &on).unwrap_or_else(|e| panic!("{} on {backend}: {e:?}", case.display()));
        }
    }
}
