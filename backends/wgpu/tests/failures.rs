//! Tests failures: a lost device, a memory limit, shutdown, tensors of other devices, unknown adapters. Also tests that
//! nothing leaks.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::conformance::Random;
use bb::services::{Lifecycle, Memory, ServiceError};
use bb::{Backend, OpenOptions, TensorData};
use bb_wgpu::{Wgpu, WgpuBuilder, WgpuError};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn numbers(n: usize) -> TensorData {
    TensorData::new(&[n], &vec![1.5f32; n]).unwrap()
}

#[test]
fn a_lost_device_is_an_error_that_says_so() {
    let on = Wgpu::first().unwrap();
    let x = on.constant(&numbers(5000)).unwrap();
    let y = on.add(&x, &x).unwrap();
    assert_eq!(Lifecycle::lost(&on), None);
    on.device().destroy();
    let lost = |error: &WgpuError| matches!(error, WgpuError::Lost { reason } if !reason.is_empty());
    let error = on.to_host(&y).unwrap_err();
    assert!(lost(&error), "{error}: {error:?}");
    assert!(error.to_string().starts_with("the device is lost: "), "{error}");
    assert!(Lifecycle::lost(&on).is_some());
    // Every later call must return the same error, and none may panic.
    assert!(lost(&on.add(&x, &x).unwrap_err()));
    assert!(lost(&on.constant(&numbers(3)).unwrap_err()));
    assert!(lost(&on.flush().unwrap_err()));
    assert!(matches!(Lifecycle::synchronize(&on), Err(ServiceError::Lost { .. })));
    drop((x, y));
    // A newly opened device must work.
    let on = Wgpu::first().unwrap();
    let x = on.constant(&numbers(3)).unwrap();
    assert_eq!(on.to_host(&on.add(&x, &x).unwrap()).unwrap().as_slice::<f32>().unwrap(), [3.0; 3]);
}

#[test]
fn a_device_that_is_lost_while_it_works_ends_the_wait() {
    let on = Wgpu::first().unwrap();
    let x = on.constant(&numbers(1 << 16)).unwrap();
    let mut y = x.clone();
    for _ in 0..50 {
        y = on.exp(&on.neg(&y).unwrap()).unwrap();
    }
    on.flush().unwrap();
    on.device().destroy();
    // Reading work that was submitted before the loss may succeed, or fail with the loss.
    if let Err(error) = on.to_host(&y) {
        assert!(matches!(error, WgpuError::Lost { .. }), "{error:?}");
    }
}

#[test]
fn the_registry_opens_a_lost_device_anew() {
    let handle = bb::backend_with("wgpu", &OpenOptions::default().with_memory(1 << 29)).unwrap();
    let own = handle.typed::<Wgpu>().unwrap();
    let x = handle.tensor(&[2], &[1f32, 2.0]).unwrap();
    own.device().destroy();
    // The loss is detected when the host waits for a result.
    let error = handle.add(&x, &x).and_then(|y| y.to_host(64)).unwrap_err();
    assert!(matches!(error, bb::Error::DeviceLost { .. }), "{error:?}");
    let again = bb::backend_with("wgpu", &OpenOptions::default().with_memory(1 << 29)).unwrap();
    let x = again.tensor(&[2], &[1f32, 2.0]).unwrap();
    assert_eq!(again.add(&x, &x).unwrap().to_host(64).unwrap().as_slice::<f32>().unwrap(), [2.0, 4.0]);
}

#[test]
fn a_memory_limit_is_an_error_until_tensors_are_dropped() {
    let on = WgpuBuilder::default().memory(1 << 20).open().unwrap();
    let mut kept = Vec::new();
    let error = loop {
        match on.constant(&numbers(50_000)) {
            Ok(x) => kept.push(x),
            Err(error) => break error,
        }
    };
    assert!((3..=5).contains(&kept.len()), "{}", kept.len());
    let WgpuError::MemoryLimit(pressure) = &error else { panic!("{error:?}") };
    assert_eq!((pressure.limit, pressure.live), (1 << 20, on.memory_stats().live_bytes));
    assert!(on.memory_stats().live_bytes <= 1 << 20);
    kept.pop();
    let x = on.constant(&numbers(50_000)).unwrap();
    assert_eq!(on.to_host(&x).unwrap().as_slice::<f32>().unwrap().len(), 50_000);
    // Buffers of other sizes are released to make room.
    kept.clear();
    drop(x);
    assert!(on.constant(&numbers(200_000)).is_ok());
}

