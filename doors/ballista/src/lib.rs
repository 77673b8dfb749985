//! Runs models over tables in SQL: `SELECT bb_run('model.onnx', x) FROM points`.
//!
//! The functions work in one process, on Apache DataFusion ([`session`]), and on all machines of an Apache Ballista cluster ([`cluster`]).
//! `bb/docs/cluster.md` explains how columns become tensors and results become columns.
//!
//! The crate has no query engine of its own: DataFusion plans and runs queries, Ballista distributes them, and a backend of `bb` runs
//! models. A model is a function of one row; joins, groups and sorts are written in SQL.
#![forbid(unsafe_code)]

mod cache;
pub mod cluster;
mod columns;
mod element_types;
mod error;
mod external;
mod function;
mod location;
mod model;
mod process;
mod results;
pub mod session;
mod stores;
mod task;
mod types;

pub use error::{Chain, Error};
pub use function::{RunSettings, bb_run, bb_run_volatile};
pub use location::{ModelHash, ModelRef};
pub use process::bb_process;
pub use stores::Stores;
pub use task::reason;

// These crates are imported so that the linker includes them.
#[cfg(feature = "cpu")]
use bb_cpu as _;
#[cfg(feature = "ort")]
use bb_ort as _;
#[cfg(feature = "reference")]
use bb_reference as _;
#[cfg(feature = "rten")]
use bb_rten as _;
#[cfg(feature = "whole-graph")]
use bb_whole_graph as _;

/// Runs the programs of the page about clusters as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../bb/docs/cluster.md")]
mod cluster_page {}
