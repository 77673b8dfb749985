//! Identifies the part of a node that an error is about.

use bb_ir::text::shown;
use std::borrow::Cow;
use std::fmt;

/// The part of a node, or of a call, that an operator cannot work with.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodePart {
    /// An attribute or a parameter, by its name. In some versions of an operator, an operand with this name replaces
    /// the attribute.
    Named(String),
    /// An operand, by its index.
    Operand(usize),
    /// A result, by its index.
    Output(usize),
    /// Another part, described in words: for example several operands together, or the contents of a sequence.
    Other(Cow<'static, str>),
}

impl NodePart {
    /// Returns a part that is described in words because it has no name or index.
    pub fn other(text: &'static str) -> NodePart {
        NodePart::Other(Cow::Borrowed(text))
    }
}

impl From<&str> for NodePart {
    fn from(name: &str) -> NodePart {
        NodePart::Named(name.to_owned())
    }
}

impl fmt::Display for NodePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodePart::Named(name) => shown(name).fmt(f),
            NodePart::Operand(index) => write!(f, "operand {index}"),
            NodePart::Output(index) => write!(f, "result {index}"),
            NodePart::Other(text) => f.write_str(text),
        }
    }
}
