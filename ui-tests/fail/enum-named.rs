//! A name for an enum of backends.

#[derive(bb::Backend)]
#[bb(name = "either", delegate)]
enum Either {
    Cpu(Cpu),
}

#[derive(bb::Backend, Default)]
struct Cpu;

ui_tests::backend!(Cpu);

fn main() {}
