//! The default of an option of a backend's own has another type.

#[derive(bb::Backend)]
#[bb(open = Cpu::open, options(tile: u64 = "many" => "rows of a tile"))]
struct Cpu;

ui_tests::backend!(Cpu);

impl Cpu {
    fn open(_: &bb::OpenOptions) -> Cpu {
        Cpu
    }
}

fn main() {}
