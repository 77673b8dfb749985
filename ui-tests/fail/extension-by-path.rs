//! A family by its path.

#[derive(bb::Backend, Default)]
#[bb(extensions(bb::ext::Nn))]
struct Cpu;

ui_tests::backend!(Cpu);

#[bb::native]
impl bb::ext::Nn for Cpu {}

fn main() {}
