//! The CPU backend of `bb`: SIMD kernels, views and threads.
//!
//! [`Cpu`] implements the contract on [`Array`], a handle to elements that other arrays may share:
//! what only moves dimensions copies nothing. Buffers come from a pool and return to it, so that a
//! program in its steady state touches no new pages.
//!
//! A kernel shares work that is long enough with other threads: those of rayon's current pool, or the backend's own
//! ([`CpuBuilder::threads`]). The caller's thread works too and waits for nobody who sleeps. Less work is long enough while
//! those threads are awake; results do not depend on how many there are.
//!
//! Naming the backend links it: `use bb_cpu as _;`.

mod array;
mod backend;
mod error;
#[expect(unsafe_code, reason = "operations hand pointers of checked extents to kernels")]
mod ext;
#[doc(hidden)]
#[expect(unsafe_code, reason = "matrix kernels read and write through pointers and strides")]
pub mod gemm;
#[expect(unsafe_code, reason = "kernels read and write through pointers and strides")]
mod kernels;
mod layout;
#[expect(unsafe_code, reason = "operations hand pointers of checked extents to kernels")]
mod ops;
#[expect(unsafe_code, reason = "a pool hands out raw blocks and counts their owners")]
mod pool;
#[doc(hidden)]
#[expect(
    unsafe_code,
    reason = "vector kernels read and write through pointers and call instruction-set intrinsics"
)]
pub mod simd;
mod storage;
#[expect(unsafe_code, reason = "threads call what outlives their calls, not their names for it")]
mod threads;

pub use array::Array;
pub use backend::{Cpu, CpuBuilder};
pub use error::CpuError;
