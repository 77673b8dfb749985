//! Infers the types of a graph's values before inputs arrive. Extents are known, symbolic, or unknown.
//!
//! One pass over the nodes infers the facts that follow from the graph's inputs and constants. The model's claims about other
//! values are ignored, except element types, which are used if no rule determines them; see
//! [`Warning`](crate::graph::Warning). The contents of small integer tensors are evaluated too, because most shapes are
//! computed from `Shape`. In subgraphs, nodes that cannot run are not errors, because a branch that does not match usually
//! never runs.

mod at;
mod contents;
mod control;
mod dims;
mod evaluate;
mod parts;
mod rules;

pub use at::{NodeFacts, Types, axis, either, tensor};
pub use contents::{Contents, Entry};
pub use dims::{divided, extent, known, product, scaled, shifted, sum, told};

use super::current;
use crate::graph::{Dim, DimExpr, Graph, Node, ValueId, ValueType};
use crate::graph::{merge, weight};
use crate::infer::Operators;
use crate::limits::Meter;
use crate::opset::{Lookup, lookup};
use crate::pace::ask;
use crate::{Error, Limits, element_count};
use control::Body;
use std::collections::{HashMap, HashSet};

/// The facts about a graph's values that are known so far.
#[derive(Debug)]
pub(super) struct Facts {
    types: Vec<ValueType>,
    contents: HashMap<ValueId, Contents>,
    /// Expressions that are known to be extents, and therefore not negative.
    extents: HashSet<DimExpr>,
}

impl Facts {
    /// Returns the type of an operand; `Unknown` if it is absent.
    fn ty(&self, node: &Node, input: usize) -> &ValueType {
        let id = node.inputs.get(input).copied().flatten();
        id.map_or(&ValueType::Unknown, |id| self.of(id))
    }

    fn of(&self, id: ValueId) -> &ValueType {
        self.types.get(id.index()).unwrap_or(&ValueType::Unknown)
    }

    /// Returns the contents of an operand, as far as they are known.
    fn contents(&self, node: &Node, input: usize) -> Option<&Contents> {
        self.contents.get(&node.inputs.get(input).copied().flatten()?)
    }

    /// Returns whether an expression is known to be an extent, which is not negative.
    fn is_extent(&self, formula: &DimExpr) -> bool {
        self.extents.contains(formula)
    }
}

/// The limits and the options of a pass.
struct Work<'m, 'l> {
    operators: Operators,
    meter: &'m mut Meter<'l>,
    /// The number of nodes and values that may still be visited again.
    again: usize,
    /// The number of entries of contents that may still be computed. A dim expression counts once for each of its parts.
    follow: usize,
    /// Whether the inferred types are written to the graphs; false while the types in a loop are not settled.
    keep: bool,
    /// The errors of nodes that cannot run.
    problems: &'m mut Vec<Error>,
}

/// Infers the types of a checked graph's values. Nodes that cannot run on operands of the known types are added to `problems`.
///
/// # Errors
///
/// [`Error::Type`] if a declared element type contradicts the type of a node's result; [`Error::Node`] with
/// [`Error::TooLarge`] if a value is known to exceed the size limit of a tensor.
pub(crate) fn graph(
    graph: &mut Graph,
    operators: Operators,
    limits: &Limits,
    problems: &mut Vec<Error>,
) -> Result<(), Error> {
    let mut work = Work {
        operators,
        meter: &mut Meter::new(limits),
        again: 500_000,
        follow: 2_000_000,
        keep: true,
        problems,
    };
    let mut facts = Facts {
        types: graph.values.iter().map(|v| v.ty.clone()).collect(),
        contents: HashMap::new(),
        extents: HashSet::new(),
    };
    pass(graph, &mut facts, &mut work, true)?;
    for (value, ty) in graph.values.iter_mut().zip(facts.types) {
        value.ty = ty;
    }
    Ok(())
}

