//! Infers the types of a graph's values for specific input shapes.

use super::{Operators, symbolic};
use crate::graph::{Dim, Graph, ValueId, ValueType};
use crate::{Error, Limits};

/// Infers a graph's types again for inputs of these shapes. So it checks, without a run, whether the graph can run on them.
///
/// Shapes: if an input is a sequence or an optional, its entry is the shape of the tensors in it. Inputs without an entry
/// keep their declared types.
///
/// # Errors
///
/// [`Error::Node`] for a node that cannot run on operands of these shapes; [`Error::Several`] for several nodes. Errors that
/// depend on extents that are known only at run time are not found.
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

/// Infers a graph's types again for inputs with these extents, which may be symbolic dimensions. Also returns an error for
/// each node that cannot run on these operands; the types of its results are unknown.
///
/// # Errors
///
/// [`Error::Limit`] if the inference exceeds `limits`.
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
