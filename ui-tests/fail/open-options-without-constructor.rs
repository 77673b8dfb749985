//! Options without a constructor that accepts them.

#[derive(bb::Backend, Default)]
#[bb(options(threads))]
struct Cpu;

ui_tests::backend!(Cpu);

fn main() {}
