//! Exchange of host tensors with other libraries by DLPack.
//!
//! DLPack is a C structure that NumPy, PyTorch, JAX and others give and take. [`Managed`] owns one: it was made of a
//! `TensorData`, or came from another library. The structure's deleter is called exactly once, by its last owner.
//!
//! Source: `dlpack.h`, version 1.1, of <https://github.com/dmlc/dlpack>. The structure is `DLManagedTensor`, which every
//! version of the header has.

mod error;
#[expect(unsafe_code, reason = "reads and writes structures that C libraries share by pointer")]
mod managed;
mod raw;
#[cfg(test)]
mod tests;

pub use error::DlpackError;
pub use managed::Managed;
pub use raw::{DLDataType, DLDevice, DLManagedTensor, DLTensor};
