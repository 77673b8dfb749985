//! Infers the results of nodes that have subgraphs from the types in the subgraphs.
//!
//! The types that a subgraph declares for its inputs are only claims, because the node's operands are not compared with them.
//! Names of extents come from the enclosing graphs, through the operands and the captured values.

use super::at::{NodeFacts, Types, axis, either, tensor};
use super::contents::{Contents, Entry, weight as weight_of};
use super::dims::told;
use super::{Facts, Work, pass, shape_of};
use crate::graph::{Attribute, Dim, Graph, Node, ValueId, ValueType};
use crate::graph::{merge, weight};
use crate::infer::{ControlFlow, Rule};
use crate::infer::{Extent, current};
use crate::{DataType, Error};
use std::collections::{HashMap, HashSet};

/// The facts that are known about results.
pub(super) struct Body {
    pub(super) types: Types,
    pub(super) contents: Vec<Option<Contents>>,
}

impl Body {
    fn of(types: Types) -> Option<Body> {
        Some(Body { types, contents: Vec::new() })
    }
}

/// The maximum number of passes over a loop's body. After that, extents that still change become unknown.
const ITERATIONS: usize = 3;

/// Returns the facts about a node's results that follow from its subgraphs; `None` if the node is not control flow.
pub(super) fn results(
    rule: Option<Rule>,
    node: &mut Node,
    facts: &Facts,
    work: &mut Work<'_, '_>,
) -> Result<Option<Body>, Error> {
    if !node.attributes.iter().any(|(_, a)| matches!(a, Attribute::Graph(_) | Attribute::Graphs(_))) {
        return Ok(None);
    }
    match rule {
        Some(Rule::ControlFlow(ControlFlow::If)) => branches(node, facts, work),
        Some(Rule::ControlFlow(ControlFlow::Loop)) => repeated(node, facts, work),
        Some(Rule::ControlFlow(ControlFlow::Scan)) => scanned(node, facts, work),
        Some(Rule::ControlFlow(ControlFlow::SequenceMap)) => mapped(node, facts, work),
        _ => alone(node, facts, work).map(|()| None),
    }
}

/// Infers the types in a node's subgraphs, without any facts about the inputs of the subgraphs.
fn alone(node: &mut Node, facts: &Facts, work: &mut Work<'_, '_>) -> Result<(), Error> {
    for attribute in node.attributes.values_mut() {
        let graphs: &mut [Graph] = match attribute {
            Attribute::Graph(g) => std::slice::from_mut(g),
            Attribute::Graphs(g) => g,
            _ => continue,
        };
        for graph in graphs {
            infer(graph, facts, work, &[], &[])?;
        }
    }
    Ok(())
}

/// Infers a subgraph whose inputs have these types and, if known, these contents. Returns the facts about its outputs.
fn infer(
    graph: &mut Graph,
    outer: &Facts,
    work: &mut Work<'_, '_>,
    given: &[ValueType],
    known: &[(usize, Contents)],
) -> Result<Body, Error> {
    if !work.keep {
        work.again = work.again.saturating_sub(graph.values.len());
    }
    let mut facts = Facts {
        types: graph.values.iter().map(|v| v.ty.clone()).collect(),
        contents: HashMap::new(),
        extents: HashSet::new(),
    };
    for (from, to) in &graph.captures {
        let ty = outer.of(*from);
        work.meter.text(weight(ty))?;
        if let Some(slot) = facts.types.get_mut(to.index()) {
            slot.clone_from(ty);
        }
        if let Some(contents) = outer.contents.get(from) {
            work.meter.text(weight_of(contents))?;
            facts.contents.insert(*to, contents.clone());
        }
        for dim in shape_of(ty).unwrap_or_default() {
            if let Dim::Computed(formula) = dim
                && outer.is_extent(formula)
            {
                facts.extents.insert((**formula).clone());
            }
        }
    }
    for (id, ty) in graph.inputs.iter().zip(given) {
        work.meter.text(weight(ty))?;
        if let Some(slot) = facts.types.get_mut(id.index()) {
            *slot = merge(slot, ty).unwrap_or_else(|| ty.clone());
        }
    }
    for (input, contents) in known {
        if let Some(id) = graph.inputs.get(*input) {
            facts.contents.insert(*id, contents.clone());
        }
    }
    pass(graph, &mut facts, work, false)?;
    if work.keep {
        for (value, ty) in graph.values.iter_mut().zip(&facts.types) {
            value.ty.clone_from(ty);
        }
    }
    Ok(Body {
        types: graph.outputs.iter().map(|id| facts.of(*id).clone()).collect(),
        contents: graph.outputs.iter().map(|id| facts.contents.get(id).cloned()).collect(),
    })
}

