//! The CPU backend as a plugin of ONNX Runtime.

use bb_layers as _;

bb_ort_plugin::export!(bb_cpu::Cpu);
