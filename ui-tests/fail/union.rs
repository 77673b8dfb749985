//! A union.

#[derive(bb::Backend)]
union Cpu {
    _word: u32,
    _bytes: [u8; 4],
}

ui_tests::backend!(Cpu);

fn main() {}
