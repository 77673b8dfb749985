//! An option of a backend's own lacks its type.

#[derive(bb::Backend)]
#[bb(open = Cpu::open, options(tile = 128 => "rows of a tile"))]
struct Cpu;

ui_tests::backend!(Cpu);

impl Cpu {
    fn open(_: &bb::OpenOptions) -> Cpu {
        Cpu
    }
}

fn main() {}
