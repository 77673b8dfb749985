//! Describes nodes that cannot run or may not run, for errors and reports.

use super::advice::{Advice, title};
use super::door::{bind, in_rust, link, link_operators};
use super::{DoorAdvice, NarrowError, OpenOption};
use bb_ir::graph::{Graph, Node};
use bb_ir::text::{sentence, shown};
use bb_ir::{DataType, ErrorKind};

/// Returns the label of a node, as [`Graph::label_of`] defines it.
pub fn name(graph: &Graph, node: &Node) -> String {
    graph.label_of(node).to_owned()
}

/// How a node runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum How {
    /// As one native operation of the backend.
    Native,
    /// As several operations that the operator is lowered to. The number is known only if it does not depend on inputs.
    Lowered(Option<usize>),
    /// On the host, because the operator depends on data or on non-numeric values, or because the backend has no kernel
    /// that replaces the host kernel.
    Host,
    /// Not at all.
    Unsupported,
}

impl std::fmt::Display for How {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            How::Native => f.write_str("native"),
            How::Lowered(Some(1)) => f.write_str("lowered to 1 operation"),
            How::Lowered(Some(n)) => write!(f, "lowered to {n} operations"),
            How::Lowered(None) => f.write_str("lowered"),
            How::Host => f.write_str("host"),
            How::Unsupported => f.write_str("unsupported"),
        }
    }
}

/// A call that a backend refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The operation, as in `reduce_sum`.
    pub op: &'static str,
    /// The element types of the operands.
    pub operands: Vec<DataType>,
    /// The element types of the parameters: the target of a cast, or the type of a constant.
    pub params: Vec<DataType>,
    /// The message of the backend.
    pub reason: String,
    /// The kind of the backend's error: [`ErrorKind::Unsupported`], or another kind if the call failed.
    pub kind: ErrorKind,
}

impl std::fmt::Display for Refusal {
    /// Formats the call, for example `` `cast` of f32 to f16 ``.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}`", self.op)?;
        for (types, word) in
            [(&self.operands, "of"), (&self.params, if self.operands.is_empty() { "of" } else { "to" })]
        {
            for (i, dtype) in types.iter().enumerate() {
                write!(f, " {} {dtype}", if i == 0 { word } else { "and" })?;
            }
        }
        Ok(())
    }
}

impl Refusal {
    /// Returns whether the call has an operand or parameter of an element type.
    pub fn is_of(&self, dtype: DataType) -> bool {
        self.operands.contains(&dtype) || self.params.contains(&dtype)
    }
}

/// A node of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInfo {
    /// The name of the node; if it has none, the name of its first output.
    pub node: String,
    /// The operator.
    pub op: String,
    /// Its domain; empty for `ai.onnx`.
    pub domain: String,
    /// The opset that the model imports.
    pub opset: i64,
}

impl NodeInfo {
    /// Describes a node.
    pub fn of(graph: &Graph, node: &Node) -> NodeInfo {
        NodeInfo {
            node: name(graph, node),
            op: node.op_type.clone(),
            domain: node.domain.clone(),
            opset: node.opset,
        }
    }
}

impl std::fmt::Display for NodeInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let domain = shown(title(&self.domain));
        write!(f, "`{}` is `{}` of `{domain}` {}", shown(&self.node), shown(&self.op), self.opset)
    }
}

/// A library that some operators need, and that a program may omit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Library {
    /// A description, as in `a decoder of pictures`.
    pub what: &'static str,
    /// The feature of `bb` that links the library.
    pub feature: &'static str,
    /// The crate of the library.
    pub package: &'static str,
}

