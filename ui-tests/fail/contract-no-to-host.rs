//! `to_host` is missing.

use ui_tests::Handle;

struct Cpu;

impl bb::Backend for Cpu {
    type Tensor = Handle;
    type Error = bb::Error;

    bb::forward_to_execute!(ui_tests::refuse);
}

fn main() {}
