//! Shared code of backends that wrap a third-party engine.
//!
//! The engine implements ONNX operators itself: it receives models unchanged, and only the nodes that it cannot run are run elsewhere.
//! The engine's crate implements [`Engine`], which loads and runs serialized models and has a table of its [gaps](Gap): the operators
//! that the engine lacks or does not compute as ONNX defines. [`implement_backend!`](crate::implement_backend) defines backends for the
//! engine. They differ in how they treat the gaps, which is the [`Rest`].
//!
//! A model is divided into parts that the engine runs, each as one session, and parts that it cannot run. Tensors are stored in host
//! memory, and the engine borrows them.
#![forbid(unsafe_code)]

mod backend_macro;
mod cache;
mod counts;
mod engine;
mod error;
mod gap;
mod host;
mod message;
mod program;
#[cfg(feature = "report")]
pub mod report;
mod rest;
mod several;
mod shared;
mod whole;

pub use counts::Counts;
pub use engine::{Engine, PortType, Signature};
pub use error::{EngineError, Fault, Refusal};
pub use gap::{Gap, Reason, When};
pub use host::Host;
pub use program::Program;
pub use rest::Rest;
pub use whole::Whole;

#[doc(hidden)]
pub use bb;
