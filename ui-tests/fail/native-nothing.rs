//! `#[bb::native]` where every method has its default body.

struct Cpu;

ui_tests::backend!(Cpu);

#[bb::native]
impl bb::ext::Nn for Cpu {}

fn main() {}
