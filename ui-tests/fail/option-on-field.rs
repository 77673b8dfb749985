//! An option on a field.

#[derive(bb::Backend, Default)]
struct Cpu {
    #[bb(name = "cpu")]
    _threads: usize,
}

ui_tests::backend!(Cpu);

fn main() {}
