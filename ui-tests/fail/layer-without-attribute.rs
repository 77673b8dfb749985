#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Quiet<B> {
    inner: B,
}

impl<B: bb::InnerBackend> bb::Layer for Quiet<B> {}

fn main() {}
