//! A family that the type does not implement.

#[derive(bb::Backend, Default)]
#[bb(extensions(Nn))]
struct Cpu;

ui_tests::backend!(Cpu);

fn main() {}
