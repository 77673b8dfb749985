//! Tests what handles tell: loaded kernels, capabilities, status, which devices there are, and doubts about a choice.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::services::{
    DeviceInfo, DeviceKind, Doubt, KernelFormat, KernelProblem, KernelSource, OutputSpec, Requirements,
    ServiceError, UserKernel,
};
use bb::{Backend, BackendHandle, DataType, Error, OpenOptions, Registry, Runtime, TensorData};
use bb_cpu::Cpu;
use bb_reference::Reference;
use bb_tests::device::Device as Slow;
use bb_tests::lossy::Lossy;
use bb_tests::on_reference::by_reference;

fn registry() -> Registry {
    Registry::builder().declared::<Cpu>().declared::<Lossy>().declared::<Reference>().build()
}

/// Threads of instances that are closed end; instances in use stay.
#[test]
fn unused_instances_are_closed_and_opened_again() {
    let registry = Registry::builder().declared::<Cpu>().declared::<Reference>().build();
    for name in ["cpu(threads=3)", "first_of(cpu, reference)", "first_of(cpu,reference)"] {
        let used = registry.backend(name).unwrap();
        registry.close_unused();
        assert_eq!(registry.backend(name).unwrap().owner(), used.owner(), "{name} is in use");
        let closed = used.owner();
        drop(used);
        registry.close_unused();
        assert_ne!(registry.backend(name).unwrap().owner(), closed, "{name} is opened again");
    }
}

#[test]
fn a_loaded_kernel_tells_its_bindings_immediates_and_workgroup() {
    let on = registry().backend("lossy").unwrap();
    let kernels = on.kernels().unwrap();
    let text = "@compute @workgroup_size(8, 4) fn main() {}".to_owned();
    kernels.load(UserKernel::new("k", KernelSource::Wgsl(text), 2, 1).with_immediates(12)).unwrap();
    let info = kernels.info("k").unwrap();
    assert_eq!((info.name.as_str(), info.format, info.entry.as_str()), ("k", KernelFormat::Wgsl, "main"));
    assert_eq!((info.inputs, info.outputs, info.bindings(), info.immediates), (2, 1, 3, 12));
    assert_eq!(info.workgroup, Some([8, 4, 1]));
    let unknown = kernels.info("other").unwrap_err();
    let Error::Service { source: ServiceError::Kernel { problem, .. }, .. } = unknown else {
        panic!("{unknown:?}")
    };
    assert_eq!(problem, KernelProblem::Unknown { loaded: vec!["k".to_owned()] });

    let cpu = registry().backend("cpu").unwrap();
    let kernels = cpu.kernels().unwrap();
    kernels
        .load(UserKernel::host("copy", 1, 1, |call| {
            call.outputs[0].copy_from_slice(call.inputs[0]);
            Ok(())
        }))
        .unwrap();
    assert_eq!(kernels.info("copy").unwrap().workgroup, None);
}

#[test]
fn a_kernel_runs_without_the_caller_waiting() {
    let on = registry().backend("lossy").unwrap();
    let device = on.typed::<Lossy>().unwrap().board().clone();
    let kernels = on.kernels().unwrap();
    kernels.load(UserKernel::new("copy", KernelSource::Wgsl("x".to_owned()), 1, 1)).unwrap();
    let x = on.tensor(&[1], &[5f32]).unwrap();
    device.stop();
    // The call returns although the device stands still.
    let running = kernels.run_async("copy", &[&x], &[OutputSpec::new(DataType::F32, &[1])], &[], [1; 3]);
    device.go_on();
    let made = running.wait().unwrap();
    assert_eq!(made[0].to_host(4).unwrap().as_slice::<f32>().unwrap(), [5.0]);
    let refused = kernels.run_async("paste", &[&x], &[], &[], [1; 3]).wait();
    assert!(matches!(refused, Err(Error::Service { source: ServiceError::Kernel { .. }, .. })));
}

/// A chip that describes itself.
struct Chip;

impl Backend for Chip {
    type Tensor = bb_reference::Tensor;
    type Error = bb_reference::Error;

