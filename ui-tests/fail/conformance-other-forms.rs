//! Other forms than `bb::conformance!` has.

struct Cpu;

mod nothing {
    bb::conformance!();
}

mod colon {
    bb::conformance!(Cpu, types: [F32]);
}

mod semicolon {
    bb::conformance!(Cpu; cases = 10);
}

mod text {
    bb::conformance!("wide", Cpu);
}

fn main() {}
