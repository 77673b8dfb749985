//! An option that `bb::conformance!` does not have.

struct Cpu;

bb::conformance!(Cpu, case = 10);

fn main() {}
