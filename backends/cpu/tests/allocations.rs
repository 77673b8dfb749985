//! Tests the number of allocations of repeated operations: one for the result, and none if the result is an
//! operand.

#![expect(unsafe_code, clippy::unwrap_used, reason = "a counting allocator; tests")]

use bb::{Backend, Tensor, TensorData};
use bb_cpu::{Array, Cpu};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: this function has the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: this function has the contract of `dealloc`.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the number of allocations of a call, after some calls that fill the pools.
fn allocations<T>(mut call: impl FnMut() -> T) -> usize {
    for _ in 0..3 {
        drop(call());
    }
    let before = COUNT.get();
    drop(call());
    COUNT.get() - before
}

fn array(cpu: &Cpu, shape: &[usize]) -> Array {
    let n = shape.iter().product();
    cpu.constant(&TensorData::new(shape, &vec![1f32; n]).unwrap()).unwrap()
}

#[test]
fn an_operation_allocates_its_result_and_nothing_else() {
    let cpu = Cpu::new();
    for shape in [&[][..], &[1], &[4, 4], &[2, 3, 4, 50]] {
        let (a, b) = (array(&cpu, shape), array(&cpu, shape));
        assert_eq!(allocations(|| cpu.add(&a, &b)), 1, "{shape:?}");
        assert_eq!(allocations(|| cpu.exp(&a)), 1, "{shape:?}");
        assert_eq!(allocations(|| cpu.greater(&a, &b)), 1, "{shape:?}");
        assert_eq!(allocations(|| cpu.reduce_sum(&a, &[], false)), 1, "{shape:?}");
    }
    let (a, b) = (array(&cpu, &[4, 1, 3]), array(&cpu, &[5, 1]));
    assert_eq!(allocations(|| cpu.add(&a, &b)), 1);
    assert_eq!(allocations(|| cpu.reduce_max(&a, &[0], false)), 1);
    assert_eq!(allocations(|| cpu.concat(&[&a, &a], 1)), 1);
}

#[test]
fn views_allocate_their_handle_and_identity_nothing() {
    let cpu = Cpu::new();
    let x = array(&cpu, &[2, 3, 4]);
    assert_eq!(allocations(|| cpu.transpose(&x, &[])), 1);
    assert_eq!(allocations(|| cpu.reshape(&x, &[6, 4])), 1);
    assert_eq!(allocations(|| cpu.slice(&x, &[1], &[2], &[1], &[])), 1);
    assert_eq!(allocations(|| cpu.unsqueeze(&x, &[0])), 1);
    assert_eq!(allocations(|| cpu.identity(&x)), 0);
}

#[test]
fn erasing_and_restoring_allocate_nothing() {
    let cpu = Cpu::new();
    let x = array(&cpu, &[2, 3]);
    assert_eq!(allocations(|| Array::restore(&x.clone().erase())), 0);
}
