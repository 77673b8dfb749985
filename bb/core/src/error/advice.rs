//! Advice for the user about an operator that is not supported.

use super::DoorAdvice;
use bb_ir::opset::{Presence, presence};
use bb_ir::text::shown;
use std::fmt;

/// Explains why an operator is not supported, and how the user can fix it.
pub struct Advice<'a> {
    pub(crate) domain: &'a str,
    pub(crate) op: &'a str,
    pub(crate) opset: i64,
    /// Whether any operator of the domain is known.
    pub(crate) known_domain: bool,
    /// The operator of the domain with the most similar name.
    pub(crate) nearest: Option<&'static str>,
}

impl fmt::Display for Advice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Advice { domain, op, opset, known_domain, nearest } = *self;
        let (title, op) = (shown(title(domain)), shown(op));
        match presence(domain, self.op, opset) {
            Presence::NotYet { since } => write!(f, "`{title}` has it from opset {since} on")?,
            Presence::Gone { since } => write!(f, "`{title}` took it away with opset {since}")?,
            Presence::There => f.write_str("there is no function for it")?,
            Presence::Foreign if !known_domain => f.write_str("no operator of the domain is known")?,
            _ => write!(f, "`{title}` has no such operator")?,
        }
        if let Some(near) = nearest {
            write!(f, "; the nearest name is `{near}`")?;
        }
        match DoorAdvice::given() {
            // Only Rust programs can bind components.
            Some(_) => Ok(()),
            None => write!(f, "; bind a component to it: `.component(\"{title}\", \"{op}\", …)`"),
        }
    }
}

/// Returns a domain as users write it; ONNX's own domain is `ai.onnx`.
pub(crate) fn title(domain: &str) -> &str {
    if domain.is_empty() { "ai.onnx" } else { domain }
}
