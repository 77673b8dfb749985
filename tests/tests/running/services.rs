//! Tests the services of backends where they fail: a lost device, a full memory, freed buffers, work at shutdown, and kernels
//! and calls that are refused. Nothing panics, and live objects are counted.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ir::op::Family;
use bb::services::{
    BufferFault, Buffers, Difference, Fingerprint, ForeignBuffer, KernelProblem, KernelSource, OutputSpec,
    Requirements, Service, ServiceError, Unmet, UserKernel,
};
use bb::{
    Backend, BackendHandle, CompileOptions, DataType, Declared, Error, Module, OpenOptions, Primitive,
    Registry, Runtime, State, TensorData, Value,
};
use bb_cpu::Cpu;
use bb_reference::Reference;
use bb_tests::lossy::{Board, Lossy};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn registry() -> Registry {
    Registry::builder().declared::<Lossy>().declared::<Cpu>().declared::<Reference>().build()
}

fn board(of: &BackendHandle) -> Arc<Board> {
    of.typed::<Lossy>().unwrap().board().clone()
}

fn numbers(of: &Value) -> Vec<f32> {
    of.to_host(1 << 20).unwrap().as_slice::<f32>().unwrap().to_vec()
}

/// Waits until a condition holds.
fn until(holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "it does not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_lost_device_is_an_error_that_says_so_and_the_backend_is_opened_anew() {
    let registry = registry();
    let old = registry.backend("lossy").unwrap();
    let device = board(&old);
    let x = old.tensor(&[2], &[1f32, 2.0]).unwrap();
    old.synchronize().unwrap();
    assert_eq!(old.runtime().status().state, State::Ready);
    device.lose("it was unplugged");

    let Err(Error::DeviceLost { backend, reason, source }) = old.neg(&x) else { panic!("it is not lost") };
    assert_eq!((backend, reason.as_str()), (old.owner(), "it was unplugged"));
    assert_eq!(source.unwrap().to_string(), "the device does not answer");
    assert_eq!(old.runtime().status().state, State::Lost);
    // Later calls do not reach the backend.
    let error = old.neg(&x).unwrap_err();
    assert!(matches!(&error, Error::DeviceLost { source: None, .. }));
    assert_eq!(
        error.to_string(),
        format!("the device of backend `{}` is lost: it was unplugged", old.owner())
    );
    assert!(matches!(old.synchronize(), Err(Error::DeviceLost { .. })));
    assert!(matches!(x.to_host(64), Err(Error::DeviceLost { .. })));

    let new = registry.backend("lossy").unwrap();
    assert_ne!(new.owner(), old.owner());
    assert_eq!(registry.backend("lossy").unwrap().owner(), new.owner());
    let y = new.tensor(&[1], &[3f32]).unwrap();
    assert_eq!(numbers(&new.neg(&y).unwrap()), [-3.0]);
    assert!(matches!(new.neg(&x), Err(Error::ForeignTensor { .. })));

    assert!(matches!(old.shut_down(), Err(Error::DeviceLost { .. })));
    assert_eq!(old.runtime().status().state, State::ShutDown);
    drop(x);
    assert_eq!(device.tensors(), 0);
}

#[test]
fn a_loss_is_noticed_before_an_instance_is_handed_out() {
    let registry = registry();
    let old = registry.backend("lossy").unwrap();
    board(&old).lose("it was unplugged");
    assert_ne!(registry.backend("lossy").unwrap().owner(), old.owner());
    assert!(matches!(old.tensor(&[1], &[1f32]), Err(Error::DeviceLost { source: None, .. })));
}

#[test]
fn a_loss_during_a_wait_ends_it() {
    let on = registry().backend("lossy").unwrap();
    let device = board(&on);
    device.stop();
    let x = on.tensor(&[1], &[1f32]).unwrap();
    let waiting = std::thread::spawn({
        let on = on.clone();
        move || on.synchronize()
    });
    std::thread::sleep(Duration::from_millis(20));
    device.lose("it was unplugged");
    assert!(matches!(waiting.join().unwrap(), Err(Error::DeviceLost { .. })));
    drop(x);
    assert_eq!(device.tensors(), 0);
}

