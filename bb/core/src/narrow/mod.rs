//! Runs every model on a backend that lacks element types.
//!
//! A device often has only `f32`, `i32` and `bool`, while models have `i64` indices, `u8` images and `bf16` weights.
//! [`Narrowed`] wraps a backend that lacks types. Its tensors have every element type. Each tensor stores its elements in one
//! of three ways:
//!
//! 1. The backend has the type: the tensor is a tensor of the backend.
//! 2. The backend has a type that stores all elements exactly, as `i32` stores small `i64` values: the tensor is a tensor of
//!   the backend in this storage type (`held.rs`), and records its own element type.
//! 3. Otherwise the elements stay on the host.
//!
//! No result is ever approximated. For integers that are stored in another type, `Narrowed` keeps a range of values
//! (`range.rs`): the actual range for elements from the host, and a range from interval arithmetic for computed elements. An
//! operation whose result is in the range of the storage type runs on the backend. If the result may exceed it, the operation
//! is checked again with the ranges of the actual elements. If it may still exceed the type, the host computes it (`host.rs`).
//! Arithmetic of small integers wraps as in their own type (`wrap.rs`).
//!
//! A backend that runs whole graphs gets them in its own types (`graph.rs`).
//!
//! Floats are stored in another float type only if the program that opens the backend accepts that they are rounded
//! ([`OpenOptions::narrow_floats`](crate::OpenOptions::narrow_floats)).

mod backend;
mod borrowed;
mod cast;
mod cause;
mod execute;
mod graph;
mod graph_parts;
mod host;
mod natives;
mod offered;
mod own;
mod parts;
mod prepared;
mod range_report;
mod shape_only;
mod wrap;

pub(crate) use crate::erased::Holding;
pub(crate) use crate::erased::NarrowTensor;
pub(crate) use crate::erased::range::Range;
use crate::plan::NarrowedGraph;
pub use backend::{Narrowed, NarrowedOn};
pub(crate) use borrowed::{execute_borrowed, execute_kept};
pub use execute::execute_itself;
pub(crate) use execute::execute_with_kept;
use own::needs_no_narrowing;
pub use range_report::exceeding;
