//! All problems of a node that is not ready, each with advice on how to fix it.

use super::advice::title;
use super::missing::{Missing, NodeInfo, lines};
use crate::Error;
use bb_ir::text::shown;
use std::collections::HashMap;
use std::fmt;

/// A node of a model that cannot run on the backend chosen for it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Uncovered {
    /// The name under which the model is bound.
    pub model: String,
    /// The node, the reason why it cannot run, and advice.
    pub missing: Missing,
    /// The backend.
    pub backend: String,
}

impl Uncovered {
    /// Creates the description from the model, the problem of its node, and the backend.
    pub fn new(model: String, missing: Missing, backend: String) -> Uncovered {
        Uncovered { model, missing, backend }
    }
}

/// A problem with the bound models, backends, components or rules.
#[derive(Debug)]
#[non_exhaustive]
pub enum Problem {
    /// A model could not be read, is not valid, or cannot be cut as requested.
    Model {
        /// The name under which the model is bound.
        model: String,
        /// The cause.
        source: Box<Error>,
    },
    /// Two models are bound under the same name.
    DuplicateModel {
        /// The name.
        model: String,
    },
    /// Two instances of backends have the same name, so a rule with this name is ambiguous.
    DuplicateBackend {
        /// The name.
        backend: String,
    },
    /// Two components are bound to the same operator.
    DuplicateComponent {
        /// The domain; empty for `ai.onnx`.
        domain: String,
        /// The operator.
        name: String,
    },
    /// A node cannot run.
    Node(Uncovered),
    /// A call names a backend that is not bound.
    UnknownBackend {
        /// The call that names it, as in `` `.bind_op("Neg", "gpu")` ``.
        by: String,
        /// The error about the name.
        source: Box<Error>,
    },
    /// No node uses a component.
    UnusedComponent {
        /// The domain; empty for `ai.onnx`.
        domain: String,
        /// The operator.
        name: String,
        /// The operator of the models that was probably meant, with its domain.
        nearest: Option<(String, String)>,
    },
    /// A rule matches no node.
    UnusedRule {
        /// The call that added the rule, as in `` `.bind_node("conv_1", "gpu")` ``.
        rule: String,
        /// The name in the models that was probably meant.
        nearest: Option<String>,
        /// The node whose subgraph contains the nodes that the rule would match. A subgraph always runs on the backend
        /// of its node.
        inside: Option<String>,
        /// The valid names for the rule: names of nodes or of operators.
        names: Vec<String>,
    },
    /// All nodes that a rule matches are already assigned, by a component or by an earlier rule.
    ShadowedRule {
        /// The call that added the rule.
        rule: String,
    },
    /// Data was attached to the parts of a backend, but has no effect, because the backend gets no part.
    NoPart {
        /// The calls that attached the data, as in `` `.metadata("gpu", …)` ``.
        by: String,
        /// The backend.
        backend: String,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Model { model, source } => {
                write!(f, "the model `{model}`: {}", crate::error::causes(&**source))
            }
            Problem::DuplicateModel { model } => {
                write!(f, "two models are called `{model}`; bind one under another name")
            }
            Problem::DuplicateBackend { backend } => {
                write!(
                    f,
                    "two backends are called `{backend}`; bind one of them alone, or start one under another name"
                )
            }
            Problem::DuplicateComponent { domain, name } => {
                write!(f, "two components are bound to `{name}` of `{}`; remove one", title(domain))
            }
            Problem::Node(Uncovered { model, missing, backend }) => {
                write!(f, "in `{model}`, asked of `{backend}`: {missing}")
            }
            Problem::UnknownBackend { by, source } => write!(f, "`{by}`: {source}"),
            Problem::UnusedComponent { domain, name, nearest } => {
                write!(f, "the component for `{name}` of `{}` runs no node", title(domain))?;
                match nearest {
                    Some((domain, name)) => {
                        write!(f, "; the nearest operator is `{name}` of `{}`", title(domain))
                    }
                    None => f.write_str("; no model has such an operator: remove it"),
                }
            }
            Problem::UnusedRule { rule, nearest, inside, names } => {
                write!(f, "`{rule}` chooses no node")?;
                match (inside, nearest) {
                    (Some(node), _) => {
                        write!(
                            f,
                            "; what it names is inside `{node}`, and a subgraph goes to a backend with its node: bind that"
                        )
                    }
                    (None, Some(name)) => write!(f, "; the nearest name is `{name}`"),
                    (None, None) if names.is_empty() => f.write_str("; remove it"),
                    (None, None) => write!(f, "; there are {}", bb_ir::text::listed(names)),
                }
            }
            Problem::ShadowedRule { rule } => write!(
                f,
                "`{rule}` has no effect: a component, or a rule before it, has every node that it chooses; put it first"
            ),
            Problem::NoPart { by, backend } => {
                write!(f, "`{by}` has no effect: no node runs on `{backend}`; bind one to it")
            }
        }
    }
}

