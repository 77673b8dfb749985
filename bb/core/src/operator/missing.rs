//! The report of a node whose operator nothing runs.

use crate::error::{Advice, Library, Missing, NodeInfo, Why};
use crate::ext::vendor;
use bb_ir::graph::{Attribute, Graph, Node};
use bb_ir::opset::names;

/// A domain whose operators are in a crate that a program may leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionalDomain {
    /// The domain.
    pub domain: &'static str,
    /// The feature of `bb` that links the crate.
    pub feature: &'static str,
    /// The crate.
    pub package: &'static str,
}

impl OptionalDomain {
    const fn new(domain: &'static str, feature: &'static str, package: &'static str) -> OptionalDomain {
        OptionalDomain { domain, feature, package }
    }

    /// The domains of the crates in this repository.
    pub const ALL: &[OptionalDomain] = &[
        OptionalDomain::new("ai.onnx.ml", "ml", "bb_onnx_ml"),
        OptionalDomain::new("ai.onnx.preview.training", "training", "bb_onnx_training"),
        OptionalDomain::new("com.microsoft", "microsoft", "bb_onnx_microsoft"),
        OptionalDomain::new("com.microsoft.nchwc", "microsoft", "bb_onnx_microsoft"),
        OptionalDomain::new("com.ms.internal.nhwc", "microsoft", "bb_onnx_microsoft"),
    ];
}

/// Returns the optional domain of this name, if no linked crate has operators of it.
pub fn left_out(domain: &str) -> Option<OptionalDomain> {
    let found = OptionalDomain::ALL.iter().find(|known| known.domain == domain)?;
    super::operators().all(|operator| operator.domain != domain).then_some(*found)
}

const PICTURES: Library = Library { what: "a decoder of pictures", feature: "image", package: "bb_pictures" };
const PATTERNS: Library = Library { what: "an engine of patterns", feature: "regex", package: "bb_patterns" };

/// Returns the library that an operator may need and no linked crate offers.
pub fn unlinked_for(domain: &str, name: &str) -> Option<Library> {
    match (domain, name) {
        ("", "ImageDecoder") => bb_ir::picture::decoders().is_empty().then_some(PICTURES),
        ("", "RegexFullMatch") | ("com.microsoft", "Tokenizer") => {
            bb_ir::pattern::engine().is_none().then_some(PATTERNS)
        }
        _ => None,
    }
}

/// Returns the library that a node needs and no linked crate offers.
pub fn unlinked(node: &Node) -> Option<Library> {
    unlinked_for(&node.domain, &node.op_type)
        .filter(|_| node.op_type != "Tokenizer" || !is_by_characters(node))
}

/// Returns whether a `Tokenizer` makes each character a token, so that it needs no pattern.
fn is_by_characters(node: &Node) -> bool {
    match node.attributes.get("separators") {
        Some(Attribute::Texts(list)) if !list.is_empty() => list.iter().all(Vec::is_empty) && list.len() == 1,
        _ => node.attributes.text("tokenexp").is_ok_and(|text| text == Some(".")),
    }
}

/// Describes a node whose operator nothing runs, with the operator that was probably meant.
pub fn missing(graph: &Graph, node: &Node) -> Missing {
    let node_info = NodeInfo::of(graph, node);
    if let Some(paths) = vendor::duplicate(&node.domain) {
        return Missing { node: node_info, why: Why::TwoVendors { paths } };
    }
    if let Some(operation) = vendor::find(&node.domain, &node.op_type) {
        return Missing { node: node_info, why: Why::NotYet { since: operation.spec().since } };
    }
    if super::operators().next().is_none() {
        return Missing { node: node_info, why: Why::NoOperators };
    }
    if let Some(library) = unlinked(node) {
        return Missing { node: node_info, why: Why::Unlinked(library) };
    }
    if let Some(OptionalDomain { feature, package, .. }) = left_out(&node.domain) {
        return Missing { node: node_info, why: Why::LeftOut { feature, package } };
    }
    let (known_domain, nearest) = look_up(&node.domain, &node.op_type);
    Missing { node: node_info, why: Why::Operator { known_domain, nearest } }
}