/// Infers the subgraph of a node in the attribute `name`, if it exists.
fn named(
    node: &mut Node,
    name: &str,
    facts: &Facts,
    work: &mut Work<'_, '_>,
    given: &[ValueType],
    known: &[(usize, Contents)],
) -> Result<Option<Body>, Error> {
    match node.attributes.get_mut(name) {
        Some(Attribute::Graph(graph)) => infer(graph, facts, work, given, known).map(Some),
        _ => Ok(None),
    }
}

/// Infers an `If`: returns the facts that both branches share, or the facts of the branch that a known condition selects.
fn branches(node: &mut Node, facts: &Facts, work: &mut Work<'_, '_>) -> Result<Option<Body>, Error> {
    let condition = facts.contents(node, 0).and_then(Contents::only).and_then(Entry::int);
    let then = named(node, "then_branch", facts, work, &[], &[])?;
    let other = named(node, "else_branch", facts, work, &[], &[])?;
    let (Some(then), Some(other)) = (then, other) else { return Ok(None) };
    Ok(match condition {
        Some(0) => Some(other),
        Some(_) => Some(then),
        None => Body::of(then.types.iter().zip(&other.types).map(|(a, b)| either(a, b)).collect()),
    })
}

/// The types of the values that a loop's body passes from one iteration to the next, as far as they are the same in every
/// iteration. The body's outputs from index `first` on are the next iteration's values. The body's inputs are `before`, then
/// these values, then `after`.
struct Carried<'a> {
    first: usize,
    before: &'a [ValueType],
    after: &'a [ValueType],
    known: &'a [(usize, Contents)],
    /// Whether extents must be the same in every iteration.
    constant: bool,
}

impl Carried<'_> {
    /// Returns the type that is valid before and after an iteration.
    fn joined(&self, was: &ValueType, is: &ValueType) -> ValueType {
        let same = if self.constant { merge(was, is) } else { None };
        same.unwrap_or_else(|| either(was, is))
    }

    /// Returns the element types that the body declares for the carried values.
    fn declared(&self, node: &Node) -> Vec<ValueType> {
        let Some(Attribute::Graph(graph)) = node.attributes.get("body") else { return Vec::new() };
        let inputs = graph.inputs.iter().skip(self.before.len());
        let ty = |id: &ValueId| graph.values.get(id.index()).map_or(ValueType::Unknown, |v| v.ty.clone());
        inputs.map(ty).collect()
    }

    /// Returns the types that are valid in every iteration, and the facts about the results of an iteration.
    fn settle(
        &self,
        node: &mut Node,
        facts: &Facts,
        work: &mut Work<'_, '_>,
        mut state: Vec<ValueType>,
    ) -> Result<Option<(Vec<ValueType>, Body)>, Error> {
        let count = state.len();
        // The element types that the body declares for its inputs also apply to the initial values.
        for (state, declared) in state.iter_mut().zip(self.declared(node)) {
            if let Some(both) = merge(state, &declared) {
                *state = both;
            }
        }
        let keep = std::mem::replace(&mut work.keep, false);
        let mut settled = count == 0;
        for iteration in 0..=2 * ITERATIONS {
            if settled || work.again == 0 {
                break;
            }
            work.again -= 1;
            let given = [self.before, &state, self.after].concat();
            let Some(body) = named(node, "body", facts, work, &given, self.known)? else { break };
            let next = body.types.iter().skip(self.first).take(count);
            let next: Vec<ValueType> = state
                .iter()
                .zip(next)
                .map(|(was, is)| match self.joined(was, is) {
                    both if both == *was => both,
                    both if iteration < ITERATIONS => both,
                    ValueType::Tensor { dtype, .. } if iteration < 2 * ITERATIONS => {
                        tensor(Some(dtype), None)
                    }
                    _ => ValueType::Unknown,
                })
                .collect();
            settled = next == state;
            state = next;
        }
        work.keep = keep;
        if !settled {
            state = vec![ValueType::Unknown; count];
        }
        let given = [self.before, &state, self.after].concat();
        let body = named(node, "body", facts, work, &given, self.known)?;
        Ok(body.map(|body| (state, body)))
    }
}