/// The reason why a node cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// The operator is not implemented.
    Operator {
        /// Whether any operator of the domain is known.
        known_domain: bool,
        /// The operator of the domain with the most similar name.
        nearest: Option<&'static str>,
    },
    /// The program links no crate of operators.
    NoOperators,
    /// The operators of the domain are in a crate that is not linked.
    LeftOut {
        /// The feature of `bb` that links the crate.
        feature: &'static str,
        /// The crate.
        package: &'static str,
    },
    /// The operator needs a library that is not linked.
    Unlinked(Library),
    /// Two linked crates define operations of the domain, and the choice must not depend on the order of linking.
    TwoVendors {
        /// The paths of their traits.
        paths: [&'static str; 2],
    },
    /// The vendor's operation was added in a newer opset of its domain.
    NotYet {
        /// The first opset that has it.
        since: i64,
    },
    /// The vendor's operation has no body, and the backend has no kernel for it.
    NoKernel {
        /// The method that the backend's author writes.
        method: &'static str,
    },
    /// The backend takes whole graphs and does not support a primitive that the operator is, or is lowered to.
    NoPrimitive {
        /// The method of the primitive.
        method: &'static str,
    },
    /// A component is bound to the operator, but the node is inside a subgraph, which is passed to a backend
    /// as a whole.
    InSubgraph {
        /// The node that contains the subgraph.
        holder: String,
    },
    /// The backend refuses the element types of operations that the node is lowered to.
    ElementTypes(Vec<Refusal>),
    /// A result may exceed the range of the type that the backend stores it in, and is too large for the host to
    /// compute.
    Exceeds(NarrowError),
    /// The backend takes models unchanged, and refuses the node.
    Declined {
        /// The reason that the backend reports.
        reason: String,
    },
    /// The node fails for every input, because of its types, extents and constants.
    Fails {
        /// The error message with its causes.
        reason: String,
    },
}

/// A node that cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The node.
    pub node: NodeInfo,
    /// The reason.
    pub why: Why,
}

impl Missing {
    /// Returns the reason as a key for grouping. The key is equal for nodes that differ only in their names, or only in
    /// the operation whose element type the backend lacks.
    pub(crate) fn reason(&self) -> String {
        match &self.why {
            Why::ElementTypes(refusals) => {
                let general = |refusal: &Refusal| refusal.reason.replace(&format!("`{}`", refusal.op), "…");
                refusals.first().map_or_else(String::new, general)
            }
            Why::Exceeds(NarrowError::Exceeds { dtype, held, .. }) => format!("{dtype} beyond {held}"),
            why => format!("{} {} {why:?}", self.node.domain, self.node.op),
        }
    }

    /// Returns whether the node may run on another backend.
    pub fn may_run_elsewhere(&self) -> bool {
        matches!(
            self.why,
            Why::NoKernel { .. }
                | Why::NoPrimitive { .. }
                | Why::ElementTypes(_)
                | Why::Exceeds(_)
                | Why::Declined { .. }
        )
    }

    /// Returns the first call that failed with an error of another kind than [`ErrorKind::Unsupported`].
    pub fn failed_call(&self) -> Option<&Refusal> {
        match &self.why {
            Why::ElementTypes(refusals) => refusals.iter().find(|call| call.kind != ErrorKind::Unsupported),
            _ => None,
        }
    }

    /// Returns true if the option `narrow_floats` of the backend allows the node to run.
    pub(crate) fn is_solved_by_narrow_floats(&self) -> bool {
        let option = OpenOption::NarrowFloats.name();
        match &self.why {
            Why::ElementTypes(refusals) => refusals.iter().all(|refusal| refusal.reason.contains(option)),
            _ => false,
        }
    }
}

