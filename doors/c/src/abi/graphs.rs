//! The order of the inputs of a graph.

use bb_ir::proto::GraphProto;

/// Returns the names of the inputs of a run, in their order: the inputs of the graph, without initializers that are also inputs.
pub(crate) fn inputs(graph: &GraphProto) -> impl Iterator<Item = &str> {
    let initial: Vec<&str> = graph.initializer.iter().filter_map(|x| x.name.as_deref()).collect();
    let names = graph.input.iter().map(|port| port.name.as_deref().unwrap_or_default());
    names.filter(move |name| !initial.contains(name))
}
