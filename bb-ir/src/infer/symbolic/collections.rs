//! Rules of sequences and optionals, and of branches.

use super::operators::{At, Types, tensor};
use crate::DataType;
use crate::graph::{Attribute, Dim, Graph, ValueType};

/// What is true of both types.
fn either(a: &ValueType, b: &ValueType) -> ValueType {
    match (a, b) {
        (ValueType::Tensor { dtype, shape: left }, ValueType::Tensor { dtype: other, shape: right })
            if dtype == other =>
        {
            let shape = match (left, right) {
                (Some(left), Some(right)) if left.len() == right.len() => {
                    let dim = |(a, b): (&Dim, &Dim)| if a == b { a.clone() } else { Dim::Unknown };
                    Some(left.iter().zip(right).map(dim).collect())
                }
                _ => None,
            };
            tensor(Some(*dtype), shape)
        }
        (ValueType::Sequence(a), ValueType::Sequence(b)) => ValueType::Sequence(Box::new(either(a, b))),
        (a, b) if a == b => a.clone(),
        _ => ValueType::Unknown,
    }
}

/// `If`: what both branches give.
pub(super) fn branches(at: At<'_>) -> Option<Types> {
    let branch = |name| match at.node.attributes.get(name) {
        Some(Attribute::Graph(graph)) => Some(graph),
        _ => None,
    };
    let types = |graph: &Graph| -> Option<Types> {
        graph.outputs.iter().map(|v| graph.values.get(v.index()).map(|v| without_names(&v.ty))).collect()
    };
    let (then, other) = (types(branch("then_branch")?)?, types(branch("else_branch")?)?);
    Some(then.iter().zip(&other).map(|(a, b)| either(a, b)).collect())
}

/// The type without names of extents, which are a subgraph's own.
fn without_names(ty: &ValueType) -> ValueType {
    match ty {
        ValueType::Tensor { dtype, shape: Some(dims) } => {
            let known = |d: &Dim| if matches!(d, Dim::Known(_)) { d.clone() } else { Dim::Unknown };
            tensor(Some(*dtype), Some(dims.iter().map(known).collect()))
        }
        ValueType::Sequence(of) => ValueType::Sequence(Box::new(without_names(of))),
        ValueType::Optional(of) => ValueType::Optional(Box::new(without_names(of))),
        other => other.clone(),
    }
}

pub(super) fn construct(at: At<'_>) -> Option<Types> {
    let mut types = (0..at.node.inputs.len()).map(|i| at.facts.ty(at.node, i));
    let first = types.next()?.clone();
    Some(vec![ValueType::Sequence(Box::new(types.fold(first, |all, ty| either(&all, ty))))])
}

pub(super) fn empty(at: At<'_>) -> Option<Types> {
    let dtype = at.type_attribute("dtype", Some(DataType::F32));
    Some(vec![ValueType::Sequence(Box::new(tensor(dtype, None)))])
}

pub(super) fn at(at: At<'_>) -> Option<Types> {
    match at.facts.ty(at.node, 0) {
        ValueType::Sequence(of) => Some(vec![(**of).clone()]),
        _ => None,
    }
}

pub(super) fn length(at: At<'_>) -> Option<Types> {
    at.one(Some(DataType::I64), Some(Vec::new()))
}

pub(super) fn optional(at: At<'_>) -> Option<Types> {
    if !at.has(0) {
        return None;
    }
    Some(vec![ValueType::Optional(Box::new(at.facts.ty(at.node, 0).clone()))])
}

pub(super) fn has_element(at: At<'_>) -> Option<Types> {
    at.one(Some(DataType::Bool), Some(Vec::new()))
}
