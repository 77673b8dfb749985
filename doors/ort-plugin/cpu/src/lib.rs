//! The CPU backend as a plugin of ONNX Runtime.

// The features of `bb` link decoders and an engine of regular expressions.
use bb as _;
// Layers stand on the backend by the option `backend`.
use bb_layers as _;

bb_ort_plugin::export!(bb_cpu::Cpu);