/// Infers the facts about a graph's values. In the outermost graph, contradictions are errors.
fn pass(graph: &mut Graph, facts: &mut Facts, work: &mut Work<'_, '_>, outermost: bool) -> Result<(), Error> {
    let inputs: HashSet<ValueId> = graph.inputs.iter().copied().collect();
    for (id, data) in &graph.constants {
        // The contents are not known if a caller may override the initializer, because it is also an input.
        if !inputs.contains(id)
            && let Some(known) = Contents::of(data)
        {
            facts.contents.insert(*id, known);
        }
    }
    for id in &graph.inputs {
        if let Some(nothing) = contents::nothing(facts.of(*id)) {
            facts.contents.entry(*id).or_insert(nothing);
        }
    }
    for (at, node) in graph.nodes.iter_mut().enumerate() {
        ask();
        if !work.keep {
            work.again = work.again.saturating_sub(1);
        }
        let rule = work.operators.rule(node);
        if rule.is_none() && lookup(&node.domain, &node.op_type, node.opset) == Lookup::Missing {
            // This is a user's own operator, so only the model's declarations describe its results.
            continue;
        }
        let body = control::results(rule, node, facts, work)?;
        let results = match body {
            Some(body) => Ok(body),
            None => rule
                .map_or_else(|| Ok(Types::new()), |rule| at::results(rule, node, facts))
                .map(|types| Body { types, contents: Vec::new() }),
        };
        let results = results.and_then(|found| {
            found.types.iter().try_for_each(|ty| bounded(ty, work.meter.limits.tensor_bytes))?;
            Ok(found)
        });
        let mut found = match results {
            Ok(found) => found,
            Err(_) if !outermost => continue,
            Err(source) => {
                work.problems.push(at_node(node, at, source));
                continue;
            }
        };
        for (output, ty) in node.outputs.iter().zip(found.types) {
            let Some(id) = output else { continue };
            work.meter.text(weight(&ty))?;
            let Some(slot) = facts.types.get_mut(id.index()) else { continue };
            match merge(slot, &ty) {
                Some(both) => *slot = both,
                None if !outermost => *slot = ty,
                None => {
                    let value = graph.values.get(id.index()).map_or("", |v| &v.name);
                    return Err(Error::Type {
                        value: value.to_owned(),
                        declared: slot.to_string(),
                        found: ty.to_string(),
                    });
                }
            }
            for dim in shape_of(slot).unwrap_or_default() {
                if let Dim::Computed(formula) = dim
                    && !formula.at_least(0)
                {
                    facts.extents.insert((**formula).clone());
                }
            }
        }
        if found.contents.is_empty() {
            let types: Vec<&ValueType> =
                node.outputs.iter().map(|id| id.map_or(&ValueType::Unknown, |id| facts.of(id))).collect();
            let operands = (0..node.inputs.len()).filter_map(|i| facts.contents(node, i));
            let cost = operands.map(|c| contents::weight(c) / 32).sum::<usize>();
            if cost <= work.follow {
                work.follow -= cost;
                found.contents = evaluate::node(NodeFacts { node, facts }, &types);
            }
        }
        for (known, output) in found.contents.into_iter().zip(&node.outputs) {
            if let (Some(known), Some(id)) = (known, output) {
                work.meter.text(contents::weight(&known))?;
                facts.contents.insert(*id, known);
            }
        }
    }
    Ok(())
}

/// Returns an error if a value is known to take more than `limit` bytes.
fn bounded(ty: &ValueType, limit: usize) -> Result<(), Error> {
    let ValueType::Tensor { dtype, shape: Some(dims) } = ty else {
        return Ok(());
    };
    let Some(shape) = current(dims) else {
        return Ok(());
    };
    let elements = element_count(&shape);
    match elements.and_then(|n| n.checked_mul(dtype.bits().max(8) / 8)) {
        Some(bytes) if bytes <= limit => Ok(()),
        _ => {
            let (shape, name) = (shape.into_boxed_slice(), Some("tensor_bytes"));
            Err(Error::TooLarge { dtype: *dtype, shape, limit, name })
        }
    }
}

fn at_node(node: &Node, at: usize, source: Error) -> Error {
    let label = match node.name.as_str() {
        "" => format!("{} #{at}", node.op_type),
        name => name.to_owned(),
    };
    Error::Node { node: label, op: node.op_type.clone(), source: Box::new(source) }
}

/// Returns the extents of a tensor type.
fn shape_of(ty: &ValueType) -> Option<&[Dim]> {
    match ty {
        ValueType::Tensor { shape, .. } => shape.as_deref(),
        _ => None,
    }
}
