//! An allocator with little memory.
//!
//! Where memory may be lacking, `bb` reports an error; an allocation that ends the process instead is a finding. An
//! address space with a limit would find it too, but the sizes at which it is reached differ from run to run.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The size of an allocation that fails.
pub const MOST: usize = 1 << 26;

/// The bytes that are allocated.
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// Peak number of allocated bytes, including refused allocations.
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Peak number of allocated bytes, without refused allocations.
static GRANTED: AtomicUsize = AtomicUsize::new(0);

/// Calls a function, and returns its peak number of allocated bytes, including refused allocations.
pub fn watched<R>(f: impl FnOnce() -> R) -> (R, usize) {
    peak_of(&PEAK, f)
}

/// Calls a function, and returns its peak number of allocated bytes, without refused allocations.
pub fn granted<R>(f: impl FnOnce() -> R) -> (R, usize) {
    peak_of(&GRANTED, f)
}

fn peak_of<R>(peak: &AtomicUsize, f: impl FnOnce() -> R) -> (R, usize) {
    let before = LIVE.load(Ordering::Relaxed);
    peak.store(before, Ordering::Relaxed);
    let result = f();
    (result, peak.load(Ordering::Relaxed).saturating_sub(before))
}

/// Counts allocations, and refuses allocations of [`MOST`] bytes or more.
struct Little;

/// Counts an allocation. Returns whether it is refused.
fn refused(size: usize) -> bool {
    let live = LIVE.load(Ordering::Relaxed).saturating_add(size);
    PEAK.fetch_max(live, Ordering::Relaxed);
    if size >= MOST {
        return true;
    }
    let live = LIVE.fetch_add(size, Ordering::Relaxed).saturating_add(size);
    GRANTED.fetch_max(live, Ordering::Relaxed);
    false
}

// SAFETY: every call is forwarded to the system's allocator, or reports that there is no memory.
unsafe impl GlobalAlloc for Little {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if refused(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if refused(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if refused(size) {
            return std::ptr::null_mut();
        }
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Little = Little;
