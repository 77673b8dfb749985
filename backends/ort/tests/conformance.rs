//! Runs the cases of every primitive and ONNX's cases on ONNX Runtime, with the CPU backend for what it cannot run.

bb::conformance!(bb_ort::Ort::new().expect("ONNX Runtime"));
