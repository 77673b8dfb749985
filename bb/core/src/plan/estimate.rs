//! Estimates the cost of a run of a module before anything runs.

use super::Module;
use super::partition::step_cost;
use super::passes::{PassOptions, rewrite};
use crate::Error;
use crate::contract::PassSwitches;
use crate::cost::Cost;
use crate::ext::OpSet;
use crate::measure::ProfiledNode;
use crate::trace::Phase;
use bb_ir::op::Family;
use std::collections::HashMap;

/// The cost of a node in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCost {
    /// The node.
    pub node: ProfiledNode,
    /// Number of operations that run for the node.
    pub operations: usize,
    /// The total cost of these operations; see [`cost`](crate::cost).
    pub cost: Cost,
}

/// The cost of a run of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Estimate {
    /// The nodes that run operations, in order. Constant folding runs once for all runs and is not included.
    pub nodes: Vec<NodeCost>,
    /// The node where the estimate ends, because the rest of the run depends on values that are known only in the run.
    pub until: Option<String>,
}

impl Estimate {
    /// Returns the total cost of all nodes.
    pub fn total(&self) -> Cost {
        self.nodes.iter().fold(Cost::ZERO, |all, node| all.and(node.cost))
    }
}

impl Module {
    /// Estimates the cost of a run on a backend with these native operations.
    ///
    /// Shapes: `shapes` maps names of inputs to extents. Extents that neither `shapes` nor the model fixes are 1.
    ///
    /// # Errors
    ///
    /// Errors of lowering; [`Error::NotConstant`] if the first node already depends on an input's elements, or if an input is
    /// not a tensor.
    pub fn estimate(
        &self,
        shapes: &HashMap<String, Vec<usize>>,
        natives: &[(Family, OpSet)],
    ) -> Result<Estimate, Error> {
        let (mut traced, end) = self.trace(shapes, natives)?;
        // Folding scales is off, because the estimate counts the operations that the model states.
        let switches = PassSwitches { fold_scales: false, ..PassOptions::INTERPRETED.switches };
        let options = PassOptions { check: false, switches, ..PassOptions::INTERPRETED };
        rewrite(&mut traced.recorded, options)?;
        let recorded = &traced.recorded;
        let graph = &traced.resolved.graph;
        let mut nodes: Vec<NodeCost> = Vec::new();
        for step in recorded.steps.entries().filter(|step| step.phase == Phase::EachRun) {
            let [name, _] = traced.origins.names_of([&step.origins], graph)?;
            let Some(ProfiledNode { path, op, domain }) = name else { continue };
            let cost = step_cost(recorded, step)?;
            let node = ProfiledNode { path, op, domain };
            match nodes.last_mut().filter(|last| last.node == node) {
                Some(last) => {
                    last.operations += 1;
                    last.cost = last.cost.and(cost);
                }
                None => nodes.push(NodeCost { node, operations: 1, cost }),
            }
        }
        let until =
            end.node(|start| start.node).and_then(|at| ProfiledNode::of(graph, at)).map(|name| name.path);
        Ok(Estimate { nodes, until })
    }
}
