//! A backend is shared between threads.

use std::cell::Cell;

struct Cpu {
    _calls: Cell<u64>,
}

ui_tests::backend!(Cpu);

fn main() {}
