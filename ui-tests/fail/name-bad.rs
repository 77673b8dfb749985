//! A name that nobody could type on a command line.

#[derive(bb::Backend, Default)]
#[bb(name = "My Cpu")]
struct Cpu;

ui_tests::backend!(Cpu);

fn main() {}
