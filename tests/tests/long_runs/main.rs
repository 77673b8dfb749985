//! Tests that runs made long by untrusted input end in time and take memory in proportion.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod host;
mod sequences;
