//! A family by its path.

#[derive(bb::Backend, Default)]
#[bb(extensions(bb::ext::Nn))]
struct Cpu;

ui_tests::backend!(Cpu);

impl bb::ext::Nn for Cpu {}

fn main() {}