/// Returns the type with another extent inserted as dimension `at` of the result.
fn stacked(ty: &ValueType, extent: &Dim, at: i64) -> ValueType {
    match ty {
        ValueType::Tensor { dtype, shape } => {
            let shape = shape.as_ref().and_then(|dims| {
                let mut dims = dims.clone();
                dims.insert(axis(at, dims.len() + 1)?, extent.clone());
                Some(dims)
            });
            tensor(Some(*dtype), shape)
        }
        _ => ValueType::Unknown,
    }
}

/// Infers a `Loop`, whose results are the carried values, followed by the stacked values of all iterations.
fn repeated(node: &mut Node, facts: &Facts, work: &mut Work<'_, '_>) -> Result<Option<Body>, Error> {
    let scalar = |dtype| tensor(Some(dtype), Some(Vec::new()));
    let given = node.inputs.get(1).is_some_and(Option::is_some);
    // The condition is a carried value too. Without a condition, the first iteration receives a scalar.
    let condition = if given { facts.ty(node, 1).clone() } else { scalar(DataType::Bool) };
    let operands = (2..node.inputs.len()).map(|input| facts.ty(node, input).clone());
    let operands: Vec<ValueType> = std::iter::once(condition).chain(operands).collect();
    let count = operands.len();
    // In every iteration that runs, the condition is true.
    let holds =
        Contents { dtype: DataType::Bool, shape: shape_of_scalar(facts, node), entries: vec![1.into()] };
    let carried = Carried {
        first: 0,
        before: &[scalar(DataType::I64)],
        after: &[],
        known: &[(1, holds)],
        constant: false,
    };
    let Some((state, body)) = carried.settle(node, facts, work, operands)? else { return Ok(None) };
    let at = NodeFacts { node, facts };
    let condition = |contents: Option<&Contents>| contents.and_then(Contents::only).and_then(Entry::int);
    let begins = if at.has(1) { condition(at.contents(1)) } else { Some(1) };
    let goes_on = condition(body.contents.first().and_then(Option::as_ref));
    // An unrealistic number of iterations is treated as unknown.
    let taken = |n: Dim| if matches!(n, Dim::Known(n) if n > i32::MAX as usize) { Dim::Unknown } else { n };
    let limit = at.has(0).then(|| taken(at.extent_or_less(0)));
    let iterations = match (begins, goes_on, limit) {
        (Some(0), _, _) => Dim::Known(0),
        (Some(1), Some(1), Some(limit)) => limit,
        (Some(1), Some(0), Some(limit)) => told(Extent::min(&limit, &Dim::Known(1))),
        (Some(1), Some(0), None) => Dim::Known(1),
        _ => Dim::Unknown,
    };
    let collected = body.types.iter().skip(count).map(|ty| stacked(ty, &iterations, 0));
    Ok(Body::of(state.into_iter().skip(1).chain(collected).collect()))
}

