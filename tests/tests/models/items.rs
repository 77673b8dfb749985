//! Runs cases whose inputs and outputs are not tensors, from reading their files to comparing the outputs.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::conformance::onnx::{find, run};
use bb_tests::backends;
use std::path::Path;

/// `tests/data/items/make.py` wrote the cases with ONNX's own functions.
#[test]
fn sequences_maps_and_optionals_pass_on_every_backend() {
    let cases = find(&Path::new(env!("CARGO_MANIFEST_DIR")).join("data/items")).unwrap();
    assert!(cases.len() >= 10, "{}", cases.len());
    for backend in ["cpu", "reference", "whole-graph", "device"] {
        let on = backends::start(backend).unwrap();
        for case in &cases {
            run(case, &on).unwrap_or_else(|e| panic!("{} on {backend}: {e:?}", case.display()));
        }
    }
}
