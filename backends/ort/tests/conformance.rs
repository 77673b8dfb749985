//! Runs the cases of every primitive and the ONNX test cases on ONNX Runtime, with the CPU backend for nodes that
//! it cannot run.

bb::conformance!(bb_ort::Ort::new().expect("ONNX Runtime"));
