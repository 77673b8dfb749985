//! A layer implements `bb::Layer`, not `bb::Backend`.

use bb::InnerBackend;

#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Quiet<B> {
    inner: B,
}

#[bb::layer]
impl<B: InnerBackend> bb::Backend for Quiet<B> {
    fn neg(&self, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
        self.inner.neg(x)
    }
}

fn main() {}
