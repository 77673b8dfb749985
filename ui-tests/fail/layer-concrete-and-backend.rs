//! An `impl` of the contract for a layer whose inner backend is named, without `impl bb::Layer`.

#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Quiet {
    inner: bb::Erased,
}

ui_tests::backend!(Quiet);

fn main() {}
