//! ONNX Runtime.
