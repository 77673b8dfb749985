//! An empty version.

#[derive(bb::Backend, Default)]
#[bb(version = "")]
struct Cpu;

ui_tests::backend!(Cpu);

fn main() {}
