//! Tests the C interface from both sides: libraries in C and in Rust, libraries that violate the interface, and programs.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
#![allow(unsafe_code, reason = "tables of functions that are wrong are made here")]

mod abuse;
mod built;
mod declines;
mod everywhere;
mod header;
mod later;
mod leaks;
mod messages;
mod plain;
mod rust;