/// Returns the shape of a condition, which has one element and rank 0 or 1.
fn shape_of_scalar(facts: &Facts, node: &Node) -> crate::Shape {
    shape_of(facts.ty(node, 1)).and_then(current).filter(|s| s.len() <= 1).unwrap_or_default()
}

/// Infers a `Scan`, whose results are the states, followed by the stacked results of all steps.
fn scanned(node: &mut Node, facts: &Facts, work: &mut Work<'_, '_>) -> Result<Option<Body>, Error> {
    let at = NodeFacts { node, facts };
    let Some(scans) = at.int("num_scan_inputs", 0).and_then(|n| usize::try_from(n).ok()) else {
        return Ok(None);
    };
    // In the first version, an operand with lengths precedes the other operands, and tensors have a batch dimension before the
    // scanned dimension.
    let batched = at.node.opset < 9;
    let operands = at.node.inputs.get(usize::from(batched)..).unwrap_or_default();
    let Some(states) = operands.len().checked_sub(scans) else { return Ok(None) };
    let mut batch = Dim::Unknown;
    let mut unbatched = |ty: &ValueType| match ty {
        ValueType::Tensor { dtype, shape } if batched => {
            let rest = shape.as_deref().and_then(|dims| dims.split_first()).map(|(n, rest)| {
                batch = told(batch.agreed(n));
                rest.to_vec()
            });
            tensor(Some(*dtype), rest)
        }
        other => other.clone(),
    };
    let types: Vec<ValueType> =
        operands.iter().map(|id| unbatched(id.map_or(&ValueType::Unknown, |id| facts.of(id)))).collect();
    let (state, scanned) = types.split_at(states.min(types.len()));
    let axes = |name: &str, i: usize| at.ints(name).and_then(|axes| axes.get(i).copied()).unwrap_or(0);
    let mut steps = Dim::Unknown;
    let elements: Vec<ValueType> = scanned
        .iter()
        .enumerate()
        .map(|(i, ty)| match ty {
            ValueType::Tensor { dtype, shape } => {
                let shape = shape.as_ref().and_then(|dims| {
                    let mut dims = dims.clone();
                    let axis = axis(axes("scan_input_axes", i), dims.len())?;
                    steps = told(steps.agreed(&dims.remove(axis)));
                    Some(dims)
                });
                tensor(Some(*dtype), shape)
            }
            _ => ValueType::Unknown,
        })
        .collect();
    let state = state.to_vec();
    let carried = Carried { first: 0, before: &[], after: &elements, known: &[], constant: true };
    let Some((state, body)) = carried.settle(node, facts, work, state)? else { return Ok(None) };
    let at = NodeFacts { node, facts };
    let axes = |i: usize| at.ints("scan_output_axes").and_then(|axes| axes.get(i).copied()).unwrap_or(0);
    let collected = body.types.iter().skip(state.len()).enumerate();
    let collected: Vec<ValueType> = collected.map(|(i, ty)| stacked(ty, &steps, axes(i))).collect();
    let all = state.iter().chain(&collected);
    Ok(Body::of(if batched {
        all.map(|ty| stacked(ty, &batch, 0)).collect()
    } else {
        all.cloned().collect()
    }))
}

/// Infers a `SequenceMap`, whose results are sequences of the body's results for each item.
fn mapped(node: &mut Node, facts: &Facts, work: &mut Work<'_, '_>) -> Result<Option<Body>, Error> {
    let given: Vec<ValueType> = (0..node.inputs.len())
        .map(|input| match facts.ty(node, input) {
            ValueType::Sequence(of) => (**of).clone(),
            other => other.clone(),
        })
        .collect();
    let body = named(node, "body", facts, work, &given, &[])?;
    let sequence = |ty| ValueType::Sequence(Box::new(ty));
    Ok(body.and_then(|body| Body::of(body.types.into_iter().map(sequence).collect())))
}
