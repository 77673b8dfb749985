//! The GPU backend of `bb` on wgpu: generated WGSL, pooled buffers, batched submissions.
//!
//! [`Wgpu`] implements the contract on [`Tensor`], a handle to a view of a buffer on the device. Elements are copied to the host only
//! when they are read, and commands are submitted in batches. The page `writing-a-device-backend.md` of `bb` walks through this crate.
//!
//! | module | has |
//! |---|---|
//! | `open` | adapters by number and name |
//! | `device` | the device, its loss, its errors |
//! | `pool` | buffers and limits of memory |
//! | `stream` | recording, submitting, waiting, reading |
//! | `pipelines` | compiled kernels by typed keys |
//! | `wgsl` | the sources of kernels |
//! | `services` | lifecycle, memory, kernels of users |
//! | `later` | answers that come later |
//! | `ops` | types, shapes and calls of kernels |
//! | `ext` | operations beyond the primitives |
//!
//! To link the backend, name it: `use bb_wgpu as _;`.

// External authors write `bb`, which exports the same names. This crate needs only the core, and compiles in parallel with the operators.
extern crate bb_core as bb;

/// The program of the guide, as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../bb/docs/writing-a-device-backend.md")]
mod guide {}

mod backend;
mod device;
mod elem;
mod error;
mod ext;
mod later;
mod layout;
mod open;
mod ops;
#[cfg(feature = "passthrough")]
#[expect(unsafe_code, reason = "a shader that nobody validated reaches the driver")]
mod passthrough;
mod services;
mod tensor;
mod wgsl;

pub use device::pool::MemoryStats;
pub use device::stream::StreamStats;
pub use error::{DeviceError, Result, WgpuError};
pub use open::{Wgpu, WgpuBuilder};
pub use services::SharedBuffer;
pub use tensor::Tensor;
