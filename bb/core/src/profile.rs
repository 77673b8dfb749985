//! The cost of a run: estimated before the run ([`Estimate`]), or measured during it ([`Profile`]).
//!
//! [`Module::estimate`](crate::Module::estimate) computes an estimate. [`ErasedExecutable::run_profiled`] and
//! [`Executable::run_profiled`] add a run to a profile.
//!
//! [`ErasedExecutable::run_profiled`]: crate::ErasedExecutable::run_profiled
//! [`Executable::run_profiled`]: crate::Executable::run_profiled

pub use crate::plan::{Activity, Estimate, NodeCost, Profile, ProfileRow, ProfiledNode, Scope, Span};
