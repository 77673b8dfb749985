//! Options without a constructor, for a type without `Default`.

#[derive(bb::Backend)]
#[bb(name = "chip", options(threads))]
struct Chip {
    _threads: usize,
}

ui_tests::backend!(Chip);

fn main() {}
