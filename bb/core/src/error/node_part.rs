//! Which part of a node an error is about.

use bb_ir::text::shown;
use std::borrow::Cow;
use std::fmt;

/// The part of a node, or of a call, that an operator cannot work with.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodePart {
    /// An attribute or a parameter, by its name. Some versions of an operator have an operand of that name instead of
    /// the attribute.
    Named(String),
    /// An operand, by its position.
    Operand(usize),
    /// A result, by its position.
    Output(usize),
    /// Something else, as a message calls it: several operands together, or the contents of a sequence.
    Other(Cow<'static, str>),
}

impl NodePart {
    /// A part that has no name or position of its own.
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
