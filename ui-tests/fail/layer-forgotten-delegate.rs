//! A layer whose derive lacks `delegate`.

#[derive(bb::Backend)]
struct Quiet {
    inner: bb::Erased,
}

#[bb::layer]
impl bb::Layer for Quiet {}

fn main() {}