#[test]
fn synchronizing_and_shutting_down_wait_for_the_queue() {
    let registry = registry();
    let on = registry.backend("lossy").unwrap();
    let device = board(&on);
    let wait = |call: fn(&BackendHandle) -> Result<(), Error>| {
        device.stop();
        let before = device.done();
        let x = on.tensor(&[2], &[1f32, 2.0]).unwrap();
        let y = on.neg(&x).unwrap();
        until(|| on.runtime().status().queued == Some(2));
        let waiting = std::thread::spawn({
            let on = on.clone();
            move || call(&on)
        });
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waiting.is_finished());
        assert_eq!(device.done(), before);
        device.go_on();
        waiting.join().unwrap().unwrap();
        assert_eq!((device.done(), on.runtime().status().queued), (before + 2, Some(0)));
        drop((x, y));
    };
    wait(BackendHandle::synchronize);
    wait(BackendHandle::shut_down);
    assert!(matches!(on.tensor(&[1], &[1f32]), Err(Error::ShutDown { .. })));
    on.shut_down().unwrap();
    assert_eq!(device.tensors(), 0);
    assert_ne!(registry.backend("lossy").unwrap().owner(), on.owner());
}

#[test]
fn a_backend_without_a_service_says_so() {
    let on = registry().backend("reference").unwrap();
    on.synchronize().unwrap();
    assert_eq!(on.runtime().status().queued, None);
    let error = on.memory().unwrap_err();
    assert_eq!(error.to_string(), "backend `reference` does not offer the service `memory`");
    assert!(matches!(on.kernels(), Err(Error::NoService { service: Service::Kernels, .. })));
    let direct = on.runtime().load_kernel(UserKernel::host("f", 0, 0, |_| Ok(())));
    assert!(matches!(direct, Err(Error::NoService { service: Service::Kernels, .. })));
    assert!(matches!(on.runtime().memory_statistics(), Err(Error::NoService { .. })));
    on.shut_down().unwrap();
}

/// The number of elements of a tensor of 64 KiB.
const COUNT: usize = 1 << 14;

/// The number of bytes of a tensor of `COUNT` elements.
const SIZE: u64 = 1 << 16;

