//! Estimates the costs of nodes and transfers before anything runs.
//!
//! Times are computed from [`cost`](crate::cost), and from rates that hold for any processor within a factor of a few. The estimate
//! must only show that a product costs more than a transfer, and a sum of two small tensors less.

use super::FirstOf;
use crate::look::Looked;
use crate::services::DeviceKind;
use crate::{Capabilities, Module};
use bb_core::error::How;
use bb_ir::graph::{Dim, Graph, ValueId, ValueType};
use std::collections::HashMap;

/// The operations on numbers that a backend does in a second.
const FLOPS: f64 = 5e10;
/// The bytes that a backend reads or writes in a second.
const BYTES: f64 = 1e10;
/// The bytes that move to a device, or from it, in a second.
const MOVED: f64 = 3e9;
/// The fixed cost of a transfer to a device, or from it.
///
/// Units: seconds.
const TRANSFER: f64 = 2e-5;
/// The fixed cost of a transfer between backends in the memory of the host.
///
/// Units: seconds.
const COPY: f64 = 2e-6;
/// The minimum cost of a node.
///
/// Units: seconds.
const LEAST: f64 = 1e-6;
/// The cost of a lowered node, relative to a native one.
const LOWERED: f64 = 3.0;
/// The assumed value of an extent that depends on inputs.
const EXTENT: i64 = 32;

/// The cost of each node on each backend, and the cost of moving each value.
pub(super) struct Weights {
    /// For each backend, the seconds of each node; infinite where the backend does not run it.
    pub(super) nodes: Vec<Vec<f64>>,
    /// For each value, its bytes.
    values: Vec<f64>,
    /// For each backend, whether its memory is separate from the host's.
    remote: Vec<bool>,
}

impl Weights {
    /// Weighs a graph; `looked` has the analysis for each backend.
    pub(super) fn of(module: &Module, on: &FirstOf, looked: &[Vec<Looked>]) -> Weights {
        let graph = module.graph();
        let sizes: Vec<f64> = graph.values.iter().map(|value| bytes(&value.ty)).collect();
        let transfers: Vec<f64> = sizes.iter().map(|bytes| TRANSFER + bytes / MOVED).collect();
        let is_remote = |has: &Capabilities| {
            matches!(has.device.kind, DeviceKind::Gpu | DeviceKind::Accelerator | DeviceKind::Remote)
        };
        let remote: Vec<bool> = on.capabilities().iter().map(is_remote).collect();
        let own = own_costs(module, on, &sizes);
        let nodes = remote.iter().zip(looked).enumerate().map(|(rank, (&remote, looked))| {
            // The order of the backends says which is faster.
            let slower = f64::from(1u32 << rank.min(16));
            let seconds = |(at, looked): (usize, &Looked)| {
                if !looked.missing.is_empty() {
                    return f64::INFINITY;
                }
                let own = own.get(at).copied().unwrap_or(LEAST) * slower;
                match looked.how {
                    How::Native => own,
                    How::Lowered(_) => own * LOWERED,
                    // A node that the host computes moves its operands off the device and its results back.
                    How::Host if remote => own * LOWERED + around(graph, at, &transfers),
                    How::Host => own * LOWERED,
                    How::Unsupported => f64::INFINITY,
                }
            };
            looked.iter().enumerate().map(seconds).collect()
        });
        let mut nodes: Vec<Vec<f64>> = nodes.collect();
        only_exact(&mut nodes, looked);
        Weights { nodes, values: sizes, remote }
    }

    /// Returns the seconds of a node on a backend.
    pub(super) fn node(&self, backend: usize, at: usize) -> f64 {
        self.nodes.get(backend).and_then(|nodes| nodes.get(at)).copied().unwrap_or(f64::INFINITY)
    }

    /// Returns the seconds that a value takes from one backend to another.
    pub(super) fn transfer(&self, value: ValueId, from: usize, to: usize) -> f64 {
        let bytes = self.values.get(value.index()).copied().unwrap_or(0.0);
        let is_remote = |at: usize| self.remote.get(at) == Some(&true);
        match is_remote(from) || is_remote(to) {
            true => TRANSFER + bytes / MOVED,
            false => COPY + bytes / BYTES,
        }
    }
}

