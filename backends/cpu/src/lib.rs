//! The CPU backend of `bb`: SIMD kernels, views and threads.
//!
//! [`Cpu`] implements the `Backend` trait on [`Array`], a cheap handle; several arrays may share the same elements. An operation that only
//! moves dimensions copies nothing. Buffers come from a pool and return to it, so a program that repeats the same work touches no new
//! memory pages.
//!
//! A kernel shares long work with other threads: with the backend's own threads ([`CpuBuilder::threads`]), or otherwise with the team that
//! all backends without their own threads share. Kernels called on one of rayon's threads use rayon's threads. The calling thread works
//! too, and never waits for a sleeping thread. Shorter work is shared only while those threads are awake. Results do not depend on the
//! number of threads.
//!
//! # From a method to its kernel
//!
//! Each method calls a function in `ops`, which determines element types, shapes and strides and allocates the result. The module `kernels`
//! contains the loops for each operation and element type, which are compiled for each instruction set.
//!
//! | methods | types and shapes | kernel selection | loop | arithmetic |
//! |---|---|---|---|---|
//! | `neg abs sqrt exp log`, `relu tanh …` | `ops::elementwise::unary` | `kernels::elementwise::unary` | `kernels::walk` | `Number`, `kernels::math` |
//! | `add sub mul div equal greater less`, `maximum …` | `ops::elementwise::binary` | `kernels::elementwise::binary` | `kernels::walk` | `Number` |
//! | `pow` | `ops::power` | `kernels::elementwise::{binary, integer_power}` | `kernels::walk` | `kernels::math`, `number::power` |
//! | `where` | `ops::elementwise::select` | `kernels::elementwise::select` | `kernels::walk` | copies by element size |
//! | `reduce_*` | `ops::reduce` | `kernels::reduce::kernel` | `reduce::Kernel::run` | `reduce::{general, rows, columns}` |
//! | `matmul` | `ops::matmul` | `gemm::products` | `gemm::{batched, gemm}` | `gemm::tile`, `dot`, `stream` |
//! | `matmul` by a constant, in a plan | `prepare::product` | `gemm::panels` | `gemm::{panels, blocked}` | `gemm::tile` |
//! | `matmul_integer conv_integer qlinear_conv …` | `ext::quant` | `gemm::integer::product` | `gemm::integer` | `gemm::integer::quads` |
//! | `quantize_linear requantize lookup …` | `ext::quant::elements` | `kernels::quantize` | `kernels::quantize` | `kernels::quantize` |
//! | `matmul_n_bits` | `ext::quant::n_bits` | `gemm::n_bits::Format` | `ext::quant::n_bits` | `gemm::n_bits` |
//! | `matmul_n_bits` of rounded rows | `ext::quant::n_bits` | `gemm::blocks::kernels` | `gemm::blocks` | `gemm::blocks::tile` |
//! | `attention`, `ragged_attention` | `ext::attention`, `ext::ragged` | | `gemm`, `kernels::softmax` | `gemm::tile` |
//! | `rnn gru lstm` | `ext::recurrent` | | `ext::recurrent` | `kernels::recurrent` |
//! | `tree_ensemble` | `ext::ml` | `kernels::forest::packed` | `kernels::forest::walks` | `kernels::forest::{top, walks}` |
//! | `concat gather`, copies of views | `ops::join`, `ops::dense` | element size | `kernels::moves` | `moves::line`, `transpose` |
//! | `cast` | `ops::convert` | `bb::ir::convert` | | |
//! | `reshape transpose slice split squeeze unsqueeze` | `ops::views` | no kernel: the result is a view | | |
//!
//! A program that opens backends by name links this backend with `use bb_cpu as _;`.

// Code outside this workspace depends on `bb`, which re-exports `bb_core`. This crate uses only `bb_core`, so it compiles in parallel with
// the operator crates.
extern crate bb_core as bb;

mod array;
mod backend;
mod caches;
mod cpu;
mod error;
#[expect(unsafe_code, reason = "operations hand pointers of checked extents to kernels")]
mod ext;
#[expect(unsafe_code, reason = "threads call a function through a pointer that outlives their calls")]
mod gate;
#[doc(hidden)]
#[expect(unsafe_code, reason = "matrix kernels read and write through pointers and strides")]
pub mod gemm;
#[expect(unsafe_code, reason = "kernels read and write through pointers and strides")]
mod kernels;
mod layout;
mod level;
#[expect(unsafe_code, reason = "operations hand pointers of checked extents to kernels")]
mod ops;
mod pace;
#[expect(unsafe_code, reason = "a pool hands out raw blocks and counts their owners")]
mod pool;
mod prepare;
mod services;
mod storage;
mod sync;
mod team;
mod threads;

pub use array::{Array, SoleElements};
pub use cpu::{Cpu, CpuBuilder, StartedThreads};
pub use error::CpuError;
pub use team::ThreadWork;