#[test]
fn a_limit_fails_an_allocation_after_the_callback_and_nothing_leaks() {
    const LIMIT: u64 = 8 * SIZE;
    let on = registry().backend_with("cpu", &OpenOptions::default().with_memory(LIMIT)).unwrap();
    let memory = on.memory().unwrap();
    assert_eq!(memory.statistics().unwrap().limit, Some(LIMIT));
    let x = on.tensor(&[COUNT], &vec![1f32; COUNT]).unwrap();
    let mut held: Vec<Value> = (0..8).map(|_| on.neg(&x).unwrap()).collect();
    let full = memory.statistics().unwrap();
    assert_eq!((full.live, full.pooled, full.peak), (LIMIT, 0, LIMIT));

    let error = on.neg(&x).unwrap_err();
    let pressure = error.memory_pressure().unwrap();
    assert_eq!((pressure.asked, pressure.live, pressure.limit), (SIZE, LIMIT, LIMIT));
    assert!(matches!(error, Error::Kernel { backend: "cpu", .. }));

    // The callback is called once for each allocation that does not fit, and may make room.
    let spare = Arc::new(Mutex::new(vec![held.pop().unwrap()]));
    let called = Arc::new(AtomicUsize::new(0));
    memory
        .on_pressure({
            let (spare, called, on, x) = (spare.clone(), called.clone(), on.clone(), x.clone());
            move |pressure| {
                assert_eq!(pressure.asked, SIZE);
                called.fetch_add(1, Ordering::SeqCst);
                // An allocation that fails here does not call the callback again.
                assert!(on.neg(&x).is_err());
                spare.lock().unwrap().clear();
            }
        })
        .unwrap();
    held.push(on.neg(&x).unwrap());
    assert_eq!(called.load(Ordering::SeqCst), 1);
    assert!(on.neg(&x).is_err());
    assert_eq!(called.load(Ordering::SeqCst), 2);
    assert_eq!(numbers(&held[7])[..2], [-1.0, -1.0]);

    // A callback that panics is an error of the call, and the next call works.
    memory.on_pressure(|_| panic!("no idea")).unwrap();
    assert!(matches!(on.neg(&x), Err(Error::Panicked { .. })));
    memory.ignore_pressure().unwrap();
    held.pop();
    held.push(on.neg(&x).unwrap());

    held.clear();
    let empty = memory.statistics().unwrap();
    assert_eq!((empty.live, empty.pooled), (0, LIMIT));
    assert_eq!(memory.trim(2 * SIZE).unwrap(), 6 * SIZE);
    assert_eq!(memory.trim(0).unwrap(), 2 * SIZE);
    let empty = memory.statistics().unwrap();
    assert_eq!((empty.live, empty.pooled, empty.peak), (0, 0, LIMIT));
    // Unused buffers of another size make room without a callback.
    drop(on.neg(&x).unwrap());
    memory.set_limit(Some(SIZE / 2)).unwrap();
    let half = on.tensor(&[COUNT / 2], &vec![1f32; COUNT / 2]).unwrap();
    drop(on.neg(&half).unwrap());
    assert_eq!(memory.statistics().unwrap().pooled, SIZE / 2);
    memory.set_limit(None).unwrap();
    drop(on.neg(&x).unwrap());
    on.shut_down().unwrap();
    let ended = memory.statistics().unwrap();
    assert_eq!((ended.live, ended.pooled), (0, 0));
}

#[test]
fn threads_do_not_exceed_a_limit_together() {
    let on = registry().backend_with("cpu", &OpenOptions::default().with_memory(6 * SIZE)).unwrap();
    let memory = on.memory().unwrap();
    let x = on.tensor(&[COUNT], &vec![1f32; COUNT]).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let made: Vec<_> = (0..3).map(|_| on.neg(&x)).collect();
                    for failed in made.iter().filter_map(|made| made.as_ref().err()) {
                        assert!(failed.memory_pressure().is_some(), "{failed}");
                    }
                }
            });
        }
    });
    let end = memory.statistics().unwrap();
    assert!(end.peak <= 6 * SIZE, "{end:?}");
    assert_eq!(end.live, 0);
}

