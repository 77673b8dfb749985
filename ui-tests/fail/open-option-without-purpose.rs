//! An option of a backend's own lacks its purpose.

#[derive(bb::Backend)]
#[bb(open = Cpu::open, options(tile: u64 = 128, device), devices = Cpu::devices)]
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
