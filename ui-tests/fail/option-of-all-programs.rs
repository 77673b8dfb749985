//! An option of the backend's own has the name of one that all programs set.

#[derive(bb::Backend)]
#[bb(name = "chip", open = Chip::open, options(threads: u64 = 4 => "threads of the chip"))]
struct Chip;

fn main() {}
