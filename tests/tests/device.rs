//! A backend whose tensors cannot be read without `to_host` keeps what every primitive promises.

bb::conformance!(bb_tests::device::Device::start().expect("a thread can be started"));
