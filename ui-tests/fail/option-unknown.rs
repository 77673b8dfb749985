//! An option that does not exist.

#[derive(bb::Backend, Default)]
#[bb(nmae = "cpu")]
struct Cpu;

ui_tests::backend!(Cpu);

fn main() {}
