//! A type of which no name can be made.

#[derive(bb::Backend, Default)]
struct Größe;

ui_tests::backend!(Größe);

fn main() {}