#[test]
fn buffers_by_number_refuse_freed_and_foreign_ones_and_wrong_lengths() {
    let on = registry().backend("lossy").unwrap();
    let device = board(&on);
    let (table, other) = (Buffers::new(on.clone()), Buffers::new(on.clone()));
    let fault = |error: Error| match error {
        Error::BufferFault(fault) => fault,
        other => panic!("{other:?}"),
    };
    let a = table.alloc(DataType::I16, &[2, 3]).unwrap();
    let meta = table.meta(a).unwrap();
    assert_eq!((meta.dtype, &meta.shape[..], meta.bytes), (DataType::I16, &[2, 3][..], 12));
    assert_eq!(table.read(a).unwrap(), [0; 12]);
    let bytes: Vec<u8> = (1..=12).collect();
    table.write(a, &bytes).unwrap();
    assert_eq!(table.read(a).unwrap(), bytes);
    let mut into = [0; 12];
    table.read_into(a, &mut into).unwrap();
    assert_eq!(into[..], bytes);

    let wrong = BufferFault::Length { expected: 12, got: 11 };
    assert_eq!(fault(table.write(a, &bytes[1..]).unwrap_err()), wrong);
    assert_eq!(fault(table.read_into(a, &mut into[1..]).unwrap_err()), wrong);
    assert_eq!(table.read(a).unwrap(), bytes, "a refused write changes nothing");
    assert_eq!(fault(other.read(a).unwrap_err()), BufferFault::Foreign);
    assert_eq!(fault(other.free(a).unwrap_err()), BufferFault::Foreign);

    let value = table.value(a).unwrap();
    table.free(a).unwrap();
    for error in [
        table.read(a).map(drop),
        table.write(a, &bytes),
        table.meta(a).map(drop),
        table.value(a).map(drop),
        table.free(a),
    ] {
        assert_eq!(fault(error.unwrap_err()), BufferFault::Freed);
    }
    assert_eq!(value.dtype(), DataType::I16, "a tensor outlives its number");
    // The place is used again, under another number.
    let b = table.alloc(DataType::U8, &[]).unwrap();
    assert_ne!(a, b);
    assert_eq!(fault(table.read(a).unwrap_err()), BufferFault::Freed);
    assert_eq!(table.read(b).unwrap(), [0]);
    assert!(table.read(table.alloc(DataType::F32, &[0, 4]).unwrap()).unwrap().is_empty());
    assert_eq!(fault(table.alloc(DataType::String, &[1]).unwrap_err()), BufferFault::Strings);
    assert_eq!(fault(table.alloc(DataType::F64, &[usize::MAX, 2]).unwrap_err()), BufferFault::TooLarge);
    let foreign = registry().backend("reference").unwrap().tensor(&[1], &[1f32]).unwrap();
    assert!(matches!(table.put(foreign), Err(Error::ForeignTensor { .. })));

    assert_eq!(table.len(), 2);
    drop((table, other, value));
    assert_eq!(device.tensors(), 0);
}

fn problem(error: Error) -> KernelProblem {
    match error {
        Error::Service {
            service: Service::Kernels, source: ServiceError::Kernel { problem, .. }, ..
        } => problem,
        other => panic!("{other:?}"),
    }
}

/// Returns a SPIR-V module that consists of its header.
fn header(magic: u32) -> Vec<u8> {
    [magic, 0x0001_0000, 0, 1, 0].into_iter().flat_map(u32::to_le_bytes).collect()
}

fn spirv(module: Vec<u8>) -> UserKernel {
    UserKernel::new("copy", KernelSource::SpirV(module), 1, 1)
}

#[test]
fn a_faulty_kernel_is_refused_before_it_is_compiled() {
    let on = registry().backend("lossy").unwrap();
    let kernels = on.kernels().unwrap();
    let refused = |kernel: UserKernel| problem(kernels.load(kernel).unwrap_err());
    assert_eq!(refused(spirv(header(0xdead_beef))), KernelProblem::SpirVMagic { got: 0xdead_beef });
    for bytes in [0, 4, 16, 19, 21, 22] {
        let mut module = header(0x0723_0203);
        module.resize(bytes, 0);
        assert_eq!(refused(spirv(module)), KernelProblem::SpirVLength { bytes });
    }
    let wgsl = |text: &str| UserKernel::new("copy", KernelSource::Wgsl(text.to_owned()), 1, 1);
    assert_eq!(refused(wgsl(" \n")), KernelProblem::Empty { what: "source" });
    assert_eq!(refused(wgsl("x").with_entry("")), KernelProblem::Empty { what: "entry point" });
    let nameless = UserKernel::new("", KernelSource::Wgsl("x".to_owned()), 1, 1);
    assert_eq!(refused(nameless), KernelProblem::Empty { what: "name" });
    let many = UserKernel::new("copy", KernelSource::Wgsl("x".to_owned()), 8, 1);
    let what = "the number of bindings";
    assert_eq!(refused(many), KernelProblem::Limit { what, limit: 8, got: 9 });
    let what = "the number of bytes of immediates";
    assert_eq!(refused(wgsl("x").with_immediates(129)), KernelProblem::Limit { what, limit: 128, got: 129 });
    assert!(matches!(refused(UserKernel::host("f", 1, 1, |_| Ok(()))), KernelProblem::Format { .. }));
    assert_eq!(kernels.loaded().unwrap(), [""; 0]);
    // Either byte order is SPIR-V.
    for (name, magic) in [("little", 0x0723_0203_u32), ("big", 0x0302_2307)] {
        kernels.load(UserKernel::new(name, KernelSource::SpirV(header(magic)), 1, 1)).unwrap();
    }
    assert_eq!(kernels.loaded().unwrap(), ["big", "little"]);
    let again = UserKernel::new("big", KernelSource::SpirV(header(0x0723_0203)), 1, 1);
    assert_eq!(refused(again), KernelProblem::Loaded);
    let device = board(&on);
    assert_eq!(device.kernels(), 2);
    on.shut_down().unwrap();
    assert_eq!(device.kernels(), 0);
}

