//! The WebAssembly module for browsers: sessions on the CPU backend, with functions that JavaScript can call.
//!
//! Its public interface is `doors/web/bb.js`, with types in `doors/web/bb.d.ts`. JavaScript and this crate exchange data in numbered
//! buffers. Requests and answers are JSON in UTF-8; the bytes of models and tensors are passed unchanged. An answer has either the field
//! `ok` or the field `error`. No function takes or returns a pointer to memory that this crate does not own.
//!
//! The target does not support unwinding, so a panic ends the instance. The panic's message stays readable until JavaScript drops the
//! instance.

mod buffers;
mod exports;
mod failure;
#[cfg(feature = "generate")]
mod generate;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the page draws no frames, at whose ends boxes have anchors")
)]
#[path = "../../../cli/src/graph/layout.rs"]
mod layout;
mod load;
#[path = "../../../cli/examples/file-type/src/magika.rs"]
mod magika;
mod picture;
mod session;

use bb_onnx_ml as _;
use bb_onnx_training as _;
