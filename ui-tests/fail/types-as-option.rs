//! Element types as an option of the derive.

#[derive(bb::Backend, Default)]
#[bb(name = "cpu", types(F32, I32, Bool))]
struct Cpu;

ui_tests::backend!(Cpu);

fn main() {}