#[test]
fn a_call_that_does_not_fit_its_kernel_is_refused_before_it_is_submitted() {
    let on = registry().backend("lossy").unwrap();
    let kernels = on.kernels().unwrap();
    kernels.load(spirv(header(0x0723_0203)).with_immediates(8)).unwrap();
    let x = on.tensor(&[4], &[1f32, 2.0, 3.0, 4.0]).unwrap();
    let out = OutputSpec::new(DataType::F32, &[4]);
    let call = |inputs: &[&Value], outputs: &[OutputSpec], immediates: usize, grid| {
        kernels.run("copy", inputs, outputs, &vec![0; immediates], grid)
    };
    let refused = |inputs: &[&Value], outputs: &[OutputSpec], immediates, grid| {
        problem(call(inputs, outputs, immediates, grid).unwrap_err())
    };
    let made = call(&[&x], std::slice::from_ref(&out), 8, [65535, 1, 1]).unwrap();
    assert_eq!(numbers(&made[0]), [1.0, 2.0, 3.0, 4.0]);

    let count = |what, expected, got| KernelProblem::Count { what, expected, got };
    let over = |what, limit, got| KernelProblem::Limit { what, limit, got };
    let one = [out.clone()];
    assert_eq!(refused(&[], &one, 8, [1; 3]), count("the number of inputs", 1, 0));
    assert_eq!(refused(&[&x], &[], 8, [1; 3]), count("the number of outputs", 1, 0));
    assert_eq!(refused(&[&x], &one, 9, [1; 3]), count("the number of bytes of immediates", 8, 9));
    for (i, what) in ["x", "y", "z"].into_iter().enumerate() {
        let mut grid = [1; 3];
        grid[i] = 65536;
        let KernelProblem::Limit { what: named, limit: 65535, got: 65536 } = refused(&[&x], &one, 8, grid)
        else {
            panic!("{what}")
        };
        assert_eq!(named, format!("workgroups in direction {what}"));
    }
    let large = on.tensor(&[257], &[0f32; 257]).unwrap();
    assert_eq!(refused(&[&large], &one, 8, [1; 3]), over("the number of bytes of a binding", 1024, 1028));
    let endless = [OutputSpec::new(DataType::F32, &[usize::MAX, 2])];
    assert!(matches!(refused(&[&x], &endless, 8, [1; 3]), KernelProblem::Limit { got: u64::MAX, .. }));
    let text = [OutputSpec::new(DataType::String, &[1])];
    assert_eq!(refused(&[&x], &text, 8, [1; 3]), KernelProblem::Strings { index: 1 });
    let other = [OutputSpec::new(DataType::F32, &[2, 2])];
    assert!(matches!(refused(&[&x], &other, 8, [1; 3]), KernelProblem::Output { index: 0, .. }));
    let unknown = problem(kernels.run("paste", &[], &[], &[], [1; 3]).unwrap_err());
    assert_eq!(unknown, KernelProblem::Unknown { loaded: vec!["copy".to_owned()] });
    let foreign = registry().backend("reference").unwrap().tensor(&[4], &[0f32; 4]).unwrap();
    assert!(matches!(call(&[&foreign], &one, 8, [1; 3]), Err(Error::ForeignTensor { .. })));
    let device = board(&on);
    drop((x, large, made));
    assert_eq!(device.tensors(), 0);
}

