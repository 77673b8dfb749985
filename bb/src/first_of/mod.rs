//! A backend that combines several: each operation runs on a backend that supports it.
//!
//! `settings` has the backends and the pins, `weigh` estimates costs, `place` chooses the backend of each node, and `program` runs
//! the parts of a graph.

mod backend;
mod counts;
mod error;
mod named;
mod place;
mod program;
mod settings;
mod several;
mod weigh;

pub use counts::Transfers;
pub use error::FirstOfError;
pub use settings::Fallback;
pub use several::{FirstOf, first_of};
