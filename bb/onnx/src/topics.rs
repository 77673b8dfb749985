//! The table of the operators of this crate.

use super::*;
use bb_core::__private::inventory;
use bb_core::error::Library;
use bb_core::operator::{OperatorTable, OptionalDomain};
use bb_ir::graph::Node;
use table::operator_table;

operator_table! {
    arithmetic,
    attention,
    bit_cast,
    control,
    cumulative,
    determinant,
    early,
    einsum,
    flex_attention,
    grid,
    image,
    linear_attention,
    loss,
    movement,
    ngrams,
    normalize,
    picture,
    quant,
    random,
    recurrent,
    reduce,
    region,
    resize,
    scalar,
    selection,
    sequence,
    sequence_axis,
    shape,
    shape::elements,
    signal,
    sorting,
    strings,
    suppression,
    window::conv,
    window::pool,
}

inventory::submit! {
    OperatorTable { unlinked, optional_domains: OPTIONAL_DOMAINS, ..OperatorTable::new(find, served) }
}

/// The domains of the other operator crates in this repository.
pub const OPTIONAL_DOMAINS: &[OptionalDomain] = &[
    OptionalDomain::new("ai.onnx.ml", "ml", "bb_onnx_ml"),
    OptionalDomain::new("ai.onnx.preview.training", "training", "bb_onnx_training"),
    OptionalDomain::new("com.microsoft", "microsoft", "bb_onnx_microsoft"),
    OptionalDomain::new("com.microsoft.nchwc", "microsoft", "bb_onnx_microsoft"),
    OptionalDomain::new("com.ms.internal.nhwc", "microsoft", "bb_onnx_microsoft"),
];

/// Returns the library that a node needs, if no linked crate provides it.
fn unlinked(node: &Node) -> Option<Library> {
    match (node.domain.as_str(), node.op_type.as_str()) {
        ("", "ImageDecoder") => picture::unlinked(),
        ("", "RegexFullMatch") => pattern::unlinked(),
        _ => None,
    }
}

/// Lists the operator versions in this crate that have an implementation, ordered by domain, name and
/// version.
pub fn operators() -> impl Iterator<Item = &'static Operator> {
    served().iter().copied()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use bb_ir::check::{CheckOptions, check};
    use bb_ir::graph::Graph;
    use bb_ir::proto::{GraphProto, ModelProto, NodeProto, OperatorSetIdProto};

    /// The test binary links only this crate's operators, so the other domains are missing.
    #[test]
    fn without_the_crate_of_a_domain_the_error_says_what_to_write() {
        for (domain, feature) in
            [("ai.onnx.ml", "ml"), ("com.microsoft", "microsoft"), ("ai.onnx.preview.training", "training")]
        {
            let node = NodeProto {
                op_type: Some("Thing".into()),
                domain: Some(domain.into()),
                output: vec!["y".into()],
                ..NodeProto::default()
            };
            let opset = |domain: &str| OperatorSetIdProto { domain: Some(domain.into()), version: Some(1) };
            let graph = GraphProto { node: vec![node], ..GraphProto::default() };
            let model = ModelProto {
                ir_version: Some(10),
                opset_import: vec![opset(domain)],
                graph: Some(graph),
                ..ModelProto::default()
            };
            let graph = check(&model, &CheckOptions::default()).unwrap().graph;
            let text = bb_core::operator::missing(&graph, graph.nodes.first().unwrap()).to_string();
            let expected = format!(
                "the operators of the domain are not linked; add the feature `{feature}` of `bb`, or write `use bb_onnx_{feature} as _;`"
            );
            assert!(text.ends_with(&expected), "{text}");
        }
    }

    /// The test binary links no decoders and no regular expression engine.
    #[test]
    fn libraries_that_are_not_linked_are_named() {
        let node = |op: &str| Node { op_type: op.to_owned(), opset: 22, ..Node::default() };
        for (op, end) in [
            (
                "ImageDecoder",
                "it needs a decoder of pictures; add the feature `image` of `bb`, or write `use bb_pictures as _;`",
            ),
            (
                "RegexFullMatch",
                "it needs an engine of patterns; add the feature `regex` of `bb`, or write `use bb_patterns as _;`",
            ),
        ] {
            let text = bb_core::operator::missing(&Graph::default(), &node(op)).to_string();
            assert!(text.ends_with(end), "{text}");
        }
        assert_eq!(bb_core::operator::unlinked(&node("StringConcat")), None);
    }

    #[test]
    fn rows_begin_where_versions_do() {
        // Caffe2 and early exporters wrote these versions before ONNX had the operators.
        let early = [("", "MeanVarianceNormalization", 1), ("", "ThresholdedRelu", 1)];
        let mut others = TABLE.unversioned();
        others.sort_unstable();
        assert_eq!(others, early);
    }

    #[test]
    fn the_greatest_version_that_is_not_newer_serves_an_opset() {
        let since = |opset| find("", "Add", opset).map(|found| found.operator.since);
        assert_eq!(since(0), None);
        assert_eq!(since(6), Some(6));
        assert_eq!(since(12), Some(7));
        assert_eq!(since(99), Some(14));
        assert_eq!(find("ai.onnx", "Add", 14).unwrap().operator.name, "Add");
        assert!(find("", "Ad", 14).is_none());
        assert!(find("other", "Add", 14).is_none());
        assert!(find("", "Upsample", 9).is_some() && find("", "Upsample", 10).is_none());
    }
}
