//! Tests what `check` accepts, what it returns, and what it refuses.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod build;
mod claims;
mod contents;
mod functions;
mod graphs;
mod operators;
mod repeated;
mod shapes;
mod subgraphs;
