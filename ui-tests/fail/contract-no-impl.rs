//! The contract is not implemented.

#[derive(bb::Backend, Default)]
struct Cpu;

fn main() {}
