//! A family that does not exist.

#[derive(bb::Backend, Default)]
#[bb(extensions(Nm))]
struct Cpu;

ui_tests::backend!(Cpu);

fn main() {}
