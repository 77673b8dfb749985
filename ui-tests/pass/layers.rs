//! Layers in the forms that authors write: on a field with a name or a number, concrete or generic, and an enum of backends.
#![expect(dead_code, reason = "the enum only compiles")]

use bb::{Erased, InnerBackend};

#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Generic<B> {
    inner: B,
}

#[bb::layer]
impl<B: InnerBackend> bb::Layer for Generic<B> {
    fn exp(&self, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
        self.inner.exp(x)
    }
}

#[derive(bb::Backend)]
#[bb(delegate = 0)]
struct Numbered<B>(Generic<B>)
where
    B: InnerBackend;

#[bb::layer]
impl<B> bb::Layer for Numbered<B> where B: InnerBackend {}

#[derive(bb::Backend)]
#[bb(delegate = on, version = "1.2.3")]
struct Concrete {
    on: Numbered<Erased>,
}

#[bb::layer]
impl bb::Layer for Concrete {}

#[derive(bb::Backend)]
#[bb(delegate)]
enum Either {
    One(Concrete),
    Other(Erased),
}

fn is_backend<B: InnerBackend>() {}

fn main() {
    is_backend::<Generic<Generic<Erased>>>();
    is_backend::<Numbered<Erased>>();
    is_backend::<Concrete>();
    is_backend::<Either>();
}
