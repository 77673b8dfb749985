//! Runs the cases of every primitive and the ONNX test cases on rten, with the CPU backend for nodes that it
//! cannot run.

bb::conformance!(bb_rten::Rten::new());
