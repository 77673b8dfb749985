//! Tests of rules that hold for all primitives.

mod operands;
mod refusals;
mod types;

pub use operands::{erasure, rank_zero, threads, views_as_operands, zero_extents};
pub use refusals::{mixed_types, wrong_arguments};
pub use types::element_types;
