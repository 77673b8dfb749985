//! A family twice.

#[derive(bb::Backend, Default)]
#[bb(extensions(Nn, Nn))]
struct Cpu;

ui_tests::backend!(Cpu);

#[bb::native]
impl bb::ext::Nn for Cpu {}

fn main() {}
