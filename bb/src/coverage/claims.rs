//! Parts of a graph that another engine may hand to a backend as a whole.

use super::{How, Missing, UnknownList, looked};
use crate::{BackendHandle, Module};
use bb_core::cut::cut;
use bb_ir::graph::ValueId;

/// Options that select the nodes to claim.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimOptions {
    /// Whether nodes that run on the host are claimed.
    pub host: bool,
    /// Whether nodes that are lowered to several operations, rather than native to the backend, are
    /// declined.
    pub native_only: bool,
}

impl ClaimOptions {
    /// Sets whether nodes that run on the host are claimed.
    #[must_use]
    pub fn with_host(self, host: bool) -> ClaimOptions {
        ClaimOptions { host, ..self }
    }

    /// Sets whether only native nodes are claimed.
    #[must_use]
    pub fn with_native_only(self, native_only: bool) -> ClaimOptions {
        ClaimOptions { native_only, ..self }
    }
}

/// The reason why a node is not claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Declined {
    /// The node cannot run on the backend.
    Unsupported(Vec<Missing>),
    /// The node runs on the host.
    Host,
    /// The node is lowered to several operations.
    Lowered,
    /// The node's element types may depend on facts that are known only when inputs are passed, and the backend lacks some types.
    Unchecked(UnknownList),
    /// The caller excluded the node, for this reason; see [`Claims::give_up`].
    GivenUp(&'static str),
}

/// A part of a graph. No path between two of its nodes passes through a node outside the part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedPart {
    /// The indices of the nodes in the graph.
    pub nodes: Vec<usize>,
    /// The values that the nodes read from outside the part, without constants.
    pub inputs: Vec<ValueId>,
    /// The values that the nodes compute and that are read outside the part or are outputs of the graph.
    pub outputs: Vec<ValueId>,
}

/// The nodes of a graph that a backend claims because it can run them, grouped into parts that are as large
/// as possible.
///
/// The claims do not depend on extents that are known only when the graph runs.
///
/// # Examples
///
/// ```no_run
/// # fn main() -> Result<(), bb::Error> {
/// use bb::coverage::{ClaimOptions, Claims};
/// let module = bb::Module::load("model.onnx")?;
/// let claims = Claims::of(&module, &bb::backend("cpu")?, ClaimOptions::default());
/// println!("{} of {} nodes in {} parts", claims.count(), claims.nodes.len(), claims.parts.len());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// For each node of the graph, how it runs if it is claimed, otherwise the reason why it is not.
    pub nodes: Vec<Result<How, Declined>>,
    /// The parts, in a valid order of execution.
    pub parts: Vec<ClaimedPart>,
}

impl Claims {
    /// Determines the parts of a graph that a backend claims.
    pub fn of(module: &Module, on: &BackendHandle, options: ClaimOptions) -> Claims {
        let has_all = on.runtime().capabilities().types.is_all();
        let judge = |found: crate::look::Looked| match found.how {
            _ if !found.missing.is_empty() => Err(Declined::Unsupported(found.missing)),
            How::Unsupported => Err(Declined::Unsupported(found.missing)),
            How::Host if !options.host => Err(Declined::Host),
            How::Lowered(_) if options.native_only => Err(Declined::Lowered),
            how => match found.unchecked {
                Some(unknown) if !has_all => Err(Declined::Unchecked(unknown)),
                _ => Ok(how),
            },
        };
        let nodes = looked(module, on.runtime()).into_iter().map(|node| judge(node.looked)).collect();
        let mut claims = Claims { nodes, parts: Vec::new() };
        claims.cut(module);
        claims
    }

    /// Returns the number of nodes that are claimed.
    pub fn count(&self) -> usize {
        self.nodes.iter().filter(|node| node.is_ok()).count()
    }

    /// Excludes nodes from the claims, and divides the remaining nodes into parts again.
    pub fn give_up(&mut self, module: &Module, nodes: &[usize], reason: &'static str) {
        for &at in nodes {
            if let Some(node) = self.nodes.get_mut(at).filter(|node| node.is_ok()) {
                *node = Err(Declined::GivenUp(reason));
            }
        }
        self.cut(module);
    }

    fn cut(&mut self, module: &Module) {
        let claimed: Vec<bool> = self.nodes.iter().map(Result::is_ok).collect();
        let parts = cut(module.graph(), &claimed, |_| false).into_iter().filter(|part| part.target);
        let one = |part: bb_core::cut::Part<bool>| {
            let bb_core::cut::Part { nodes, inputs, outputs, .. } = part;
            ClaimedPart { nodes, inputs, outputs }
        };
        self.parts = parts.map(one).collect();
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use bb_ir::proto::{GraphProto, NodeProto, ValueInfoProto};

    /// Returns a graph whose operators form a chain that begins with `x`.
    fn chain(operators: &[&str]) -> Module {
        let info = |name: &str| ValueInfoProto { name: Some(name.to_owned()), ..Default::default() };
        let name = |at: usize| if at == 0 { "x".to_owned() } else { format!("v{at}") };
        let node = |(at, op): (usize, &&str)| NodeProto {
            op_type: Some((*op).to_owned()),
            input: vec![name(at)],
            output: vec![name(at + 1)],
            ..Default::default()
        };
        let graph = GraphProto {
            node: operators.iter().enumerate().map(node).collect(),
            input: vec![info("x")],
            output: vec![info(&name(operators.len()))],
            ..Default::default()
        };
        Module::from_graph(&graph, &[], &[]).unwrap()
    }

    #[test]
    fn nodes_that_are_given_up_divide_the_rest() {
        let module = chain(&["Neg", "Exp", "Neg"]);
        let mut claims = Claims { nodes: vec![Ok(How::Native); 3], parts: Vec::new() };
        claims.cut(&module);
        let nodes = |claims: &Claims| claims.parts.iter().map(|part| part.nodes.clone()).collect::<Vec<_>>();
        assert_eq!(nodes(&claims), [vec![0, 1, 2]]);
        claims.give_up(&module, &[1], "a reason");
        assert_eq!(nodes(&claims), [vec![0], vec![2]]);
        assert_eq!((claims.count(), &claims.nodes[1]), (2, &Err(Declined::GivenUp("a reason"))));
    }
}
