//! A name that does not follow the rule.

#[derive(bb::Backend, Default)]
#[bb(name = "My Cpu")]
struct Cpu;

ui_tests::backend!(Cpu);

fn main() {}