/// All problems with the bound models, backends, components and rules.
#[derive(Debug)]
pub struct ProblemList(pub Vec<Problem>);

/// A problem, with the other nodes that cannot run for the same reason.
struct Group<'a> {
    problem: &'a Problem,
    others: Vec<&'a NodeInfo>,
}

/// The maximum number of nodes that a group names. The rest are only counted.
const NAMED: usize = 8;

impl fmt::Display for Group<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(f)?;
        let count = self.others.len();
        if count == 0 {
            return Ok(());
        }
        let nodes = if count == 1 { "node" } else { "nodes" };
        write!(f, "\n    the same reason holds for {count} other {nodes}: ")?;
        for (at, NodeInfo { node, op, .. }) in self.others.iter().take(NAMED).enumerate() {
            write!(f, "{}`{}` (`{}`)", if at == 0 { "" } else { ", " }, shown(node), shown(op))?;
        }
        match count.checked_sub(NAMED) {
            None | Some(0) => Ok(()),
            Some(more) => write!(f, " and {more} more"),
        }
    }
}

impl ProblemList {
    /// Groups nodes that one backend cannot run for the same reason. Groups that a backend option solves come first.
    fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        let mut known: HashMap<(&str, &str, String), usize> = HashMap::new();
        for problem in &self.0 {
            let Problem::Node(Uncovered { model, missing, backend }) = problem else {
                groups.push(Group { problem, others: Vec::new() });
                continue;
            };
            let next = groups.len();
            let at = *known.entry((model, backend, missing.reason())).or_insert(next);
            match groups.get_mut(at) {
                Some(group) => group.others.push(&missing.node),
                None => groups.push(Group { problem, others: Vec::new() }),
            }
        }
        let by_option = |group: &Group<'_>| match group.problem {
            Problem::Node(uncovered) => uncovered.missing.is_solved_by_narrow_floats(),
            _ => false,
        };
        groups.sort_by_key(|group| !by_option(group));
        groups
    }
}

impl fmt::Display for ProblemList {
    /// Writes one line per problem. Nodes that cannot run for the same reason share a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        lines(f, &self.groups())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::missing::{Refusal, Why};
    use bb_ir::{DataType, ErrorKind};

    fn node(name: &str, op: &str, why: Why) -> Problem {
        let node = NodeInfo { node: name.to_owned(), op: op.to_owned(), domain: String::new(), opset: 21 };
        Problem::Node(Uncovered::new("m".to_owned(), Missing { node, why }, "few".to_owned()))
    }

    fn refused(op: &'static str, reason: &str) -> Why {
        let reason = reason.to_owned();
        let (operands, kind) = (vec![DataType::F64], ErrorKind::Unsupported);
        Why::ElementTypes(vec![Refusal { op, operands, params: Vec::new(), reason, kind }])
    }

    #[test]
    fn nodes_with_one_reason_are_one_line_and_what_an_option_solves_is_first() {
        let lacks = |op| format!("`{op}` needs f64; the option `narrow_floats` accepts another float");
        let fails = Why::Fails { reason: "`Reshape`: 3 is not 4".to_owned() };
        let mut problems = vec![node("r", "Reshape", fails)];
        for at in 0..6 {
            problems.push(node(&format!("e{at}"), "Exp", refused("exp", &lacks("exp"))));
            problems.push(node(&format!("l{at}"), "Log", refused("log", &lacks("log"))));
        }
        assert_eq!(
            ProblemList(problems).to_string(),
            "
  in `m`, asked of `few`: `e0` is `Exp` of `ai.onnx` 21: it needs `exp` of f64, which is refused (`exp` needs f64; the option \
             `narrow_floats` accepts another float); bind the node to a backend that has the type: `.bind_node(\"e0\", …)`
    the same reason holds for 11 other nodes: `l0` (`Log`), `e1` (`Exp`), `l1` (`Log`), `e2` (`Exp`), `l2` (`Log`), `e3` (`Exp`), \
             `l3` (`Log`), `e4` (`Exp`) and 3 more
  in `m`, asked of `few`: `r` is `Reshape` of `ai.onnx` 21: it will fail: `Reshape`: 3 is not 4"
        );
    }
}
