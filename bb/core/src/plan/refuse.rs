//! Refuses graphs with nodes that would run in a way that the options forbid.

use super::CompileOptions;
use super::how::how;
use super::resolve::{Code, Resolved};
use crate::Error;
use crate::error::{How, NodeInfo, RefusedList, RefusedNode};
use crate::ext::OpSet;
use bb_ir::op::Family;

/// Checks for nodes that would run in a way that the options forbid, including nodes in subgraphs.
///
/// # Errors
///
/// [`Error::Refused`] that lists these nodes.
pub(super) fn refuse(
    resolved: &Resolved,
    natives: &[(Family, OpSet)],
    options: &CompileOptions,
) -> Result<(), Error> {
    if !options.refuse_host && !options.refuse_lowered {
        return Ok(());
    }
    let mut nodes = Vec::new();
    collect(resolved, natives, options, &mut nodes);
    if nodes.is_empty() { Ok(()) } else { Err(Error::Refused { nodes: RefusedList(nodes) }) }
}

fn collect(
    resolved: &Resolved,
    natives: &[(Family, OpSet)],
    options: &CompileOptions,
    nodes: &mut Vec<RefusedNode>,
) {
    let used =
        resolved.graph.nodes.iter().zip(&resolved.code).filter(|(_, code)| !matches!(code, Code::Unused));
    for (node, _) in used {
        let how = how(node, natives, None);
        let refused = match how {
            How::Host => options.refuse_host,
            How::Lowered(_) => options.refuse_lowered,
            How::Native | How::Unsupported => false,
        };
        if refused {
            nodes.push(RefusedNode { node: NodeInfo::of(&resolved.graph, node), how });
        }
    }
    for inner in resolved.subgraphs() {
        collect(inner, natives, options, nodes);
    }
}
