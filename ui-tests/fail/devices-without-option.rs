//! Devices that users cannot select.

#[derive(bb::Backend)]
#[bb(open = Cpu::open, options(threads), devices = Cpu::devices)]
struct Cpu;

ui_tests::backend!(Cpu);

impl Cpu {
    fn open(_: &bb::OpenOptions) -> Cpu {
        Cpu
    }

    fn devices() -> Vec<bb::Device> {
        Vec::new()
    }
}

fn main() {}
