//! Runs models that ONNX Runtime optimised for a processor and saved; `tests/data/optimised/make.py` made them.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::Module;
use bb::conformance::onnx;
use bb::export::inlined;
use bb_tests::backends;
use std::path::PathBuf;

fn passes(case: &str) {
    let case = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/optimised").join(case);
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        onnx::run(&case, &on).unwrap_or_else(|failure| panic!("{} on {name}: {failure:?}", case.display()));
    }
}

#[test]
fn blocks_of_16_channels_give_what_the_network_gave() {
    passes("blocks_of_16");
}

#[test]
fn blocks_of_8_channels_are_told_from_those_of_16() {
    passes("blocks_of_8");
}

/// Notes of `bb` about the blocks are not exported, because ONNX Runtime refuses unknown attributes.
#[test]
fn an_exported_model_has_the_attributes_that_it_had() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/optimised/blocks_of_16/model.onnx");
    let written = inlined(&Module::load(path).unwrap()).unwrap();
    let nodes = written.graph.unwrap().node;
    assert!(nodes.iter().any(|node| node.domain() == "com.microsoft.nchwc"));
    assert!(
        nodes.iter().flat_map(|node| &node.attribute).all(|attribute| !attribute.name().starts_with("__"))
    );
}
