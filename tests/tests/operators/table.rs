//! Tests of the table of operators: the tables of all operator crates together.

use bb::onnx::{OPTIONAL_DOMAINS, operators};
use bb_ir::opset;
use std::collections::BTreeSet;

#[test]
fn each_version_has_one_row() {
    let keys: Vec<_> = operators().map(|o| (o.domain, o.name, o.since)).collect();
    assert!(keys.windows(2).all(|w| w.first() < w.last()), "{keys:?}");
}

#[test]
fn every_version_of_the_schemas_is_served() {
    let served: BTreeSet<_> = operators().map(|o| (o.domain, o.name, o.since)).collect();
    let there = opset::versions().filter(|v| v.types.is_some()).map(|v| (v.domain, v.name, v.since));
    assert_eq!(there.filter(|version| !served.contains(version)).collect::<Vec<_>>(), []);
}

/// Errors about a crate that is left out use this list.
#[test]
fn the_domains_that_may_be_left_out_are_those_of_other_crates() {
    let mut domains: BTreeSet<_> = operators().map(|o| o.domain).collect();
    for known in OPTIONAL_DOMAINS {
        assert!(domains.remove(known.domain), "{known:?}");
    }
    assert_eq!(domains, BTreeSet::from(["", "ai.onnx.preview"]));
}
