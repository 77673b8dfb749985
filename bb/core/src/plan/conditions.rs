//! A readable report of the inputs that a plan holds for: the symbolic dimensions that are free, and the nodes that fix the others.

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

/// The node that made a trace depend on something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    /// How many events the trace had after the node.
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

/// For which inputs the plan of a model's first segment holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanConditions {
    /// The symbolic dimensions that one plan serves in every extent, as long as the conditions hold.
    pub free: Vec<String>,
    /// The symbolic dimensions that need a plan for each extent, with the node and operator that need the number.
    pub fixed: Vec<Condition>,
    /// The comparisons that a plan depends on; inputs with another outcome have a plan of their own.
    pub compared: Vec<Condition>,
}

/// Something that a plan depends on, and the node that made it so.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Condition {
    /// A symbolic dimension, or a comparison as text.
    pub what: String,
    /// The node.
    pub node: String,
    /// Its operator.
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
    /// Reports the extents of inputs that one plan holds for, and the nodes that make other extents need plans of their own.
    ///
    /// The report is for the first segment, on a backend with kernels and with these native operations. Shapes: `shapes` names the
    /// extents of inputs that the model is planned for; other extents are made up.
    ///
    /// # Errors
    ///
    /// Errors of lowering; [`Error::NotConstant`] if the computation depends on an input's elements.
    pub fn plan_conditions(
        &self,
        shapes: &HashMap<String, Vec<usize>>,
        natives: &[(Family, OpSet)],
    ) -> Result<PlanConditions, Error> {
        // Different extents show comparisons best. Not every model accepts them, and not every model accepts small ones.
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
        // The number of events never decreases from cause to cause.
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
