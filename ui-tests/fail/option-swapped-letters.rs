//! An option with two letters swapped, without a value.

#[derive(Default, bb::Backend)]
#[bb(nmae)]
struct Cpu;

ui_tests::backend!(Cpu);

fn main() {}
