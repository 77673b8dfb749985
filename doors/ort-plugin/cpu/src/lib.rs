//! Exports the CPU backend as a plugin of ONNX Runtime.
#![forbid(unsafe_code)]

// Enables the feature `mmap` of `bb`, which maps model files into memory.
use bb as _;
use bb_operators as _;
// Links the layers, which users select with the option `backend`.
use bb_layers as _;

bb_ort_plugin::export!(bb_cpu::Cpu);
