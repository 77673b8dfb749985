//! The CPU backend as a plugin of ONNX Runtime.

// The feature `mmap` of `bb` maps the files of models.
use bb as _;
use bb_operators as _;
// Layers stand on the backend by the option `backend`.
use bb_layers as _;

bb_ort_plugin::export!(bb_cpu::Cpu);
