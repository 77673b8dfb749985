//! The cost of a run: estimated before the run ([`Estimate`]), or measured during it ([`Profile`]).
//!
//! [`Module::estimate`](crate::Module::estimate) computes an estimate. [`ErasedExecutable::run_profiled`] and
//! [`Executable::run_profiled`] add a run to a profile.
//!
//! [`ErasedExecutable::run_profiled`]: crate::ErasedExecutable::run_profiled
//! [`Executable::run_profiled`]: crate::Executable::run_profiled

pub use crate::measure::{Activity, Profile, ProfileRow, ProfiledNode, Scope, Span};
pub use crate::plan::{Estimate, NodeCost};
