//! Options without a constructor that takes them.

#[derive(bb::Backend, Default)]
#[bb(options(threads))]
struct Cpu;

ui_tests::backend!(Cpu);

fn main() {}
