//! A layer with a misspelt `delegate`.

#[derive(bb::Backend)]
#[bb(deligate = inner)]
struct Quiet<B> {
    inner: B,
}

#[bb::layer]
impl<B: bb::InnerBackend> bb::Layer for Quiet<B> {}

fn main() {}
