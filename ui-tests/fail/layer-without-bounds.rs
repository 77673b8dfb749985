//! The type parameter of a layer has no bounds.

#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Quiet<B> {
    inner: B,
}

#[bb::layer]
impl<B> bb::Layer for Quiet<B> {
    fn exp(&self, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
        self.inner.exp(x)
    }
}

fn main() {}
