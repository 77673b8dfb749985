//! Finds bindings that have no effect, and suggests the name that was probably meant.

use super::builder::DeploymentBuilder;
use super::parts::Loaded;
use super::ready::{Effects, inner_nodes};
use super::rule::{Chooses, Rule};
use bb_core::error::{Problem, name};
use bb_ir::graph::Graph;
use bb_ir::nearest;
use std::collections::BTreeSet;

impl DeploymentBuilder {
    /// Finds the bindings that have no effect on any model.
    pub(super) fn unused(&self, models: &[Loaded], effects: &Effects) -> Vec<Problem> {
        let mut problems = Vec::new();
        let graphs = || models.iter().map(|model| model.module.graph());
        let nodes = || graphs().flat_map(|graph| &graph.nodes);
        let operators: Vec<String> = nodes().map(|node| node.op_type.clone()).collect();
        let names: Vec<String> =
            graphs().flat_map(|graph| graph.nodes.iter().map(|node| name(graph, node))).collect();
        for (at, (bound, used)) in self.components.iter().zip(&effects.components).enumerate() {
            // If two components are bound to one operator, only the first takes effect. The duplicate is
            // reported separately.
            let first = self.components.iter().position(|b| b.domain == bound.domain && b.name == bound.name);
            if *used || first != Some(at) {
                continue;
            }
            // Suggest an operator of the same name in another domain first.
            let near = nearest(&bound.name, operators.iter().map(String::as_str));
            let node = |op: &str| nodes().find(|node| node.op_type == op);
            let near = node(&bound.name).or_else(|| near.and_then(node));
            problems.push(Problem::UnusedComponent {
                domain: bound.domain.clone(),
                name: bound.name.clone(),
                nearest: near.map(|node| (node.domain.clone(), node.op_type.clone())),
            });
        }
        for (at, (rule, (chooses, counts))) in self.rules.iter().zip(&effects.rules).enumerate() {
            let text = rule.text(at);
            if *chooses {
                problems.extend((!counts).then_some(Problem::ShadowedRule { rule: text }));
                continue;
            }
            let (meant, known) = match &rule.chooses {
                Chooses::Op(op) => (op.as_str(), operators.as_slice()),
                Chooses::Node(name) => (name.as_str(), names.as_slice()),
                Chooses::Where(_) => ("", &[][..]),
            };
            problems.push(Problem::UnusedRule {
                rule: text,
                nearest: nearest(meant, known.iter().map(String::as_str)).map(str::to_owned),
                inside: graphs().find_map(|graph| holder(graph, rule)),
                names: known.iter().collect::<BTreeSet<_>>().into_iter().cloned().collect(),
            });
        }
        for backend in self.accompanying.keys() {
            if self.backends.named(backend).is_ok() && !effects.backends.contains(backend) {
                problems.push(Problem::NoPart { by: self.accompanies(backend), backend: backend.clone() });
            }
        }
        problems
    }
}

/// Finds the node whose subgraphs contain a node that the rule would select.
fn holder(graph: &Graph, rule: &Rule) -> Option<String> {
    let mut nodes = graph.nodes.iter();
    let found =
        nodes.find(|outer| inner_nodes(outer).into_iter().any(|(inner, node)| rule.chooses(inner, node)));
    found.map(|node| name(graph, node))
}
