//! Tests that a backend whose tensors cannot be read without `to_host` passes the conformance suite.

bb::conformance!(bb_tests::device::Device::start().expect("a thread can be started"));
