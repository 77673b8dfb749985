//! Runs the cases of every primitive and ONNX's cases on rten, with the CPU backend for what rten cannot run.

bb::conformance!(bb_rten::Rten::new());
