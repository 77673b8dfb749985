//! Tests of rules that hold for all primitives.

mod graphs;
mod operands;
mod refusals;
mod types;

pub use graphs::graphs;
pub use operands::{erasure, rank_zero, threads, views_as_operands, zero_extents};
pub use refusals::{mixed_types, wrong_arguments};
pub use types::element_types;
