//! Native methods of a layer whose derive does not name the family.

#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Quiet<B> {
    inner: B,
}

#[bb::layer]
impl<B: bb::InnerBackend> bb::Layer for Quiet<B> {}

#[bb::native]
impl<B: bb::InnerBackend> bb::ext::Nn for Quiet<B> {
    fn relu(&self, x: &Self::Tensor) -> Result<Self::Tensor, Self::Error> {
        Ok(x.clone())
    }
}

impl bb::RegisteredLayer for Quiet<bb::Erased> {
    const NAME: &'static str = "quiet";
    const ABOUT: &'static str = "changes nothing";

    fn on(inner: bb::Erased, _: &bb::OpenOptions) -> Result<Self, bb::BoxError> {
        Ok(Quiet { inner })
    }
}

bb::register_layer!(Quiet<bb::Erased>);

fn main() {}
