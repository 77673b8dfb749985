//! The reasons why a node does not run on a preferred backend.

use crate::NarrowError;
use bb_core::error::{How, Missing, Why};
use bb_ir::text::sentence;
use std::fmt;

/// A backend of a [`FirstOf`](crate::FirstOf) that precedes the backend of a node, and why it does not run the node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PassedOver {
    /// The name of the backend.
    pub backend: &'static str,
    /// The reason.
    pub why: WhyNot,
}

/// The reason why a backend of a [`FirstOf`](crate::FirstOf) does not run a node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhyNot {
    /// The backend does not support the node, or failed in a trial of one of the node's operations.
    Refused(Vec<Missing>),
    /// The node is pinned to another backend.
    Pinned,
    /// Results of the node may leave the range of the types that the backend has.
    Exceeds(Vec<NarrowError>),
    /// The backend can run the node in this way, but this is estimated to take longer.
    Slower(How),
    /// The backend can run the node, but copying values to and from the backend is estimated to cost more than it
    /// saves.
    Transfers,
}

impl WhyNot {
    /// Returns the reason as one word, for reports.
    pub fn name(&self) -> &'static str {
        match self {
            WhyNot::Refused(_) => "refused",
            WhyNot::Pinned => "pinned",
            WhyNot::Exceeds(_) => "exceeds",
            WhyNot::Slower(_) => "slower",
            WhyNot::Transfers => "transfers",
        }
    }
}

impl PassedOver {
    pub(crate) fn new(backend: &'static str, why: WhyNot) -> PassedOver {
        PassedOver { backend, why }
    }
}

impl fmt::Display for PassedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = self.backend;
        match &self.why {
            WhyNot::Refused(missing) => {
                let reasons: Vec<String> = missing.iter().map(|missing| refused(on, missing)).collect();
                f.write_str(&reasons.join("; "))
            }
            WhyNot::Pinned => write!(f, "a pin chooses it instead of `{on}`"),
            WhyNot::Exceeds(errors) => {
                let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                write!(f, "on `{on}`, results may leave the range of its types: {}", errors.join("; "))
            }
            WhyNot::Slower(how) => write!(f, "`{on}` ({how}) is estimated to take longer"),
            WhyNot::Transfers => write!(
                f,
                "copying values to and from `{on}` is estimated to cost more than it saves; `place=order` runs on `{on}` all \
                 that it can run"
            ),
        }
    }
}

/// Returns why a backend cannot run a node, without the name of the node.
fn refused(on: &str, missing: &Missing) -> String {
    match &missing.why {
        Why::ElementTypes(refusals) => {
            let calls: Vec<String> =
                refusals.iter().map(|call| format!("{call}: {}", sentence(&call.reason))).collect();
            format!("`{on}` refuses {}", calls.join("; "))
        }
        Why::NoPrimitive { method } | Why::NoKernel { method } => format!("`{on}` does not run `{method}`"),
        Why::Declined { reason } => format!("`{on}` declines: {}", sentence(reason)),
        Why::Fails { reason } => format!("on `{on}`, it would fail: {}", sentence(reason)),
        _ => missing.to_string(),
    }
}
