//! A layer with a second parameter, which lacks the bounds of what threads share.

#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Counting<B, F> {
    inner: B,
    count: F,
}

#[bb::layer]
impl<B: bb::InnerBackend, F: Fn()> bb::Layer for Counting<B, F> {}

fn main() {}
