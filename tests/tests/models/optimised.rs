//! Runs models that ONNX Runtime optimised for a processor and saved; `tests/data/optimised/make.py` made them.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::conformance::onnx;
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
