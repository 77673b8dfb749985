//! Deployments: models, components and backends, bound together and checked as a whole before anything runs.
//!
//! A model whose operators are bound to several backends is cut into parts. Each part is sent as a whole to its
//! backend's [`dispatch`](crate::Backend::dispatch). A value that is transferred from one backend to another is copied
//! through the host. [`Deployment`](crate::Deployment) is the result, and [`Component`](crate::Component) is an
//! operator that a user writes.

mod builder;
pub(crate) mod component;
pub(crate) mod models;
mod parts;
mod prepare;
mod ready;
mod rule;
mod run;
mod unused;

pub use crate::placement::{Executor, NodePlacement, PlacedPart, Placement, Side, Transfer};
pub use builder::{DeploymentBuilder, ModelSource};
pub use models::Model;
pub use parts::BackendSubgraph;
