//! An enum whose variants hold backends, without `delegate`.

#[derive(Default, bb::Backend)]
struct Cpu;

ui_tests::backend!(Cpu);

#[derive(bb::Backend)]
#[bb(name = "any", new = Any::fastest)]
enum Any {
    Cpu(Cpu),
}

impl Any {
    fn fastest() -> Any {
        Any::Cpu(Cpu)
    }
}

fn main() {}