#[test]
fn a_kernel_may_be_unloaded_while_it_runs() {
    let on = registry().backend("lossy").unwrap();
    let kernels = on.kernels().unwrap();
    let device = board(&on);
    kernels.load(spirv(header(0x0723_0203))).unwrap();
    let x = on.tensor(&[1], &[5f32]).unwrap();
    on.synchronize().unwrap();
    device.stop();
    let running = std::thread::spawn({
        let (kernels, x) = (kernels.clone(), x.clone());
        move || kernels.run("copy", &[&x], &[OutputSpec::new(DataType::F32, &[1])], &[], [1; 3])
    });
    until(|| device.running() == 1);
    kernels.unload("copy").unwrap();
    assert!(matches!(problem(kernels.unload("copy").unwrap_err()), KernelProblem::Unknown { .. }));
    assert_eq!(device.kernels(), 1, "the call holds it");
    // Another may be loaded under its name meanwhile.
    kernels.load(spirv(header(0x0723_0203))).unwrap();
    device.go_on();
    assert_eq!(numbers(&running.join().unwrap().unwrap()[0]), [5.0]);
    until(|| device.kernels() == 1);

    device.stop();
    let running = std::thread::spawn({
        let (kernels, x) = (kernels.clone(), x.clone());
        move || kernels.run("copy", &[&x], &[OutputSpec::new(DataType::F32, &[1])], &[], [1; 3])
    });
    until(|| device.running() == 1);
    device.lose("it was unplugged");
    assert!(matches!(running.join().unwrap(), Err(Error::DeviceLost { .. })));
    drop(x);
    drop((kernels, on));
    assert_eq!((device.kernels(), device.tensors()), (0, 0));
}

#[test]
fn a_rust_function_runs_as_a_kernel_of_the_cpu_backend() {
    let on = registry().backend("cpu").unwrap();
    let kernels = on.kernels().unwrap();
    let scale = UserKernel::host("scale", 1, 1, |call| {
        let by = f32::from_le_bytes(*call.immediates.first_chunk().ok_or("no factor")?);
        for (from, to) in call.inputs[0].chunks_exact(4).zip(call.outputs[0].chunks_exact_mut(4)) {
            let x = f32::from_le_bytes(*from.first_chunk().ok_or("no number")?);
            to.copy_from_slice(&(x * by).to_le_bytes());
        }
        Ok(())
    });
    kernels.load(scale.with_immediates(4)).unwrap();
    // The operand is a view whose elements are not next to each other.
    let x = on.tensor(&[3, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]).unwrap();
    let x = on.transpose(&x, &[1, 0]).unwrap();
    let out = [OutputSpec::new(DataType::F32, &[3, 3])];
    let made = kernels.run("scale", &[&x], &out, &2f32.to_le_bytes(), [1; 3]).unwrap();
    assert_eq!(numbers(&made[0]), [2.0, 8.0, 14.0, 4.0, 10.0, 16.0, 6.0, 12.0, 18.0]);
    let none = kernels.run("scale", &[&x], &out, &2f32.to_le_bytes(), [1, 0, 1]).unwrap();
    assert_eq!(numbers(&none[0]), [0.0; 9]);

    kernels.load(UserKernel::host("fails", 0, 0, |_| Err("out of ideas".into()))).unwrap();
    kernels.load(UserKernel::host("panics", 0, 0, |_| panic!("out of ideas"))).unwrap();
    kernels
        .load(UserKernel::host("grows", 0, 1, |call| {
            call.outputs[0].push(0);
            Ok(())
        }))
        .unwrap();
    let run = |name, outputs: &[OutputSpec]| kernels.run(name, &[], outputs, &[], [1; 3]).unwrap_err();
    assert!(matches!(run("fails", &[]), Error::Service { source: ServiceError::Backend(_), .. }));
    assert!(matches!(run("panics", &[]), Error::Panicked { .. }));
    assert!(matches!(run("grows", &out), Error::Service { source: ServiceError::Backend(_), .. }));
    assert!(matches!(
        problem(kernels.load(spirv(header(0x0723_0203))).unwrap_err()),
        KernelProblem::Format { .. }
    ));
}

