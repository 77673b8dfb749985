//! A readable report of the inputs that a plan is valid for: the free symbolic dimensions, and the nodes that fix the other
//! ones.

use super::Module;
use super::failure::in_node;
use super::resolve::Resolved;
use super::segment::{Outcome, SegmentInput, Settings, Start, trace};
use crate::Error;
use crate::ext::OpSet;
use crate::trace::{Event, Varies, needed};
use bb_ir::Shape;
use bb_ir::graph::{Dim, Graph, ValueType};
use bb_ir::op::Family;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

/// The node that caused a dependency of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    /// The number of events in the trace after the node was traced.
    pub(crate) events: usize,
    pub(crate) node: String,
    pub(crate) op: String,
}

impl Cause {
    /// Returns the cause for a node of a graph.
    pub(crate) fn new(graph: &Graph, at: usize, events: usize) -> Cause {
        let node = graph.nodes.get(at);
        Cause {
            events,
            node: node.map(|node| crate::error::name(graph, node)).unwrap_or_default(),
            op: node.map(|node| node.op_type.clone()).unwrap_or_default(),
        }
    }
}

/// The conditions on inputs for the plan of a model's first segment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanConditions {
    /// The symbolic dimensions that may have any extent with one plan, as long as the comparisons in `compared` have the same
    /// outcome.
    pub free: Vec<String>,
    /// The symbolic dimensions that need a plan for each extent, with the node and operator that need the actual extent.
    pub fixed: Vec<Condition>,
    /// The comparisons that a plan depends on. Inputs with another outcome need a plan of their own.
    pub compared: Vec<Condition>,
}

/// A dependency of a plan, and the node that caused it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Condition {
    /// A symbolic dimension, or a comparison as text.
    pub what: String,
    /// The node.
    pub node: String,
    /// The operator of the node.
    pub op: String,
}

impl fmt::Display for PlanConditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.free.is_empty(), self.fixed.is_empty()) {
            (true, true) => f.write_str("one plan; all extents are declared")?,
            (true, false) => f.write_str("a plan for each combination of extents")?,
            (false, _) => write!(f, "valid for all of {}", self.free.join(", "))?,
        }
        for Condition { what, node, op } in &self.fixed {
            write!(f, "\n`{what}` is fixed by node `{node}` ({op})")?;
        }
        for Condition { what, node, op } in &self.compared {
            write!(f, "\n{what}, compared by node `{node}` ({op})")?;
        }
        Ok(())
    }
}

impl Module {
    /// Reports which extents of inputs one plan is valid for, and the nodes that require separate plans for other extents.
    ///
    /// The report is for the first segment, on a backend with kernels and with these native operations. Shapes: `shapes` maps
    /// names of inputs to the extents that the model is planned for; other extents are chosen arbitrarily.
    ///
    /// # Errors
    ///
    /// Errors of lowering; [`Error::NotConstant`] if the computation depends on an input's elements.
    pub fn plan_conditions(
        &self,
        shapes: &HashMap<String, Vec<usize>>,
        natives: &[(Family, OpSet)],
    ) -> Result<PlanConditions, Error> {
        // Extents that all differ show comparisons best, so they are tried first. But some models do not accept them or need
        // larger ones.
        let first = self.conditions(shapes, natives, 8);
        let others = [1, 64, 224].into_iter().map(|from| self.conditions(shapes, natives, from));
        first.or_else(|error| others.into_iter().find_map(Result::ok).ok_or(error))
    }

    fn conditions(
        &self,
        shapes: &HashMap<String, Vec<usize>>,
        natives: &[(Family, OpSet)],
        from: usize,
    ) -> Result<PlanConditions, Error> {
        let graph = self.graph();
        let mut made_up: BTreeMap<String, usize> = BTreeMap::new();
        let mut inputs = Vec::with_capacity(graph.inputs.len());
        for value in &graph.inputs {
            let ty = graph.values.get(value.index()).map(|v| &v.ty);
            let Some(ValueType::Tensor { dtype, shape: Some(dims) }) = ty else {
                let value = graph.name_of(*value).to_owned();
                return Err(Error::NotConstant { op: "trace".to_owned(), value });
            };
            let named = shapes.get(graph.name_of(*value));
            let mut extent = |(axis, dim): (usize, &Dim)| match (named.and_then(|n| n.get(axis)), dim) {
                (Some(n), _) => *n,
                (None, Dim::Known(n)) => *n,
                (None, dim) => {
                    let next = if from == 8 { from + made_up.len() } else { from };
                    *made_up.entry(dim.to_string()).or_insert(next)
                }
            };
            let shape: Shape = dims.iter().enumerate().map(&mut extent).collect();
            let varies = Varies::Declared(dims.clone());
            inputs.push(SegmentInput { dtype: *dtype, shape, varies, known: None });
        }
        let start = Start { live: graph.inputs.clone(), ..Start::default() };
        let settings = Settings {
            natives: natives.to_vec(),
            value_bytes: bb_ir::Limits::default().value_bytes,
            fold_bytes: bb_ir::Limits::default().fold_bytes,
            symbolic: true,
            strict: false,
            types: bb_ir::DataTypes::ALL,
        };
        let resolved = Arc::new(Resolved::new(self.planned()?)?);
        let traced = match trace(&resolved, &start, &inputs, &None, &settings)? {
            Outcome::Traced(traced, _) => traced,
            Outcome::Needs(wanted) => {
                let value = start.live.get(wanted.position).map_or("", |v| graph.name_of(*v)).to_owned();
                let error = Error::NotConstant { op: "trace".to_owned(), value };
                return Err(in_node(&wanted.resolved.graph, wanted.node, error));
            }
        };
        // The causes are sorted by their number of events.
        let cause = |at: usize| traced.causes.get(traced.causes.partition_point(|cause| cause.events <= at));
        let condition = |at: usize, what: String| Condition {
            what,
            node: cause(at).map(|cause| cause.node.clone()).unwrap_or_default(),
            op: cause(at).map(|cause| cause.op.clone()).unwrap_or_default(),
        };
        let (symbols, events) = (&traced.recorded.symbols, &traced.recorded.events);
        let mut conditions = PlanConditions { free: Vec::new(), fixed: Vec::new(), compared: Vec::new() };
        let mut tied = vec![false; symbols.len()];
        for (at, event) in events.iter().enumerate() {
            match event {
                Event::Tied(no) => {
                    let name = symbols.get(*no as usize).map_or("", |symbol| &symbol.name);
                    conditions.fixed.push(condition(at, name.to_owned()));
                    if let Some(tied) = tied.get_mut(*no as usize) {
                        *tied = true;
                    }
                }
                Event::Guarded(_) => {}
            }
        }
        for (at, guard) in needed(events)? {
            conditions.compared.push(condition(at, guard.to_string()));
        }
        let free = symbols.iter().zip(tied).filter(|(_, tied)| !tied);
        conditions.free = free.map(|(symbol, _)| symbol.name.clone()).collect();
        Ok(conditions)
    }
}
