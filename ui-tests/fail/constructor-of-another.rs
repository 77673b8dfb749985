//! A constructor that makes something else.

#[derive(bb::Backend)]
#[bb(new = open)]
struct Cpu;

ui_tests::backend!(Cpu);

fn open() -> Option<Cpu> {
    Some(Cpu)
}

fn main() {}