#[test]
fn a_foreign_buffer_that_cannot_be_used_is_refused() {
    let on = registry().backend("cpu").unwrap();
    let memory = on.memory().unwrap();
    let data = TensorData::new(&[2], &[1f32, 2.0]).unwrap();
    let made = memory.import(ForeignBuffer::new(DataType::F32, &[2], data)).unwrap();
    assert_eq!(numbers(&made), [1.0, 2.0]);
    let unknown = memory.import(ForeignBuffer::new(DataType::F32, &[2], "text".to_owned()));
    assert!(matches!(unknown, Err(Error::Service { source: ServiceError::Foreign { .. }, .. })));
}

#[test]
fn tensors_are_exchanged_by_dlpack() {
    let on = registry().backend("cpu").unwrap();
    let memory = on.memory().unwrap();
    let x = on.tensor(&[3, 64], &[2f32; 192]).unwrap();
    let y = on.neg(&x).unwrap();
    let before = memory.statistics().unwrap().live;
    let exported = memory.export(&y).unwrap();
    assert_eq!((exported.dtype, &exported.shape[..]), (DataType::F32, &[3, 64][..]));
    drop(y);
    assert_eq!(memory.statistics().unwrap().live, before, "the export holds the memory");
    let back = memory.import(exported).unwrap();
    assert_eq!(numbers(&back), [-2.0; 192]);
    drop(back);
    assert_eq!(memory.statistics().unwrap().live, 0);
    // The buffer's declared type and shape must match the buffer.
    let managed = bb_dlpack::Managed::new(&TensorData::new(&[2], &[1i32, 2]).unwrap()).unwrap();
    let wrong = memory.import(ForeignBuffer::new(DataType::F32, &[2], managed));
    assert!(matches!(wrong, Err(Error::Service { source: ServiceError::Foreign { .. }, .. })));
    let strings = on.runtime().constant(&TensorData::strings(&[1], &["a"]).unwrap()).unwrap();
    assert!(matches!(memory.export(&strings), Err(Error::Service { .. })));
    let foreign = registry().backend("cpu").unwrap().tensor(&[1], &[1f32]).unwrap();
    assert!(matches!(memory.export(&foreign), Err(Error::ForeignTensor { .. })));
}

