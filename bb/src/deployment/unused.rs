//! Finds bindings that have no effect, and suggests the name that was probably meant.

use super::DeploymentBuilder;
use super::ready::{Effects, Loaded};
use super::rule::{Chooses, Rule};
use bb_core::error::Problem;
use bb_ir::graph::{self, Graph};
use bb_ir::nearest;
use std::collections::BTreeSet;

impl DeploymentBuilder {
    /// Finds the bindings that have no effect on any model.
    pub(super) fn unused(&self, models: &[Loaded], effects: &Effects) -> Vec<Problem> {
        let mut problems = Vec::new();
        let all: Vec<&graph::Node> = models.iter().flat_map(|model| &model.module.graph().nodes).collect();
        let named = |graph: &Graph| {
            graph.nodes.iter().map(|node| bb_core::error::name(graph, node)).collect::<Vec<_>>()
        };
        let names: Vec<String> = models.iter().flat_map(|model| named(model.module.graph())).collect();
        for (at, (bound, used)) in self.components.iter().zip(&effects.components).enumerate() {
            // The first of two for one operator counts, and that there are two is a problem of its own.
            let first = self.components.iter().position(|b| b.domain == bound.domain && b.name == bound.name);
            if *used || first != Some(at) {
                continue;
            }
            let same = all.iter().find(|node| node.op_type == bound.name);
            let near = || nearest(&bound.name, all.iter().map(|node| node.op_type.as_str()));
            let near = same
                .copied()
                .or_else(|| near().and_then(|near| all.iter().find(|n| n.op_type == near).copied()));
            problems.push(Problem::UnusedComponent {
                domain: bound.domain.clone(),
                name: bound.name.clone(),
                nearest: near.map(|node| (node.domain.clone(), node.op_type.clone())),
            });
        }
        for (at, (rule, (chooses, counts))) in self.rules.iter().zip(&effects.rules).enumerate() {
            let text = rule.text(at);
            match (chooses, counts) {
                (true, true) => {}
                (true, false) => problems.push(Problem::ShadowedRule { rule: text }),
                (false, _) => {
                    let near = match &rule.chooses {
                        Chooses::Op(op) => nearest(op, all.iter().map(|node| node.op_type.as_str())),
                        Chooses::Node(name) => nearest(name, names.iter().map(String::as_str)),
                        Chooses::Where(_) => None,
                    };
                    let holder = models.iter().find_map(|model| holder(model.module.graph(), rule));
                    let known: BTreeSet<&str> = match &rule.chooses {
                        Chooses::Op(_) => all.iter().map(|node| node.op_type.as_str()).collect(),
                        Chooses::Node(_) => names.iter().map(String::as_str).collect(),
                        Chooses::Where(_) => BTreeSet::new(),
                    };
                    problems.push(Problem::UnusedRule {
                        rule: text,
                        nearest: near.map(str::to_owned),
                        inside: holder,
                        names: known.into_iter().map(str::to_owned).collect(),
                    });
                }
            }
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
    let chooses = |outer: &&graph::Node| {
        let mut open: Vec<&Graph> = outer.subgraphs().collect();
        while let Some(inner) = open.pop() {
            if inner.nodes.iter().any(|node| rule.chooses(inner, node)) {
                return true;
            }
            open.extend(inner.nodes.iter().flat_map(graph::Node::subgraphs));
        }
        false
    };
    graph.nodes.iter().find(chooses).map(|node| bb_core::error::name(graph, node))
}
