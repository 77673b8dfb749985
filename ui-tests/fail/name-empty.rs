//! An empty name.

#[derive(bb::Backend, Default)]
#[bb(name = "")]
struct Cpu;

ui_tests::backend!(Cpu);

fn main() {}
