//! Deployments: models, components and backends bound together, checked as a whole before anything runs.
//!
//! A model whose operators are bound to several backends is cut into parts. Each part goes as a whole to its backend's
//! [`dispatch`](crate::Backend::dispatch). A value that crosses from one backend to another goes by way of the host.
//! [`Deployment`](crate::Deployment) is the result, and [`Component`](crate::Component) is an operator of a user's own.

mod builder;
mod carrier;
pub(crate) mod component;
mod cut;
pub(crate) mod models;
mod ready;
mod report;
mod rule;
mod run;
mod unused;

pub use builder::{DeploymentBuilder, ModelSource};
pub use carrier::BackendSubgraph;
pub use models::Model;
pub use report::{Executor, NodePlacement, Placement, Side, Transfer};
