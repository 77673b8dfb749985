//! Instances of a type that is not generic.

#[derive(bb::Backend, Default)]
#[bb(instances("cpu" = Cpu))]
struct Cpu;

ui_tests::backend!(Cpu);

fn main() {}
