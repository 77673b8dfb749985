//! An enum whose variants hold backends, without `delegate` and without a constructor.

#[derive(Default, bb::Backend)]
struct Cpu;

ui_tests::backend!(Cpu);

#[derive(bb::Backend)]
enum Chip {
    Fast(Cpu),
    Plain(Cpu),
}

fn main() {}
