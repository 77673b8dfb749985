//! Devices that are only names.

#[derive(bb::Backend)]
#[bb(open = Cpu::open, options(device), devices = Cpu::devices)]
struct Cpu;

ui_tests::backend!(Cpu);

impl Cpu {
    fn open(_: &bb::OpenOptions) -> Cpu {
        Cpu
    }

    fn devices() -> Vec<String> {
        Vec::new()
    }
}

fn main() {}
