//! An `impl` of the contract and one of `bb::Layer`, for a layer whose inner backend is named.

#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Quiet {
    inner: bb::Erased,
}

#[bb::layer]
impl bb::Layer for Quiet {}

ui_tests::backend!(Quiet);

fn main() {}
