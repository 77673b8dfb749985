//! A name of no characters.

#[derive(bb::Backend, Default)]
#[bb(name = "")]
struct Cpu;

ui_tests::backend!(Cpu);

fn main() {}
