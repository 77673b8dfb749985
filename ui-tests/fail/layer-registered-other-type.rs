//! The registered type is no layer.

#[derive(bb::Backend, Default)]
struct Cpu;

ui_tests::backend!(Cpu);

bb::register_layer!(Cpu);

fn main() {}
