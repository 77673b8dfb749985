//! The GPU backend of `bb` on wgpu: generated WGSL, pooled buffers, batched submissions.
//!
//! [`Wgpu`] implements the contract on [`Tensor`], a handle to a view of a buffer on the device. Nothing is copied to the
//! host until somebody asks for it, and commands are submitted in batches. The page `writing-a-device-backend.md` of `bb`
//! walks through this crate.
//!
//! | module | has |
//! |---|---|
//! | `open` | adapters by number and name |
//! | `device` | the device, its loss, its errors |
//! | `pool` | buffers and limits of memory |
//! | `stream` | recording, submitting, waiting, reading |
//! | `pipelines` | compiled kernels by typed keys |
//! | `wgsl` | the sources of kernels |
//! | `later` | answers that come later |
//! | `ops` | types, shapes and calls of kernels |
//! | `ext` | operations beyond the primitives |
//!
//! To link the backend, name it: `use bb_wgpu as _;`.

mod backend;
mod device;
mod elem;
mod error;
mod ext;
mod later;
mod layout;
mod open;
mod ops;
mod pipelines;
mod pool;
mod stream;
mod tensor;
mod wgsl;

pub use backend::Wgpu;
pub use error::{DeviceError, Result, WgpuError};
pub use open::WgpuBuilder;
pub use pool::MemoryStats;
pub use stream::StreamStats;
pub use tensor::{Tensor, View};
