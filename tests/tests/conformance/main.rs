//! The conformance suite: on backends of all kinds and on wrong ones, and ONNX's own cases.

mod coverage;
mod device;
mod few_types;
mod first_of;
mod least_types;
mod newcomer;
mod onnx_cases;
mod suite;
