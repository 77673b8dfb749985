//! An option twice.

#[derive(bb::Backend, Default)]
#[bb(name = "cpu")]
#[bb(version = "1.0.0", name = "cpu-2")]
struct Cpu;

ui_tests::backend!(Cpu);

fn main() {}
