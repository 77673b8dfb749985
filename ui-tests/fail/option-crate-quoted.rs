//! A path in quotes.

#[derive(bb::Backend, Default)]
#[bb(crate = "bb")]
struct Cpu;

ui_tests::backend!(Cpu);

fn main() {}
