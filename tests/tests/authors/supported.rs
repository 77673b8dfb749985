//! Tests whether a device is said to be supported.

use bb::{Backend, Device, OpenOptions, Registry, TensorData};
use bb_cpu::Cpu;
use bb_reference::Reference;
use bb_tests::on_reference::by_reference;

/// A backend with two devices.
#[derive(bb::Backend)]
#[bb(name = "two", open = Two::open, devices = Two::devices, options(device))]
struct Two;

impl Two {
    fn open(_options: &OpenOptions) -> Two {
        panic!("nobody opens it")
    }

    fn devices() -> Vec<Device> {
        vec![Device::new("left", "the first"), Device::new("right", "the second")]
    }
}

impl Backend for Two {
    type Tensor = bb_reference::Tensor;
    type Error = bb_reference::Error;

    bb::forward_to_call!(by_reference);

    fn to_host(&self, x: &bb_reference::Tensor) -> Result<TensorData, bb_reference::Error> {
        Reference.to_host(x)
    }
}

#[test]
fn whether_a_device_is_supported_is_yes_or_no_and_opens_nothing() {
    let registry = Registry::builder().declared::<Two>().declared::<Cpu>().build();
    for name in ["two", "two:left", "two:right", "two:0", "two:1", "cpu"] {
        assert!(registry.supports_device(name), "{name}");
    }
    for name in ["", "tpu", "two:", "two:2", "two:middle", "cpu:0", ":left", "tpu:left"] {
        assert!(!registry.supports_device(name), "{name}");
    }
    let twice = Registry::builder().declared::<Cpu>().declared::<Cpu>().build();
    assert!(!twice.supports_device("cpu"), "no name is found while two backends share one");
}
