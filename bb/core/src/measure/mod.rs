//! Costs and times of runs, as data. [`crate::cost`] computes costs; the interpreter of plans adds rows to a [`Profile`].

mod cost;
mod profile;

pub use cost::Cost;
pub(crate) use profile::Iteration;
pub use profile::{Activity, Profile, ProfileRow, ProfiledNode, Scope, Span};
