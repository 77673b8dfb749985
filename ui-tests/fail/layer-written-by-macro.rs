#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Quiet<B> {
    inner: B,
}

macro_rules! methods {
    () => {};
}

#[bb::layer]
impl<B: bb::InnerBackend> bb::Layer for Quiet<B> {
    methods!();
}

fn main() {}
