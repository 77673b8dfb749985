//! Traces a whole module as one trace that keeps all operations of families unchanged. Exports start from this trace.

use super::Module;
use super::resolve::Resolved;
use super::segment::{Outcome, SegmentInput, SegmentTrace, Settings, Start, trace};
use crate::Error;
use crate::trace::Varies;
use bb_ir::graph::{Dim, Graph, ValueId, ValueType};
use bb_ir::{DataType, Shape};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A whole module as one trace.
pub struct Complete {
    pub(crate) traced: SegmentTrace,
    /// The inputs without a default, with the extents that the trace is valid for.
    pub(crate) inputs: Vec<(String, Vec<Dim>)>,
    pub(crate) outputs: Vec<String>,
}

/// Traces a module as one segment.
///
/// Shapes: `shapes` maps names of inputs to their extents. Extents that are fixed neither there nor in the model stay symbolic,
/// and are 1 while tracing.
///
/// # Errors
///
/// [`Error::UnknownInput`], [`Error::NoDimension`] and [`Error::DeclaredExtent`] for extents that do not fit the model;
/// [`Error::NoRank`] for an input of unknown rank; [`Error::NotTensor`] for an input or output that is not a tensor;
/// [`Error::NotOneGraph`] if a node ends the segment; errors of lowering.
pub fn complete(module: &Module, shapes: &HashMap<String, Vec<Dim>>) -> Result<Complete, Error> {
    let graph = module.graph();
    let constants: HashSet<ValueId> = graph.constants.iter().map(|(constant, _)| *constant).collect();
    let live: Vec<ValueId> =
        graph.inputs.iter().copied().filter(|value| !constants.contains(value)).collect();
    let names: HashSet<&str> = live.iter().map(|value| graph.name_of(*value)).collect();
    if let Some(name) = shapes.keys().find(|name| !names.contains(name.as_str())) {
        let expected = live.iter().map(|v| graph.name_of(*v).to_owned()).collect();
        return Err(Error::UnknownInput { name: name.clone(), expected });
    }
    let inputs = extents(graph, &live, shapes)?;
    let inputs_known: Vec<SegmentInput> = inputs
        .iter()
        .map(|(dtype, dims)| {
            let shape = dims.iter().map(|d| if let Dim::Known(n) = d { *n } else { 1 }).collect::<Shape>();
            SegmentInput { dtype: *dtype, shape, varies: Varies::Everything, known: None }
        })
        .collect();
    let start = Start { live: live.clone(), ..Start::default() };
    let settings = Settings {
        natives: crate::ext::every_operation(),
        value_bytes: bb_ir::Limits::default().value_bytes,
        fold_bytes: bb_ir::Limits::default().fold_bytes,
        symbolic: false,
        strict: false,
        types: bb_ir::DataTypes::ALL,
    };
    let outcome =
        trace(&Arc::new(Resolved::new(module.planned()?)?), &start, &inputs_known, &None, &settings)?;
    let (traced, end) = match outcome {
        Outcome::Traced(traced, end) => (*traced, end),
        Outcome::Needs(wanted) => {
            let value = live.get(wanted.position).map_or("", |v| graph.name_of(*v));
            return Err(Error::NotConstant { op: "trace".to_owned(), value: value.to_owned() });
        }
    };
    if let Some(node) = end.node(|start| start.node).and_then(|at| traced.resolved.graph.nodes.get(at)) {
        let name = crate::error::name(&traced.resolved.graph, node);
        return Err(Error::NotOneGraph { node: name, op: node.op_type.clone() });
    }
    for &output in graph.outputs.iter().filter(|_| traced.structure.is_some()) {
        if let Some(got) = not_tensor(graph, output) {
            return Err(Error::NotTensor { name: graph.name_of(output).to_owned(), got });
        }
    }
    Ok(Complete {
        inputs: live.iter().zip(inputs).map(|(v, (_, dims))| (graph.name_of(*v).to_owned(), dims)).collect(),
        outputs: graph.outputs.iter().map(|v| graph.name_of(*v).to_owned()).collect(),
        traced,
    })
}

/// Returns the kind of a value that is known not to be a tensor; otherwise `None`.
fn not_tensor(graph: &Graph, value: ValueId) -> Option<&'static str> {
    match graph.values.get(value.index()).map(|v| &v.ty) {
        Some(ValueType::Sequence(_)) => Some("a sequence"),
        Some(ValueType::Optional(_)) => Some("an optional"),
        Some(ValueType::Map(..)) => Some("a map"),
        _ => None,
    }
}

/// Computes the extents of inputs: from `shapes`, from the model, or from a symbol that another input's shape fixes.
fn extents(
    graph: &Graph,
    live: &[ValueId],
    shapes: &HashMap<String, Vec<Dim>>,
) -> Result<Vec<(DataType, Vec<Dim>)>, Error> {
    let mut symbols: HashMap<String, usize> = HashMap::new();
    let mut inputs = Vec::with_capacity(live.len());
    for &value in live {
        let name = graph.name_of(value);
        let ty = graph.values.get(value.index()).map(|v| &v.ty);
        let Some(ValueType::Tensor { dtype, shape }) = ty else {
            let got = not_tensor(graph, value).unwrap_or("of unknown type");
            return Err(Error::NotTensor { name: name.to_owned(), got });
        };
        let dims = match (shapes.get(name), shape) {
            (None, Some(dims)) => dims.clone(),
            (None, None) => return Err(Error::NoRank { input: name.to_owned() }),
            (Some(given), None) => given.clone(),
            (Some(given), Some(declared)) => {
                if declared.len() != given.len() {
                    let (input, rank) = (name.to_owned(), declared.len());
                    return Err(Error::NoDimension { input, dimension: given.len(), rank });
                }
                for (dimension, pair) in declared.iter().zip(given).enumerate() {
                    if let (Dim::Known(declared), Dim::Known(got)) = pair
                        && declared != got
                    {
                        let input = name.to_owned();
                        return Err(Error::DeclaredExtent {
                            input,
                            dimension,
                            declared: *declared,
                            got: *got,
                        });
                    }
                }
                let both = declared.iter().zip(given);
                symbols.extend(both.clone().filter_map(|pair| match pair {
                    (Dim::Symbol(symbol), Dim::Known(extent)) => Some((symbol.clone(), *extent)),
                    _ => None,
                }));
                both.map(|(d, g)| if matches!(g, Dim::Known(_)) { g.clone() } else { d.clone() }).collect()
            }
        };
        inputs.push((*dtype, dims));
    }
    for dim in inputs.iter_mut().flat_map(|(_, dims)| dims) {
        if let Dim::Symbol(symbol) = dim
            && let Some(&extent) = symbols.get(symbol)
        {
            *dim = Dim::Known(extent);
        }
    }
    Ok(inputs)
}
