//! Two options without a comma.

#[derive(bb::Backend, Default)]
#[bb(name = "cpu" version = "1.0.0")]
struct Cpu;

ui_tests::backend!(Cpu);

fn main() {}
