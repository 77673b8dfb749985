//! Counts the allocations of calls, with a counting allocator.
//!
//! This file has a single test, so that no other thread allocates at the same time; only the test's thread is
//! counted.
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(unsafe_code, reason = "`GlobalAlloc` is an unsafe trait")]

use bb::{Backend, Backends, TensorData};
use bb_cpu::Cpu;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every method passes its arguments to `System`, which fulfils the contract. Counting does not
// allocate, because the counter is a constant-initialised thread-local without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise about `layout` holds for `System`, too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: `memory` came from `alloc` above, and so from `System`, with this layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the number of allocations of the last of several calls, because earlier calls fill pools.
fn allocations<R>(mut call: impl FnMut() -> R) -> usize {
    for _ in 0..16 {
        black_box(call());
    }
    let before = COUNT.with(Cell::get);
    black_box(call());
    COUNT.with(Cell::get) - before
}

#[test]
fn a_call_allocates_its_result_and_erasure_adds_nothing() {
    let cpu = Cpu::new();
    let data = TensorData::new(&[2, 2], &[1f32, 2.0, 3.0, 4.0]).unwrap();
    let (a, b) = (cpu.constant(&data).unwrap(), cpu.constant(&data).unwrap());
    let backends = Backends::new([bb::backend("cpu").unwrap()]);
    let (va, vb) = (backends.constant(&data).unwrap(), backends.constant(&data).unwrap());

    assert_eq!(allocations(|| cpu.add(&a, &b).unwrap()), 1, "a typed call allocates its result");
    assert_eq!(allocations(|| backends.add(&va, &vb).unwrap()), 1, "an erased call allocates no more");

    let typed = allocations(|| cpu.matmul(&a, &b).unwrap());
    assert_eq!(allocations(|| backends.matmul(&va, &vb).unwrap()), typed);
    let typed = allocations(|| cpu.reduce_sum(&a, &[0], true).unwrap());
    assert_eq!(allocations(|| backends.reduce_sum(&va, &[0], true).unwrap()), typed);
    let typed = allocations(|| cpu.transpose(&a, &[1, 0]).unwrap());
    assert_eq!(allocations(|| backends.transpose(&va, &[1, 0]).unwrap()), typed);

    assert_eq!(allocations(|| va.clone()), 0, "a value clones by one reference");
}
