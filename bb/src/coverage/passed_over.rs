//! Nodes that do not run on a preferred one of several backends, grouped by the reason.

use super::{Coverage, PassedOver};
use bb_ir::text::shown;
use std::fmt;

/// Nodes that one backend of a [`FirstOf`](crate::FirstOf) runs instead of another backend, all for the same reason.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PassedOverNodes {
    /// The names of the nodes.
    pub nodes: Vec<String>,
    /// The backend that runs them.
    pub backend: &'static str,
    /// The backend that does not run them, and the reason for the first node.
    pub passed_over: PassedOver,
}

/// The maximum number of nodes that a message lists. The remaining nodes are only counted.
const LISTED: usize = 8;

impl fmt::Display for PassedOverNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed: Vec<String> =
            self.nodes.iter().take(LISTED).map(|node| format!("`{}`", shown(node))).collect();
        f.write_str(&listed.join(", "))?;
        match self.nodes.len().saturating_sub(LISTED) {
            0 => {}
            more => write!(f, " and {more} more")?,
        }
        let verb = if self.nodes.len() == 1 { "runs" } else { "run" };
        write!(f, " {verb} on `{}`: {}", self.backend, self.passed_over)
    }
}

impl Coverage {
    /// Lists the nodes that a preferred backend of a [`FirstOf`](crate::FirstOf) does not run, grouped by the reason.
    pub fn passed_over(&self) -> Vec<PassedOverNodes> {
        let mut groups: Vec<(String, PassedOverNodes)> = Vec::new();
        for node in &self.nodes {
            for passed_over in &node.passed_over {
                let text = passed_over.to_string();
                let known =
                    groups.iter_mut().find(|(known, group)| *known == text && group.backend == node.backend);
                match known {
                    Some((_, group)) => group.nodes.push(node.node.clone()),
                    None => {
                        let (nodes, passed_over) = (vec![node.node.clone()], passed_over.clone());
                        groups.push((text, PassedOverNodes { nodes, backend: node.backend, passed_over }));
                    }
                }
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }
}
