//! The rules of operators that tell the types of results before inputs arrive; rows of topics name them.
//!
//! A rule says what is sure and nothing else: what it cannot tell, an odd attribute included, it leaves to the function
//! that runs the node.

pub(in crate::onnx) mod attention;
pub(in crate::onnx) mod collections;
pub(in crate::onnx) mod early;
pub(in crate::onnx) mod elements;
pub(in crate::onnx) mod ml;
pub(in crate::onnx) mod movement;
pub(in crate::onnx) mod products;
pub(in crate::onnx) mod windows;
