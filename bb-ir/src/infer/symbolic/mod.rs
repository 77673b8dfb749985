//! Types of a graph's values before inputs arrive: extents known, named, or unknown.
//!
//! One pass over the nodes fills in what the model does not declare and refuses what it declares
//! wrongly. The contents of small integer tensors are followed too, as most shapes are computed from
//! `Shape`. A node that the rules do not cover leaves its results as they were declared. In subgraphs
//! nothing is refused: a branch that does not fit is usually one that never runs.

mod collections;
mod dims;
mod elements;
mod evaluate;
mod movement;
mod operators;
mod products;
mod rules;
mod windows;

use crate::check::{describe, merge, weight};
use crate::graph::{Attribute, Dim, Graph, Node, ValueId, ValueType};
use crate::limits::Meter;
use crate::{Error, Limits, element_count};
use evaluate::Known;
use std::collections::{HashMap, HashSet};

/// What is known of a graph's values so far.
pub(super) struct Facts {
    types: Vec<ValueType>,
    contents: HashMap<ValueId, Known>,
}

impl Facts {
    /// The type of an operand; `Unknown` if it is left out.
    fn ty(&self, node: &Node, input: usize) -> &ValueType {
        static UNKNOWN: ValueType = ValueType::Unknown;
        let id = node.inputs.get(input).copied().flatten();
        id.and_then(|id| self.types.get(id.index())).unwrap_or(&UNKNOWN)
    }

    /// The contents of an operand, as far as they are known.
    fn contents(&self, node: &Node, input: usize) -> Option<&Known> {
        self.contents.get(&node.inputs.get(input).copied().flatten()?)
    }
}

/// Fills in the types of a checked graph's values.
///
/// # Errors
///
/// [`Error::Node`] if a node cannot run on operands of the types known; [`Error::Type`] if a declared
/// type contradicts what a node produces; [`Error::Node`] with [`Error::TooLarge`] if a value is known
/// to take more bytes than one tensor may.
pub(crate) fn graph(graph: &mut Graph, limits: &Limits) -> Result<(), Error> {
    pass(graph, &mut Meter::new(limits), HashMap::new(), true)
}

fn pass(
    graph: &mut Graph,
    meter: &mut Meter<'_>,
    captured: HashMap<ValueId, Known>,
    strict: bool,
) -> Result<(), Error> {
    let mut facts = Facts { types: graph.values.iter().map(|v| v.ty.clone()).collect(), contents: captured };
    let inputs: HashSet<ValueId> = graph.inputs.iter().copied().collect();
    for (id, data) in &graph.constants {
        // A caller may override an initializer that is also an input.
        if !inputs.contains(id)
            && let Some(known) = Known::of(data)
        {
            facts.contents.insert(*id, known);
        }
    }
    for (at, node) in graph.nodes.iter_mut().enumerate() {
        subgraphs(node, &facts, meter)?;
        let results = rules::results(node, &facts).and_then(|types| {
            types.iter().try_for_each(|ty| bounded(ty, meter.limits.tensor_bytes))?;
            Ok(types)
        });
        let types = match results {
            Ok(types) => types,
            Err(_) if !strict => continue,
            Err(source) => return Err(at_node(node, at, source)),
        };
        for (output, ty) in node.outputs.iter().zip(types) {
            let Some(id) = output else { continue };
            meter.text(weight(&ty))?;
            let Some(slot) = facts.types.get_mut(id.index()) else {
                continue;
            };
            match merge(slot, &ty) {
                Some(both) => *slot = both,
                None if !strict => {}
                None => {
                    let value = graph.values.get(id.index()).map_or("", |v| &v.name);
                    return Err(Error::Type {
                        value: value.to_owned(),
                        declared: describe(slot),
                        found: describe(&ty),
                    });
                }
            }
        }
        if let (Some(known), Some(Some(id))) = (evaluate::node(node, &facts), node.outputs.first()) {
            meter.text(known.weight())?;
            facts.contents.insert(*id, known);
        }
    }
    for (value, ty) in graph.values.iter_mut().zip(&facts.types) {
        value.ty.clone_from(ty);
    }
    Ok(())
}

/// Infers the types in a node's subgraphs, and from branches those of the node.
fn subgraphs(node: &mut Node, facts: &Facts, meter: &mut Meter<'_>) -> Result<(), Error> {
    for attribute in node.attributes.values_mut() {
        let graphs: &mut [Graph] = match attribute {
            Attribute::Graph(g) => std::slice::from_mut(g),
            Attribute::Graphs(g) => g,
            _ => continue,
        };
        for graph in graphs {
            let mut contents = HashMap::new();
            for (outer, inner) in &graph.captures {
                if let (Some(ty), Some(value)) =
                    (facts.types.get(outer.index()), graph.values.get_mut(inner.index()))
                {
                    meter.text(weight(ty))?;
                    value.ty.clone_from(ty);
                }
                if let Some(known) = facts.contents.get(outer) {
                    meter.text(known.weight())?;
                    contents.insert(*inner, known.clone());
                }
            }
            pass(graph, meter, contents, false)?;
        }
    }
    Ok(())
}

/// Refuses a value that is known to take more than `limit` bytes.
fn bounded(ty: &ValueType, limit: usize) -> Result<(), Error> {
    let ValueType::Tensor { dtype, shape: Some(dims) } = ty else {
        return Ok(());
    };
    let Some(shape) = dims::concrete(dims) else {
        return Ok(());
    };
    let elements = element_count(&shape);
    match elements.and_then(|n| n.checked_mul(dtype.bits().max(8) / 8)) {
        Some(bytes) if bytes <= limit => Ok(()),
        _ => Err(Error::TooLarge { dtype: *dtype, shape: shape.into_boxed_slice(), limit }),
    }
}

fn at_node(node: &Node, at: usize, source: Error) -> Error {
    let label = match node.name.as_str() {
        "" => format!("{} #{at}", node.op_type),
        name => name.to_owned(),
    };
    Error::Node { node: label, op: node.op_type.clone(), source: Box::new(source) }
}

/// The extents of a tensor type.
fn shape_of(ty: &ValueType) -> Option<&[Dim]> {
    match ty {
        ValueType::Tensor { shape, .. } => shape.as_deref(),
        _ => None,
    }
}
