//! `#[bb::native]` on a type.

#[bb::native]
struct Cpu;

ui_tests::backend!(Cpu);

fn main() {}
