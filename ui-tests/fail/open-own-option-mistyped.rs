//! Options of a backend's own: a default of another type, a type that there is not, and no purpose.

#[derive(bb::Backend)]
#[bb(
    open = Cpu::open,
    options(
        tile: u64 = "many" => "rows of a tile",
        depth: u8 = 3 => "stages of the pipeline",
        fast: bool = true
    )
)]
struct Cpu;

ui_tests::backend!(Cpu);

impl Cpu {
    fn open(_: &bb::OpenOptions) -> Cpu {
        Cpu
    }
}

fn main() {}
