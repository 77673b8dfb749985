//! Tests that what a stranger makes long ends in time and takes memory in proportion.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod host;
mod sequences;
