//! Where the values of a model part on two backends.

use super::onnx::{Difference, Tolerance, compare_items};
use crate::onnx::Item;
use crate::{BackendRuntime, CompileOptions, Error, Module, TensorData, coverage};
use bb_ir::graph::Graph;
use std::sync::Arc;

/// One result of a node on two backends.
#[derive(Debug)]
pub struct NodeComparison {
    /// The node's name, or its first output's where it has none.
    pub node: String,
    /// The operator.
    pub op: String,
    /// Its domain; empty for `ai.onnx`.
    pub domain: String,
    /// The result's name in the model.
    pub value: String,
    /// What the first backend made, and the second.
    pub made: [Item<TensorData>; 2],
    /// How the second differs from the first; none if it does not.
    pub difference: Option<Difference>,
}

/// Runs a model on two backends with every value kept, and compares the results of each node, in order.
///
/// Each backend goes on with its own values, so whoever follows a node that differs may differ too; the first is where
/// to look. Nodes inside subgraphs are not compared; the node that holds the subgraph is.
///
/// # Errors
///
/// Why a backend could not compile or run the model.
pub fn compare_nodes(
    module: &Module,
    inputs: &[Option<Item<TensorData>>],
    backends: [&Arc<dyn BackendRuntime>; 2],
    tolerance: Tolerance,
) -> Result<Vec<NodeComparison>, Error> {
    let graph = module.graph();
    let open = Module::new(with_every_value(graph));
    let [first, second] = backends;
    let left = values(&open, inputs, first)?;
    let right = values(&open, inputs, second)?;
    let results = graph.nodes.iter().flat_map(|node| node.outputs.iter().flatten().map(move |v| (node, *v)));
    Ok(results
        .zip(left.into_iter().zip(right))
        .map(|((node, value), (left, right))| NodeComparison {
            node: coverage::name(graph, node),
            op: node.op_type.clone(),
            domain: node.domain.clone(),
            value: graph.name_of(value).to_owned(),
            difference: compare_items(&left, &right, tolerance).err(),
            made: [left, right],
        })
        .collect())
}

/// The graph with every result of every node among its outputs.
fn with_every_value(graph: &Graph) -> Graph {
    let outputs = graph.nodes.iter().flat_map(|node| node.outputs.iter().flatten().copied()).collect();
    Graph { outputs, ..graph.clone() }
}

fn values(
    module: &Module,
    inputs: &[Option<Item<TensorData>>],
    on: &Arc<dyn BackendRuntime>,
) -> Result<Vec<Item<TensorData>>, Error> {
    let executable = on.clone().compile(module.clone(), &CompileOptions::default())?;
    let bring = |x: &Option<Item<TensorData>>| {
        x.as_ref().map(|x| x.try_map(&mut |x: &TensorData| on.constant(x))).transpose()
    };
    let inputs = inputs.iter().map(bring).collect::<Result<Vec<_>, Error>>()?;
    let outputs = executable.run_items(&inputs)?;
    outputs.iter().map(|item| item.try_map(&mut |x| on.to_host(x))).collect()
}
