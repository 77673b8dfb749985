//! A backend must be `Sync`.

use std::cell::Cell;

struct Cpu {
    _calls: Cell<u64>,
}

ui_tests::backend!(Cpu);

fn main() {}
