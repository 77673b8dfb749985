//! The checked model that is compiled for a backend.

use crate::Error;
use bb_ir::graph::{Graph, Node, ValueId, Warning};
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

/// A checked model, ready to be compiled for a backend.
#[derive(Debug, Clone)]
pub struct Module {
    graph: Arc<Graph>,
    /// The plans of a compiled model. Their type is erased, because only the planner knows it.
    saved: Option<Arc<dyn Any + Send + Sync>>,
}

impl Module {
    /// Wraps a graph that [`new`](Self::new) has already prepared: a part of a module's graph, or the graph with other constants.
    pub fn of_part(graph: Graph) -> Module {
        Module { graph: Arc::new(graph), saved: None }
    }

    /// Wraps a checked graph and its plans.
    pub(crate) fn with_saved(graph: Arc<Graph>, saved: Arc<dyn Any + Send + Sync>) -> Module {
        Module { graph, saved: Some(saved) }
    }

    /// Returns the plans, if they have the type `T`.
    pub(crate) fn saved<T: 'static>(&self) -> Option<&T> {
        self.saved.as_ref()?.downcast_ref()
    }

    /// Returns the module with these values as outputs, in this order. They may be outputs or any other values of the graph, for
    /// example to inspect intermediate results.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownValue`] for a name that no value of the graph has, with the most similar name; [`Error::InsideSubgraph`] for
    /// a value of a loop or a branch, which is computed zero, one or many times in a run.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), bb::Error> {
    /// use bb::ir::proto::{GraphProto, NodeProto, ValueInfoProto};
    /// let text = |text: &str| Some(text.to_owned());
    /// let value = |name| ValueInfoProto { name: text(name), ..Default::default() };
    /// let node = |op, from: &str, to: &str| NodeProto {
    ///     op_type: text(op), input: vec![from.to_owned()], output: vec![to.to_owned()], ..Default::default()
    /// };
    /// let graph = GraphProto {
    ///     input: vec![value("x")], output: vec![value("y")],
    ///     node: vec![node("Neg", "x", "minus"), node("Exp", "minus", "y")], ..Default::default()
    /// };
    /// let module = bb::Module::from_graph(&graph, &[], &[])?.with_outputs(&["minus"])?;
    /// assert_eq!(module.graph().outputs.len(), 1);
    /// let error = module.with_outputs(&["mimus"]).unwrap_err();
    /// let outputs = "its outputs are [\"minus\"], and its other values can be requested too";
    /// assert_eq!(error.to_string(), format!("the graph has no value `mimus`; {outputs}; did you mean `minus`?"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_outputs(&self, names: &[&str]) -> Result<Module, Error> {
        let graph = self.graph();
        let numbers: HashMap<&str, ValueId> = graph
            .values
            .iter()
            .zip(0u32..)
            .filter(|(value, _)| !value.name.is_empty())
            .map(|(value, number)| (value.name.as_str(), ValueId(number)))
            .collect();
        let find = |name: &&str| match numbers.get(name) {
            Some(value) => Ok(*value),
            None => Err(missing(graph, name)),
        };
        let outputs = names.iter().map(find).collect::<Result<_, _>>()?;
        Ok(Module { graph: Arc::new(Graph { outputs, ..graph.clone() }), saved: None })
    }

    /// Returns the checked graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Lists the faults of the model that do not prevent compiling: shapes that contradict inference, which are not used, and
    /// domains that are imported twice or not at all.
    pub fn warnings(&self) -> Vec<Warning> {
        self.graph.warnings()
    }

    pub fn shared(&self) -> Arc<Graph> {
        self.graph.clone()
    }
}

/// Returns the error for a name that no value of the outermost graph has.
fn missing(graph: &Graph, name: &str) -> Error {
    let name = name.to_owned();
    for node in &graph.nodes {
        let mut pending: Vec<&Graph> = node.subgraphs().collect();
        while let Some(inner) = pending.pop() {
            if inner.values.iter().any(|value| value.name == name) {
                return Error::InsideSubgraph { name, node: crate::error::name(graph, node) };
            }
            pending.extend(inner.nodes.iter().flat_map(Node::subgraphs));
        }
    }
    let known = graph.values.iter().map(|value| value.name.as_str()).filter(|known| !known.is_empty());
    let nearest = bb_ir::nearest(&name, known).map(str::to_owned);
    let outputs = graph.outputs.iter().map(|output| graph.name_of(*output).to_owned()).collect();
    Error::UnknownValue { name, nearest, outputs }
}
