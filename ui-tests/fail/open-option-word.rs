//! The default of a text lacks its quotes.

#[derive(bb::Backend)]
#[bb(open = Cpu::open, options(mode: str = fast => "how it rounds"))]
struct Cpu;

ui_tests::backend!(Cpu);

impl Cpu {
    fn open(_: &bb::OpenOptions) -> Cpu {
        Cpu
    }
}

fn main() {}