/// Explains why nothing runs an operator, and how the user can fix it.
pub fn advice(domain: &str, op: &str, opset: i64) -> String {
    let (known_domain, nearest) = look_up(domain, op);
    Advice { domain, op, opset, known_domain, nearest }.to_string()
}

/// Returns whether the domain is known, and its operator whose name is nearest.
fn look_up(domain: &str, op: &str) -> (bool, Option<&'static str>) {
    let nearest = bb_ir::nearest(op, known(domain).filter(|name| *name != op));
    (known(domain).next().is_some(), nearest)
}

/// Returns the operators of a domain that ONNX or `bb` defines.
fn known(domain: &str) -> impl Iterator<Item = &'static str> {
    let own = super::operators().filter(move |o| o.domain == domain).map(|o| o.name);
    names(domain).chain(own).chain(super::vendor::names(domain))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use bb_ir::check::{CheckOptions, check};
    use bb_ir::graph::Attributes;
    use bb_ir::proto::{GraphProto, ModelProto, NodeProto, OperatorSetIdProto};

    /// A graph of a node that is in no table of operators.
    fn graph() -> Graph {
        let node = NodeProto {
            op_type: Some("Thing".into()),
            domain: Some("com.example".into()),
            output: vec!["y".into()],
            ..NodeProto::default()
        };
        let opset = |domain: &str| OperatorSetIdProto { domain: Some(domain.into()), version: Some(22) };
        let model = ModelProto {
            ir_version: Some(10),
            opset_import: vec![opset(""), opset("com.example")],
            graph: Some(GraphProto { node: vec![node], ..GraphProto::default() }),
            ..ModelProto::default()
        };
        check(&model, &CheckOptions::default()).unwrap().graph
    }

    /// These tests are linked without ONNX's operators.
    #[test]
    fn without_operators_the_error_says_what_to_write() {
        let graph = graph();
        let text = missing(&graph, graph.nodes.first().unwrap()).to_string();
        assert!(
            text.ends_with("no operators are linked; depend on the crate `bb`, or write `use bb_onnx as _;`"),
            "{text}"
        );
    }

    /// These tests are linked without decoders and engines.
    #[test]
    fn libraries_that_are_not_linked_are_named() {
        let separators = |list: &[&str]| {
            let list = list.iter().map(|text| text.as_bytes().to_vec()).collect();
            vec![("separators".to_owned(), Attribute::Texts(list))]
        };
        let expression = |text: &str| vec![("tokenexp".to_owned(), Attribute::Text(text.into()))];
        let graph = graph();
        for (domain, op, attributes, expected) in [
            ("", "ImageDecoder", Vec::new(), Some(PICTURES)),
            ("", "RegexFullMatch", Vec::new(), Some(PATTERNS)),
            ("", "StringConcat", Vec::new(), None),
            ("com.microsoft", "Tokenizer", separators(&[""]), None),
            ("com.microsoft", "Tokenizer", separators(&[" ", ","]), Some(PATTERNS)),
            ("com.microsoft", "Tokenizer", expression("."), None),
            ("com.microsoft", "Tokenizer", expression("[a-z]+"), Some(PATTERNS)),
        ] {
            let mut node = graph.nodes.first().unwrap().clone();
            (node.domain, node.op_type) = (domain.into(), op.into());
            node.attributes = Attributes::new(attributes);
            assert_eq!(unlinked(&node), expected, "{op}");
        }
        let node = NodeInfo::of(&graph, graph.nodes.first().unwrap());
        let text = Missing { node, why: Why::Unlinked(PICTURES) }.to_string();
        let end = "it needs a decoder of pictures; add the feature `image` of `bb`, or write `use bb_pictures as _;`";
        assert!(text.ends_with(end), "{text}");
    }
}