impl std::fmt::Display for Missing {
    /// Writes the node, the reason why it cannot run, and how the user can fix it. Programs in other languages than Rust do not bind nodes,
    /// so their advice to use another backend comes once for all nodes (`Coverage::advice`).
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let NodeInfo { op, domain, opset, .. } = &self.node;
        let node = shown(&self.node.node);
        write!(f, "{}: ", self.node)?;
        match &self.why {
            Why::Operator { known_domain, nearest } => {
                Advice { domain, op, opset: *opset, known_domain: *known_domain, nearest: *nearest }.fmt(f)
            }
            Why::NoOperators => {
                write!(f, "no operators are linked; {}", link_operators(DoorAdvice::given()))
            }
            Why::LeftOut { feature, package } => {
                write!(f, "the operators of the domain are not linked; {}", link(feature, package))
            }
            Why::Unlinked(Library { what, feature, package }) => {
                write!(f, "it needs {what}; {}", link(feature, package))
            }
            Why::TwoVendors { paths: [first, second] } => write!(
                f,
                "`{first}` and `{second}` both define operations of the domain; link only one of their crates"
            ),
            Why::NotYet { since } => {
                write!(
                    f,
                    "`{}` has it from opset {since} on; import that opset, or a newer one",
                    shown(domain)
                )
            }
            Why::NoKernel { method } => write!(
                f,
                "the operation has no body, and the backend no kernel for it{}",
                in_rust(|| format!(
                    "write `{method}` under `#[bb::native]` and name the family in `#[bb(vendors(…))]`, or {}",
                    bind("has the kernel", &node)
                ))
            ),
            Why::NoPrimitive { method } => {
                let advice = in_rust(|| bind("runs it", &node));
                write!(f, "it needs `{method}`, which the backend does not run{advice}")
            }
            Why::InSubgraph { holder } => write!(
                f,
                "a component is bound to it, but the node is inside `{0}`, and a subgraph goes to a backend as it is; \
                 bind a component to the operator of `{0}`",
                shown(holder)
            ),
            Why::Declined { reason } => write!(
                f,
                "{}{}",
                shown(reason),
                in_rust(|| format!(
                    "bind the node to another backend: `.bind_node(\"{node}\", …)`, or use `first_of` with another one"
                ))
            ),
            Why::ElementTypes(refusals) => {
                for (i, refusal) in refusals.iter().enumerate() {
                    write!(f, "{}{refusal}", if i == 0 { "it needs " } else { " and " })?;
                }
                if let Some(first) = refusals.first() {
                    write!(f, ", which is refused ({})", sentence(&first.reason))?;
                }
                let names_type = |refusal: &Refusal| {
                    let mut types = refusal.operands.iter().chain(&refusal.params);
                    types.any(|dtype| bb_ir::text::has_word(&refusal.reason, dtype.name()))
                };
                let does = if refusals.iter().any(names_type) { "has the type" } else { "runs it" };
                f.write_str(&in_rust(|| bind(does, &node)))
            }
            Why::Exceeds(NarrowError::Exceeds { op, dtype, held }) => write!(
                f,
                "`{op}` of {dtype} may exceed {held}, in which the backend holds {dtype}{}",
                in_rust(|| {
                    "bind the node to a backend that has the type, or accept that the host computes what exceeds: \
                     `.accept_narrowing()`"
                        .to_owned()
                })
            ),
            Why::Exceeds(other) => write!(f, "{other}"),
            Why::Fails { reason } => write!(f, "it will fail: {}", sentence(reason)),
        }
    }
}

/// The list of all nodes that cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingList(pub Vec<Missing>);

impl MissingList {
    /// Returns the number of nodes. A node with several reasons is in the list several times.
    pub(crate) fn nodes(&self) -> usize {
        let names: std::collections::HashSet<_> =
            self.0.iter().map(|missing| (&missing.node.node, &missing.node.op)).collect();
        names.len()
    }
}

/// The maximum number of nodes that a message lists. The rest are only counted.
const LISTED: usize = 50;

impl std::fmt::Display for MissingList {
    /// Writes one line per node.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        lines(f, &self.0)
    }
}

/// A node that the options refuse because of the way it would run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedNode {
    /// The node.
    pub node: NodeInfo,
    /// How the node would run.
    pub how: How,
}

impl std::fmt::Display for RefusedNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.node, self.how)
    }
}

/// The list of all nodes that the options refuse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedList(pub Vec<RefusedNode>);

impl std::fmt::Display for RefusedList {
    /// Writes one line per node.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        lines(f, &self.0)
    }
}

/// Writes one line per entry of a list. A single entry is written on the current line.
pub(crate) fn lines<T: std::fmt::Display>(f: &mut std::fmt::Formatter<'_>, list: &[T]) -> std::fmt::Result {
    if let [only] = list {
        return only.fmt(f);
    }
    for line in list.iter().take(LISTED) {
        write!(f, "\n  {line}")?;
    }
    match list.len().checked_sub(LISTED) {
        None | Some(0) => Ok(()),
        Some(more) => write!(f, "\n  and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_lacks_two_primitives_counts_once() {
        let node =
            NodeInfo { node: "y".to_owned(), op: "Softmax".to_owned(), domain: String::new(), opset: 21 };
        let lacks = |method| Missing { node: node.clone(), why: Why::NoPrimitive { method } };
        let missing = MissingList(vec![lacks("exp"), lacks("div")]);
        let text = crate::Error::Unsupported { missing }.to_string();
        assert!(text.starts_with("1 of the graph's nodes cannot run: \n  `y` is `Softmax`"), "{text}");
    }
}
