//! The number of operations of a run, and the number of bytes that it reads and writes.

use super::model::grouped;
use crate::error::Result;
use crate::{args, inputs, render};
use bb::profile::{Estimate, NodeCost};
use bb::{BackendHandle, Module};
use serde_json::json;

/// The cost of a run, computed without running if possible.
pub(super) enum RunCost {
    /// The cost was computed, because all extents are known.
    Counted(Box<Estimate>),
    /// The cost depends on these open extents.
    Open(Vec<String>),
    /// The cost cannot be computed.
    Unknown(bb::Error),
}

impl RunCost {
    pub(super) fn of(
        module: &Module,
        backend: &BackendHandle,
        options: &args::ExtentArgs,
    ) -> Result<RunCost> {
        let open = inputs::open(module, options)?;
        if !open.is_empty() {
            return Ok(RunCost::Open(open));
        }
        let shapes = inputs::shapes(module, options)?;
        let families = backend.runtime().capabilities().families;
        Ok(module
            .estimate(&shapes, &families)
            .map_or_else(RunCost::Unknown, |e| RunCost::Counted(Box::new(e))))
    }

    /// Formats the cost in one or two lines.
    pub(super) fn text(&self) -> String {
        let estimate = match self {
            RunCost::Counted(estimate) => estimate,
            RunCost::Open(open) => {
                return format!("they depend on {}, which --dim or --shape gives", render::names(open));
            }
            RunCost::Unknown(error) => return format!("they cannot be counted: {}", render::chain(error)),
        };
        let (flops, without) = sum(&estimate.nodes, |node| node.cost.flops);
        let (bytes, _) = sum(&estimate.nodes, |node| node.cost.bytes());
        let mut text = format!("{} on numbers, {} read and written", grouped(flops), render::bytes(bytes));
        if !without.is_empty() {
            text.push_str(&format!(
                "; without those of {}, for which there is no formula",
                without.join(", ")
            ));
        }
        if let Some(until) = &estimate.until {
            text.push_str(&format!("; up to `{until}`, from where on values decide what runs"));
        }
        text
    }

    pub(super) fn json(&self) -> serde_json::Value {
        let estimate = match self {
            RunCost::Counted(estimate) => estimate,
            RunCost::Open(open) => return json!({ "open_extents": open }),
            RunCost::Unknown(error) => return json!({ "error": render::chain(error) }),
        };
        let (flops, without) = sum(&estimate.nodes, |node| node.cost.flops);
        let nodes = estimate.nodes.iter().map(|n| {
            json!({
                "node": n.node.path, "operator": n.node.op, "domain": n.node.domain, "operations": n.operations,
                "flops": n.cost.flops, "bytes_read": n.cost.bytes_read, "bytes_written": n.cost.bytes_written,
            })
        });
        json!({
            "flops_per_run": flops, "without_formula": without,
            "bytes_read_per_run": sum(&estimate.nodes, |node| node.cost.bytes_read).0,
            "bytes_written_per_run": sum(&estimate.nodes, |node| node.cost.bytes_written).0,
            "counted_until": estimate.until, "nodes": nodes.collect::<Vec<_>>(),
        })
    }
}

/// Adds up the known costs. Also returns the operators whose cost is unknown.
fn sum(nodes: &[NodeCost], of: impl Fn(&NodeCost) -> Option<u64>) -> (u64, Vec<String>) {
    let mut all = 0u64;
    let mut without: Vec<String> = Vec::new();
    for node in nodes {
        match of(node) {
            Some(amount) => all = all.saturating_add(amount),
            None if without.contains(&node.node.op) => {}
            None => without.push(node.node.op.clone()),
        }
    }
    (all, without)
}
