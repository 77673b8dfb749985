//! A trait that is not a family.

struct Cpu;

ui_tests::backend!(Cpu);

#[bb::native]
impl Clone for Cpu {
    fn clone(&self) -> Cpu {
        Cpu
    }
}

fn main() {}
