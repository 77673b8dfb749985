//! The GPU backend of `bb`, based on wgpu. It generates WGSL, pools buffers, and submits commands in batches.
//!
//! [`Wgpu`] implements the `Backend` trait on [`Tensor`], a handle to a view of a buffer on the device. Elements are copied to the host
//! only when they are read, and commands are submitted in batches. The page `writing-a-device-backend.md` of `bb` walks through this
//! crate.
//!
//! | module | contents |
//! |---|---|
//! | `open` | opening adapters by index and name |
//! | `device` | the device, its loss, and its errors |
//! | `pool` | buffers and memory limits |
//! | `stream` | recording, submitting, waiting, and reading |
//! | `pipelines` | compiled kernels, by typed keys |
//! | `wgsl` | the sources of kernels |
//! | `services` | lifecycle, memory, and user kernels |
//! | `later` | asynchronous completion |
//! | `ops` | types, shapes, and kernel calls |
//! | `ext` | operations beyond the primitives |
//!
//! A program that opens backends by name links this backend with `use bb_wgpu as _;`.

// Code outside this workspace depends on `bb`, which re-exports `bb_core`. This crate uses only `bb_core`, so it compiles in parallel
// with the operator crates.
extern crate bb_core as bb;

/// Runs the program of the guide as a doctest.
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
