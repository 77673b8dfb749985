//! Shared code of backends that wrap a third-party engine.
//!
//! Such an engine has ONNX operators of its own: it gets models as they are, and only what it cannot run goes elsewhere.
//! Its crate writes an [`Engine`], which loads and runs serialized models, and a table of its [gaps](Gap): the operators
//! that it lacks or computes otherwise than ONNX says. [`implement_backend!`](crate::implement_backend) makes backends of it; they
//! differ in what happens in the gaps, which is the [`Rest`].
//!
//! A model is cut into parts that the engine runs, each as one session, and parts that it does not. Tensors lie in the
//! memory of the host, and are lent to the engine.
#![forbid(unsafe_code)]

mod alone;
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
pub use engine::{Engine, Signature};
pub use error::{EngineError, Refusal};
pub use gap::{Gap, Reason, When};
pub use host::Host;
pub use program::Program;
pub use rest::Rest;
pub use whole::Whole;

#[doc(hidden)]
pub use bb;
