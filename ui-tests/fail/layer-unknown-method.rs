#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Quiet<B> {
    inner: B,
}

#[bb::layer]
impl<B: bb::InnerBackend> bb::Layer for Quiet<B> {
    fn softmax(&self, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
        self.inner.exp(x)
    }
}

fn main() {}
