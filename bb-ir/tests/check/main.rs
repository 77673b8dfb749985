//! What `check` accepts, what it makes of it, and what it refuses.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod build;
mod functions;
mod graphs;
mod shapes;
mod subgraphs;
