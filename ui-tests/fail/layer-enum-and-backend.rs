//! An `impl` of the contract for an enum of backends.

#[derive(bb::Backend)]
#[bb(delegate)]
enum Either {
    Fast(bb::Erased),
}

ui_tests::backend!(Either);

fn main() {}
