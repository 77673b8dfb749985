//! Runs everything on a backend that lacks element types.
//!
//! A device often has only `f32`, `i32` and `bool`, while models have `i64` indices, `u8` pictures and `bf16` weights.
//! [`Narrowed`] wraps a backend that lacks types. Its tensors have every element type; each holds its elements
//! in one of three ways:
//!
//! 1. The backend has the type: the tensor is the backend's.
//! 2. The backend has a type that holds all elements exactly, as `i32` holds small `i64`: the tensor is one of the backend in
//!    that type (`erased/holding.rs`), and remembers its own element type.
//! 3. Neither: the elements stay on the host.
//!
//! No result is ever approximated. For integers that are held in another type, `Narrowed` knows a range of values
//! (`erased/range.rs`): the actual range for elements from the host, and a range from interval arithmetic for computed elements.
//! An operation whose result is in range of the held type runs on the backend. One that may leave it
//! is checked with the actual elements, and if these do leave it, the host computes it (`host.rs`). Arithmetic of
//! small integers wraps as their type does (`wrap.rs`).
//!
//! A backend that takes whole graphs gets them in its types (`graph.rs`).
//!
//! Floats are held in another float only if the program that opens the backend accepts that they are rounded
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
