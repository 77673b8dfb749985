//! Exchanges host tensors with other libraries through DLPack.
//!
//! DLPack is a C structure that NumPy, PyTorch, JAX and other libraries exchange. A [`Managed`] owns the structure,
//! which was created from a `TensorData` or comes from another library. The last owner calls the structure's deleter
//! exactly once.
//!
//! Source: `dlpack.h`, version 1.1, of <https://github.com/dmlc/dlpack>. The structure is `DLManagedTensor`, which
//! exists in every version of the header.

mod error;
#[expect(unsafe_code, reason = "reads and writes structures that C libraries share by pointer")]
mod managed;
mod raw;
#[cfg(test)]
mod tests;

pub use error::DlpackError;
pub use managed::Managed;
pub use raw::{DLDataType, DLDevice, DLManagedTensor, DLTensor};
