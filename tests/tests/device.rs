//! A backend whose tensors cannot be read without `to_host` keeps what every primitive promises, and passes ONNX's cases.

bb::conformance!(bb_tests::device::Device::start().expect("a thread can be started"));
