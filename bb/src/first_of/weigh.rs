//! Estimates the costs of nodes and transfers before anything runs.
//!
//! Times are computed from [`cost`](crate::cost) and from rates that are right within a small factor for any processor. The estimate must
//! only show that a matrix product costs more than a transfer, and that a sum of two small tensors costs less.

use crate::look::{Looked, extent_of};
use crate::services::DeviceKind;
use crate::{Capabilities, Module};
use bb_core::error::How;
use bb_ir::graph::{Dim, Graph, Node, ValueId, ValueType};
use std::collections::HashMap;

/// The assumed number of arithmetic operations per second of a backend.
const FLOPS: f64 = 5e10;
/// The assumed number of bytes that a backend reads or writes per second.
const BYTES: f64 = 1e10;
/// The assumed number of bytes per second of a transfer to or from a device.
const MOVED: f64 = 3e9;
/// The fixed cost of a transfer to or from a device.
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
const EXTENT: usize = 32;

/// The cost of each node on each backend, and the cost of moving each value.
pub(super) struct Weights {
    /// For each backend, the seconds that each node takes; infinite if the backend does not run the node.
    nodes: Vec<Vec<f64>>,
    /// The size of each value in bytes.
    values: Vec<f64>,
    /// For each backend, whether its memory is separate from the host's.
    remote: Vec<bool>,
}

impl Weights {
    /// Estimates the costs of a graph. `looked` has the analysis of its nodes for each backend.
    pub(super) fn of(module: &Module, capabilities: &[Capabilities], looked: &[Vec<Looked>]) -> Weights {
        let graph = module.graph();
        let values: Vec<f64> = graph.values.iter().map(|value| bytes(&value.ty)).collect();
        let is_remote = |has: &Capabilities| {
            matches!(has.device.kind, DeviceKind::Gpu | DeviceKind::Accelerator | DeviceKind::Remote)
        };
        let remote = capabilities.iter().map(is_remote).collect();
        let own = own_costs(module, capabilities, &values);
        let mut weights = Weights { nodes: Vec::new(), values, remote };
        for (rank, looked) in looked.iter().enumerate() {
            // Each backend counts as twice as slow as the one before it in the list.
            let slower = f64::from(1u32 << rank.min(16));
            let seconds = |((looked, node), own): ((&Looked, &Node), &f64)| match looked.how {
                _ if !looked.missing.is_empty() => f64::INFINITY,
                How::Native => own * slower,
                How::Lowered(_) => own * slower * LOWERED,
                How::Host => own * slower * LOWERED + weights.around(node, rank),
                How::Unsupported => f64::INFINITY,
            };
            let nodes = looked.iter().zip(&graph.nodes).zip(&own).map(seconds).collect();
            weights.nodes.push(nodes);
        }
        only_exact(&mut weights.nodes, looked);
        weights
    }

    /// Returns the time of a node's transfers in seconds, if the host computes the node: its operands leave the device, and its results
    /// return.
    fn around(&self, node: &Node, backend: usize) -> f64 {
        match self.remote.get(backend) {
            Some(true) => touched(node).map(|value| self.transfer(value, backend, backend)).sum(),
            _ => 0.0,
        }
    }

    /// Returns the time of a node on a backend, in seconds.
    pub(super) fn node(&self, backend: usize, at: usize) -> f64 {
        self.nodes.get(backend).and_then(|nodes| nodes.get(at)).copied().unwrap_or(f64::INFINITY)
    }

    /// Returns the time of a transfer of a value between two backends, in seconds.
    pub(super) fn transfer(&self, value: ValueId, from: usize, to: usize) -> f64 {
        let bytes = self.values.get(value.index()).copied().unwrap_or(0.0);
        let is_remote = |at: usize| self.remote.get(at) == Some(&true);
        match is_remote(from) || is_remote(to) {
            true => TRANSFER + bytes / MOVED,
            false => COPY + bytes / BYTES,
        }
    }
}

/// Excludes inexact backends: if results of a node may leave the range of the types that a backend uses, the node runs only on backends
/// that have its types, if there are any.
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

/// Returns the operands and results of a node.
pub(super) fn touched(node: &Node) -> impl Iterator<Item = ValueId> {
    node.reads().chain(node.outputs.iter().flatten().copied())
}

/// Estimates the time of each node in seconds, on a backend with native kernels for the node.
fn own_costs(module: &Module, capabilities: &[Capabilities], sizes: &[f64]) -> Vec<f64> {
    let graph = module.graph();
    let mut costs: Vec<f64> = Vec::with_capacity(graph.nodes.len());
    let mut at_of: HashMap<String, usize> = HashMap::with_capacity(graph.nodes.len());
    for (at, node) in graph.nodes.iter().enumerate() {
        let moved: f64 = touched(node).filter_map(|value| sizes.get(value.index())).sum();
        costs.push(LEAST.max(moved / BYTES));
        at_of.insert(bb_core::error::name(graph, node), at);
    }
    let natives = capabilities.first().map_or(&[][..], |first| first.families.as_slice());
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

/// Finds the node of the outermost graph in a path of node names. The separator is `/`, which may also occur in a name.
fn outermost(path: &str, at_of: &HashMap<String, usize>) -> Option<usize> {
    let mut name = path;
    loop {
        if let Some(&at) = at_of.get(name) {
            return Some(at);
        }
        name = name.rsplit_once('/')?.0;
    }
}

/// Returns a shape for each input whose shape is not fully known.
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
    extent_of(dim, EXTENT)
}

/// Returns the size of a value in bytes, with assumed extents if its type does not determine them.
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
