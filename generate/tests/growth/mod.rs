//! Measures how the memory and the time that an input takes grow with its size, and compares them with the table of `limits.md`.
#![allow(dead_code, reason = "each test program uses a part")]

mod table;

pub(crate) use table::{Bounds, bounds};

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The allocator of the system, which counts.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn grown(bytes: usize) {
    PEAK.fetch_max(LIVE.fetch_add(bytes, Relaxed) + bytes, Relaxed);
}

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: every call is forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: the caller upholds the safety contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: the caller upholds the safety contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grown(size);
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller upholds the safety contract.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller upholds the safety contract.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Tests of one program count one after another.
static ONE: Mutex<()> = Mutex::new(());

/// Returns the time that this thread has computed for, or since `start` where the system does not count it.
fn computed(start: Instant) -> Duration {
    let counted = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = counted.and_then(|text| text.split(' ').next()?.parse().ok());
    nanoseconds.map_or_else(|| start.elapsed(), Duration::from_nanos)
}

/// Calls a function; returns its result, the most bytes that it had allocated at a time, and the time that it computed for.
pub(crate) fn measured<R>(f: impl FnOnce() -> R) -> (R, usize, Duration) {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let start = Instant::now();
    let began = computed(start);
    let result = f();
    (result, PEAK.load(Relaxed).saturating_sub(before), computed(start) - began)
}

/// The time below which a ratio of times means nothing on a busy machine.
const SHORT: Duration = Duration::from_millis(200);

/// Doubles an input from `from` on, until it is refused or reaches `to`, and prints what each takes. `make` makes an input of about
/// a size; `take` reads it, and returns whether it was accepted.
///
/// Fails if the memory exceeds the row of `input` in `limits.md`, or if the time grows by more than three times when the size doubles.
pub(crate) fn doubled<I: AsRef<[u8]>>(
    input: &str,
    shape: &str,
    (from, to): (usize, usize),
    make: impl Fn(usize) -> I,
    take: impl Fn(&I) -> bool,
) {
    doubled_within(bounds(input), input, shape, (from, to), make, take);
}

/// As [`doubled`], with bounds of memory of the test's own.
pub(crate) fn doubled_within<I: AsRef<[u8]>>(
    Bounds { factor, base }: Bounds,
    input: &str,
    shape: &str,
    (from, to): (usize, usize),
    make: impl Fn(usize) -> I,
    take: impl Fn(&I) -> bool,
) {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (mut size, mut before) = (from, SHORT);
    loop {
        let made = make(size);
        let bytes = made.as_ref().len();
        let (accepted, peak, mut time) = measured(|| take(&made));
        for _ in 0..3 {
            // Once more, because others may have used the caches.
            if time > 3 * before {
                time = time.min(measured(|| take(&made)).2);
            }
        }
        let end = if accepted { "" } else { " refused" };
        println!("{input}, {shape}: {bytes} bytes, {peak} bytes of memory, {:.3} s{end}", time.as_secs_f64());
        assert!(peak <= base + factor * bytes, "{input}, {shape}: {peak} bytes of memory for {bytes}");
        assert!(
            time <= 3 * before,
            "{input}, {shape}: {time:?} for {bytes} bytes, {before:?} for half of them"
        );
        if !accepted || size >= to {
            return;
        }
        (size, before) = (2 * size, time.max(SHORT));
    }
}
