//! A value without its option.

#[derive(bb::Backend, Default)]
#[bb("cpu")]
struct Cpu;

ui_tests::backend!(Cpu);

fn main() {}