/// Leaves a node whose results may leave the range of the types that a backend has to the backends that have its types, if there are any.
fn only_exact(nodes: &mut [Vec<f64>], looked: &[Vec<Looked>]) {
    let is_exact = |looked: &Looked| looked.exceeding.is_empty() && looked.missing.is_empty();
    for at in 0..nodes.first().map_or(0, Vec::len) {
        let exact: Vec<bool> = looked.iter().map(|looked| looked.get(at).is_some_and(is_exact)).collect();
        if !exact.contains(&true) {
            continue;
        }
        for (nodes, _) in nodes.iter_mut().zip(exact).filter(|(_, exact)| !exact) {
            if let Some(seconds) = nodes.get_mut(at) {
                *seconds = f64::INFINITY;
            }
        }
    }
}

/// Returns the transfers of all operands and results of a node.
fn around(graph: &Graph, at: usize, transfers: &[f64]) -> f64 {
    let Some(node) = graph.nodes.get(at) else { return 0.0 };
    let values = node.reads().chain(node.outputs.iter().flatten().copied());
    values.filter_map(|value| transfers.get(value.index())).sum()
}

/// Returns the seconds of each node on a backend that has it natively.
fn own_costs(module: &Module, on: &FirstOf, sizes: &[f64]) -> Vec<f64> {
    let graph = module.graph();
    let mut costs: Vec<f64> = Vec::with_capacity(graph.nodes.len());
    let mut at_of: HashMap<String, usize> = HashMap::with_capacity(graph.nodes.len());
    for (at, node) in graph.nodes.iter().enumerate() {
        let moved = node.reads().chain(node.outputs.iter().flatten().copied());
        let moved: f64 = moved.filter_map(|value| sizes.get(value.index())).sum();
        costs.push(LEAST.max(moved / BYTES));
        at_of.insert(bb_core::error::name(graph, node), at);
    }
    let natives = on.capabilities().first().map_or(&[][..], |first| first.families.as_slice());
    // A node without an estimate costs the time to read its operands and write its results.
    let Ok(estimate) = module.estimate(&shapes(graph), natives) else { return costs };
    let mut counted: HashMap<usize, f64> = HashMap::new();
    for node in &estimate.nodes {
        let Some(at) = outermost(&node.node.path, &at_of) else { continue };
        let flops = node.cost.flops.map_or(0.0, |flops| flops as f64 / FLOPS);
        let bytes = node.cost.bytes().map_or(0.0, |bytes| bytes as f64 / BYTES);
        *counted.entry(at).or_default() += flops.max(bytes);
    }
    for (at, seconds) in counted {
        if let Some(cost) = costs.get_mut(at) {
            *cost = seconds.max(LEAST);
        }
    }
    costs
}

/// Finds the node of the outermost graph in a path of names. The names are separated by `/` and may contain it.
fn outermost(path: &str, at_of: &HashMap<String, usize>) -> Option<usize> {
    let mut name = path;
    loop {
        if let Some(&at) = at_of.get(name) {
            return Some(at);
        }
        name = name.rsplit_once('/')?.0;
    }
}

/// Returns a shape for each input whose extents are open.
fn shapes(graph: &Graph) -> HashMap<String, Vec<usize>> {
    let mut shapes = HashMap::new();
    for value in &graph.inputs {
        let info = graph.values.get(value.index());
        if let Some(ValueType::Tensor { shape: Some(dims), .. }) = info.map(|info| &info.ty)
            && dims.iter().any(|dim| !matches!(dim, Dim::Known(_)))
        {
            shapes.insert(graph.name_of(*value).to_owned(), dims.iter().map(extent).collect());
        }
    }
    shapes
}

fn extent(dim: &Dim) -> usize {
    let known = dim.formula().and_then(|formula| formula.value(&|_| Some(EXTENT)));
    usize::try_from(known.unwrap_or(EXTENT)).unwrap_or(0)
}

/// Returns the bytes of a value, as far as they follow from its type.
fn bytes(ty: &ValueType) -> f64 {
    match ty {
        ValueType::Tensor { dtype, shape } => {
            let elements: f64 = match shape {
                Some(dims) => dims.iter().map(|dim| extent(dim) as f64).product(),
                None => (EXTENT * EXTENT) as f64,
            };
            elements * dtype.bytes_for(8).map_or(8.0, |bytes| bytes as f64 / 8.0)
        }
        ValueType::Sequence(of) | ValueType::Optional(of) => bytes(of),
        ValueType::Map(..) | ValueType::Unknown => 0.0,
    }
}
