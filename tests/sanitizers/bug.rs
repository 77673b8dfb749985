//! Bugs that a sanitizer must report; `tests/sanitize` checks that it does, before it trusts its silence.

use std::sync::{Arc, Mutex};
use std::thread;

static mut NUMBER: u64 = 0;

fn main() {
    let thread = std::env::args().any(|arg| arg == "thread");
    if thread {
        race();
    } else {
        use_after_free();
    }
}

/// Two threads write a number, each under a lock of its own.
fn race() {
    let write = |lock: Arc<Mutex<()>>| {
        thread::spawn(move || {
            for _ in 0..1000 {
                let _held = lock.lock();
                // SAFETY: none; this is the bug.
                unsafe { NUMBER += 1 };
            }
        })
    };
    for thread in [write(Arc::default()), write(Arc::default())] {
        let _ = thread.join();
    }
}

fn use_after_free() {
    let x = Box::new(1u64);
    let place = std::hint::black_box(&raw const *x);
    drop(x);
    // SAFETY: none; this is the bug.
    println!("{}", unsafe { place.read_volatile() });
}
