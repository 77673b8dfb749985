//! A type name from which no backend name can be derived.

#[derive(bb::Backend, Default)]
struct Größe;

ui_tests::backend!(Größe);

fn main() {}
