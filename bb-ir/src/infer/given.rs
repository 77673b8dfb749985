//! Types of a graph's values for inputs of given extents.

use super::{Operators, symbolic};
use crate::graph::{Dim, Graph, ValueId, ValueType};
use crate::{Error, Limits};

/// Infers a graph's types anew for inputs of these extents. So it checks, without a run, whether the extents fit.
///
/// Shapes: an entry for an input that is a sequence or an optional is the shape of its tensors. Inputs without an entry
/// stay as declared.
///
/// # Errors
///
/// [`Error::Node`] for a node that cannot run on operands of these extents, [`Error::Several`] for more than one. Errors
/// that depend on extents known only at run time are not found.
pub fn with_shapes(
    graph: &Graph,
    shapes: &[(ValueId, &[usize])],
    operators: Operators,
    limits: &Limits,
) -> Result<Graph, Error> {
    let known = |(input, shape): &(ValueId, &[usize])| {
        (*input, shape.iter().map(|extent| Dim::Known(*extent)).collect::<Vec<_>>())
    };
    let dims: Vec<(ValueId, Vec<Dim>)> = shapes.iter().map(known).collect();
    let (graph, problems) = with_dims(graph, &dims, operators, limits)?;
    if problems.is_empty() { Ok(graph) } else { Err(Error::all(problems)) }
}

/// Infers a graph's types anew for inputs of these extents, which may be symbolic dimensions. Also returns an error for each
/// node that cannot run on these operands; the types of its results are unknown.
///
/// # Errors
///
/// [`Error::Limit`] if that takes more than `limits` allow.
pub fn with_dims(
    graph: &Graph,
    dims: &[(ValueId, Vec<Dim>)],
    operators: Operators,
    limits: &Limits,
) -> Result<(Graph, Vec<Error>), Error> {
    let mut graph = graph.clone();
    for (input, dims) in dims {
        if let Some(value) = graph.values.get_mut(input.index()) {
            give(&mut value.ty, dims);
        }
    }
    let mut problems = Vec::new();
    symbolic::graph(&mut graph, operators, limits, &mut problems)?;
    Ok((graph, problems))
}

fn give(ty: &mut ValueType, extents: &[Dim]) {
    match ty {
        ValueType::Tensor { shape, .. } => *shape = Some(extents.to_vec()),
        ValueType::Sequence(of) | ValueType::Optional(of) => give(of, extents),
        ValueType::Map(..) | ValueType::Unknown => {}
    }
}
