//! A family twice.

#[derive(bb::Backend, Default)]
#[bb(extensions(Nn, Nn))]
struct Cpu;

ui_tests::backend!(Cpu);

impl bb::ext::Nn for Cpu {}

fn main() {}