    bb::forward_to_call!(by_reference);

    fn to_host(&self, x: &bb_reference::Tensor) -> Result<TensorData, bb_reference::Error> {
        Reference.to_host(x)
    }

    fn types(&self) -> bb::DataTypes {
        bb::DataTypes::of(&[DataType::F32, DataType::I32, DataType::Bool])
    }

    fn device_info(&self) -> DeviceInfo {
        DeviceInfo::new(DeviceKind::Accelerator)
            .with_greatest_rank(5)
            .with_alignment(128)
            .with("tile", "64")
            .with("tile", "32")
    }
}

#[test]
fn capabilities_tell_the_device_and_what_the_author_adds() {
    // It lacks types, so that it runs inside of what gives it all.
    let chip = BackendHandle::new(Runtime::erased("chip", Chip, &[]));
    let can = chip.runtime().capabilities();
    assert_eq!(
        (can.device.kind, can.device.greatest_rank, can.device.alignment),
        (DeviceKind::Accelerator, Some(5), Some(128))
    );
    assert_eq!((can.device.get("tile"), can.device.get("clock")), (Some("32"), None));
    assert!(!can.has_native_attention());
    let registry = registry();
    let cpu = registry.backend("cpu").unwrap().runtime().capabilities();
    assert_eq!((cpu.device.kind, cpu.device.alignment), (DeviceKind::Cpu, Some(64)));
    assert!(cpu.has_native_attention() && cpu.device.get("instructions").is_some());
    let reference = registry.backend("reference").unwrap().runtime().capabilities();
    assert_eq!(reference.device, DeviceInfo::default());
}

#[test]
fn the_status_has_the_last_error_and_the_memory() {
    let on = registry().backend("cpu").unwrap();
    let before = on.runtime().status();
    assert_eq!(before.last_error, None);
    let x = on.tensor(&[100], &[1f32; 100]).unwrap();
    let y = on.neg(&x).unwrap();
    assert!(on.runtime().status().memory.unwrap().live >= 400);
    assert!(on.add(&y, &on.tensor(&[3], &[1f32; 3]).unwrap()).is_err());
    let after = on.runtime().status();
    let text = after.last_error.clone().unwrap();
    assert!(text.contains("`add`") && text.contains("[100]"), "{text}");
    // A call that succeeds does not clear it.
    on.neg(&x).unwrap();
    assert_eq!(on.runtime().status().last_error, after.last_error);
    assert_eq!(registry().backend("reference").unwrap().runtime().status().memory, None);
}

#[test]
fn a_backend_whose_free_memory_is_unknown_is_found_with_a_doubt() {
    let needs = |bytes| Requirements { memory: Some(bytes), ..Requirements::default() };
    let linked = registry().backends().unwrap();
    let certain = linked.find_with_doubts(&needs(1 << 20)).unwrap();
    assert_eq!((certain.backend.name(), certain.doubts.len()), ("cpu", 0));
    let doubtful = linked.find_with_doubts(&needs(u64::MAX)).unwrap();
    assert_eq!(doubtful.backend.name(), "lossy");
    assert_eq!(doubtful.doubts, [Doubt::Memory { needed: u64::MAX }]);
    assert!(doubtful.doubts[0].to_string().contains("does not tell"));
    // A backend without doubts goes first, regardless of its name.
    let linked = Registry::builder().declared::<Slow>().declared::<Reference>().build().backends().unwrap();
    assert_eq!(linked.find(&Requirements::default()).unwrap().name(), "device");
    let none = needs(1);
    assert!(linked.find(&Requirements { asynchronous: true, ..none }).is_err());
}

#[test]
fn options_are_built_by_setters() {
    let threads = std::num::NonZeroUsize::new(2).unwrap();
    let options =
        OpenOptions::default().with_device("left").with_threads(threads).with_memory(7).with_narrow_floats();
    assert_eq!(options.device.as_deref(), Some("left"));
    assert_eq!((options.threads, options.memory, options.narrow_floats), (Some(threads), Some(7), true));
}
