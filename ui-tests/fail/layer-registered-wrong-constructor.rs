//! The constructor of a registered layer takes other arguments.

#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Quiet<B> {
    inner: B,
}

#[bb::layer]
impl<B: bb::InnerBackend> bb::Layer for Quiet<B> {}

impl bb::RegisteredLayer for Quiet<bb::Erased> {
    const NAME: &'static str = "quiet";
    const ABOUT: &'static str = "Passes everything on.";

    fn on(inner: bb::Erased) -> Result<Self, bb::BoxError> {
        Ok(Quiet { inner })
    }
}

bb::register_layer!(Quiet<bb::Erased>);

fn main() {}
