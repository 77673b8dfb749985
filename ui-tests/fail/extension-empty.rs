//! No family.

#[derive(bb::Backend, Default)]
#[bb(extensions())]
struct Cpu;

ui_tests::backend!(Cpu);

fn main() {}