#[test]
fn a_backend_is_found_by_what_it_can_do_or_each_says_why_not() {
    let linked = registry().backends().unwrap();
    assert_eq!(linked.find(&Requirements::default()).unwrap().name(), "cpu");
    let primitives = Requirements { families: vec![Family::Primitive], ..Requirements::default() };
    assert_eq!(linked.find(&primitives).unwrap().name(), "cpu");
    let native =
        Requirements { operations: vec![bb::ext::BitsOp::BitShift.spec()], ..Requirements::default() };
    assert_eq!(linked.find(&native).unwrap().name(), "cpu");
    let asynchronous = Requirements { asynchronous: true, ..Requirements::default() };
    assert_eq!(linked.find(&asynchronous).unwrap().name(), "lossy");
    let types = Requirements { types: DataType::ALL.to_vec(), ..Requirements::default() };
    assert!(linked.find(&types).is_ok());
    let memory = Requirements { memory: Some(1 << 20), ..Requirements::default() };
    assert_eq!(linked.find(&memory).unwrap().name(), "cpu");

    let all = Requirements {
        families: vec![Family::Bits],
        operations: vec![bb::ext::NnOp::Softmax.spec(), Primitive::Add.spec()],
        memory: Some(u64::MAX),
        asynchronous: true,
        ..Requirements::default()
    };
    let Err(Error::NoCandidate { candidates }) = linked.find(&all) else { panic!("one is found") };
    let names: Vec<&str> = candidates.0.iter().map(|candidate| candidate.backend).collect();
    assert_eq!(names, ["cpu", "lossy", "reference"]);
    let [cpu, lossy, reference] = &candidates.0[..] else { panic!() };
    assert!(matches!(
        &cpu.unmet[..],
        [Unmet::Family { family: Family::Bits, missing }, Unmet::Memory { needed: u64::MAX, .. }, Unmet::Synchronous]
            if missing.contains(&"bitwise_and") && !missing.contains(&"bit_shift")
    ));
    assert!(matches!(
        &lossy.unmet[..],
        [Unmet::Family { family: Family::Bits, .. }, Unmet::Operation("softmax")]
    ));
    assert_eq!(reference.unmet.len(), 3);
    let text = Error::NoCandidate { candidates: candidates.clone() }.to_string();
    assert!(
        text.contains("`lossy`: of `Bits`, these are not native: ") && text.contains("`softmax`"),
        "{text}"
    );

    let none = Registry::builder().build().backends().unwrap();
    let error = none.find(&Requirements::default()).unwrap_err();
    assert_eq!(error.to_string(), "no backend meets the requirements: none is linked");
}

#[test]
fn plans_and_peers_with_another_fingerprint_are_refused_with_what_differs() {
    // Two builds of one backend. One of them lacks the kernels.
    let full = BackendHandle::new(Runtime::with_families("cpu", Cpu::new(), Cpu::FAMILIES));
    let bare = BackendHandle::new(Runtime::with_families("cpu", Cpu::new(), &Cpu::FAMILIES[1..]));
    full.check_peer(&full.fingerprint().to_bytes()).unwrap();
    let family = Cpu::FAMILIES[0].family().name().to_owned();
    let Err(Error::Fingerprint { of: "the peer", differences }) =
        full.check_peer(&bare.fingerprint().to_bytes())
    else {
        panic!("it is accepted")
    };
    assert_eq!(differences.0, [Difference::Family { family: family.clone(), here: true }]);
    let other = registry().backend("reference").unwrap();
    let differences = full.fingerprint().differences(&other.fingerprint());
    assert!(matches!(&differences[..], [.., Difference::Family { here: true, .. }]));
    assert!(matches!(full.check_peer(b"bbf\x01no"), Err(Error::PeerFingerprint { .. })));
    assert!(Fingerprint::from_bytes(&[]).is_err());

    let graph = bb::trace(&[("x", DataType::F32, &[1])], |on, inputs| match inputs {
        [x] => Ok(vec![on.neg(x)?]),
        _ => Ok(Vec::new()),
    });
    let module = Module::from_graph(&graph.unwrap(), &[], &[]).unwrap();
    let path = std::env::temp_dir().join(format!("bb-services-{}.bb", std::process::id()));
    full.compile(module, &CompileOptions::default()).unwrap().save(&path).unwrap();
    let load = |on: &BackendHandle| {
        let module = Module::load(&path).unwrap();
        on.compile(module, &CompileOptions::default()).map(drop)
    };
    load(&full).unwrap();
    let refused = load(&bare);
    std::fs::remove_file(&path).unwrap();
    let error = refused.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "the fingerprint of the compiled model differs: only the other side has the family `{family}`"
        )
    );
}