#[test]
fn a_callback_may_make_room() {
    let on = WgpuBuilder::default().memory(1 << 20).open().unwrap();
    let cache = Arc::new(std::sync::Mutex::new(vec![on.constant(&numbers(200_000)).unwrap()]));
    let (called, to) = (Arc::new(AtomicUsize::new(0)), cache.clone());
    let counted = called.clone();
    let callback: bb::services::PressureCallback = Arc::new(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        to.lock().unwrap().clear();
    });
    Memory::set_pressure_callback(&on, Some(callback)).unwrap();
    assert!(on.constant(&numbers(150_000)).is_ok());
    assert_eq!(called.load(Ordering::Relaxed), 1);
}

#[test]
fn nothing_leaks() {
    let on = Wgpu::first().unwrap();
    for seed in 0..60 {
        let case = Random::new(seed).case();
        let _results = case.run(&on);
    }
    let x = on.constant(&numbers(1000)).unwrap();
    let refused = on.add(&x, &on.constant(&numbers(7)).unwrap());
    assert!(refused.is_err());
    drop((x, refused));
    let stats = on.memory_stats();
    assert_eq!((stats.live_buffers, stats.live_bytes), (0, 0));
    assert!(stats.free_bytes > 0);
    let freed = Memory::trim(&on, 0).unwrap();
    assert_eq!((freed, on.memory_stats().free_bytes), (stats.free_bytes, 0));
}

#[test]
fn nothing_works_after_shutdown() {
    let on = Wgpu::first().unwrap();
    let x = on.constant(&numbers(10)).unwrap();
    let y = on.add(&x, &x).unwrap();
    Lifecycle::shut_down(&on).unwrap();
    assert!(matches!(on.add(&x, &y), Err(WgpuError::Shutdown)));
    assert!(matches!(on.to_host(&y), Err(WgpuError::Shutdown)));
    assert!(matches!(on.constant(&numbers(1)), Err(WgpuError::Shutdown)));
    drop((x, y));
    assert_eq!(on.memory_stats().live_buffers, 0);
}

#[test]
fn a_tensor_of_another_device_is_refused() {
    let (one, other) = (Wgpu::first().unwrap(), Wgpu::first().unwrap());
    let (x, y) = (one.constant(&numbers(2)).unwrap(), other.constant(&numbers(2)).unwrap());
    assert!(matches!(one.add(&x, &y), Err(WgpuError::OtherDevice { op: "add" })));
    assert!(matches!(one.to_host(&y), Err(WgpuError::OtherDevice { .. })));
    assert!(matches!(one.reduce_sum(&y, &[], false), Err(WgpuError::OtherDevice { .. })));
}

#[test]
fn adapters_have_numbers_and_names() {
    let first = WgpuBuilder::default().device("0").open().unwrap();
    let name = first.adapter().split([' ', '(']).next().unwrap().to_lowercase();
    let by_name = WgpuBuilder::default().device(&name).open().unwrap();
    assert_eq!(by_name.adapter(), first.adapter());
    let error = WgpuBuilder::default().device("4711").open().unwrap_err();
    let WgpuError::UnknownAdapter { name, known } = &error else { panic!("{error:?}") };
    assert!(name == "4711" && known.iter().any(|known| known == first.adapter()), "{error}");
    assert!(matches!(
        WgpuBuilder::default().device("nobody's").open(),
        Err(WgpuError::UnknownAdapter { .. })
    ));
    // The registry accepts the same names.
    assert_eq!(bb::backend("wgpu:0").unwrap().name(), "wgpu:0");
    assert!(bb::backend("wgpu:4711").is_err());
}

#[test]
fn division_by_a_zero_that_only_the_device_knows() {
    let on = Wgpu::first().unwrap();
    let x = on.constant(&TensorData::new(&[3], &[1i32, 2, 3]).unwrap()).unwrap();
    let zeros = on.sub(&x, &x).unwrap();
    let error = on.div(&x, &zeros).unwrap_err();
    assert!(error.to_string().contains("division by zero"), "{error}");
    let indices = on.mul(&x, &x).unwrap();
    let error = on.gather(&x, &indices, 0).unwrap_err();
    assert!(error.to_string().contains("index 4 is out of range"), "{error}");
}
