//! Tests the models that `check` accepts, its results, and the models that it refuses.

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
