//! A constructor whose error is not an error.

#[derive(bb::Backend)]
#[bb(new = open)]
struct Cpu;

ui_tests::backend!(Cpu);

struct NoDevice;

fn open() -> Result<Cpu, NoDevice> {
    Err(NoDevice)
}

fn main() {}
