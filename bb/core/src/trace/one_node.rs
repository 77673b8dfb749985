//! Builds graphs of one primitive. Whole-graph backends use them to run single operations.

use super::proto::value_info;
use super::write::{Target, Writer};
use crate::{Error, GraphIdentity};
use bb_ir::DataType;
use bb_ir::graph::Dim;
use bb_ir::op::{Param, Primitive};
use bb_ir::proto::{GraphProto, ValueInfoProto};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A graph of one node, with the names of its inputs and outputs.
#[derive(Debug)]
pub(crate) struct OneNode {
    pub(crate) graph: GraphProto,
    pub(crate) inputs: Vec<String>,
    pub(crate) outputs: Vec<String>,
    /// The identity of a cached graph; `None` for the graph of a constant, which is not cached.
    pub(crate) identity: Option<GraphIdentity>,
}

/// The element types and ranks of the operands of a one-node graph.
type Operands = SmallVec<[(DataType, usize); 3]>;
type Kept = HashMap<(Primitive, Operands), Vec<(Box<[Param<'static>]>, Arc<OneNode>)>>;

/// The maximum number of operand lists with cached one-node graphs, and of cached graphs per operand list.
const KEPT: usize = 4096;

/// Returns the graph of one primitive on operands of these element types and ranks.
///
/// Graphs are cached by operation, operands and parameters.
///
/// # Errors
///
/// [`Error::Ir`] if the parameters do not match the table row.
pub(crate) fn one_node_graph(
    op: Primitive,
    operands: Operands,
    params: &[Param<'_>],
) -> Result<Arc<OneNode>, Error> {
    static GRAPHS: OnceLock<Mutex<Kept>> = OnceLock::new();
    if op == Primitive::Constant {
        return Ok(Arc::new(make(op, &operands, params, None)?));
    }
    let mut graphs = GRAPHS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    if graphs.len() > KEPT {
        graphs.clear();
    }
    let same = graphs.entry((op, operands.clone())).or_default();
    if let Some((_, graph)) = same.iter().find(|(p, _)| p.as_ref() == params) {
        return Ok(graph.clone());
    }
    if same.len() > KEPT {
        same.clear();
    }
    let graph = Arc::new(make(op, &operands, params, Some(GraphIdentity::fresh()))?);
    same.push((params.iter().map(|p| p.clone().into_owned()).collect(), graph.clone()));
    Ok(graph)
}

fn make(
    op: Primitive,
    operands: &Operands,
    params: &[Param<'_>],
    identity: Option<GraphIdentity>,
) -> Result<OneNode, Error> {
    let mut writer = Writer::new(Target::Backend, 0);
    writer.graph.name = Some(op.spec().method.to_owned());
    let inputs: Vec<String> = (0..operands.len()).map(|i| format!("input_{i}")).collect();
    for (name, (dtype, rank)) in inputs.iter().zip(operands) {
        writer.graph.input.push(value_info(name, *dtype, Some(vec![Dim::Unknown; *rank])));
    }
    let parts = match (op, params) {
        (Primitive::Split, [_, Param::Extents(sizes)]) => sizes.len(),
        _ => 1,
    };
    let outputs: Vec<String> = (0..parts).map(|i| format!("output_{i}")).collect();
    writer.operator(op, params, inputs.clone(), outputs.clone())?;
    writer.graph.output = outputs
        .iter()
        .map(|name| ValueInfoProto { name: Some(name.clone()), ..ValueInfoProto::default() })
        .collect();
    Ok(OneNode { graph: writer.graph, inputs, outputs, identity })
}
