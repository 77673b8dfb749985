//! The CPU backend of `bb`: SIMD kernels, views and threads.
//!
//! [`Cpu`] implements the contract on [`Array`], a handle to elements that other arrays may share. An operation that
//! only moves dimensions copies nothing. Buffers come from a pool and return to it, so a program that runs the same
//! work repeatedly touches no new pages.
//!
//! A kernel shares long work with other threads: the backend's own ([`CpuBuilder::threads`]), otherwise the team that all backends
//! without their own threads share. Kernels called on one of rayon's threads use rayon's threads. The caller's thread works too, and
//! never waits for a thread that sleeps. Shorter work is shared only while those threads are awake. Results do not depend on the number
//! of threads.
//!
//! # From a method to its kernel
//!
//! Each method calls a function in `ops`, which determines element types, shapes and strides and allocates the result.
//! `kernels` has the loop for the operation and the element type, which is compiled for each instruction set.
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
//! To link the backend, name it: `use bb_cpu as _;`.

// External authors write `bb`, which exports the same names. This crate needs only the core, and compiles in parallel with the operators.
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
