//! The registered type has a name, but no `impl bb::Layer`.

#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Quiet<B> {
    inner: B,
}

impl bb::RegisteredLayer for Quiet<bb::Erased> {
    const NAME: &'static str = "quiet";
    const ABOUT: &'static str = "Passes everything on.";

    fn on(inner: bb::Erased, _: &bb::OpenOptions) -> Result<Self, bb::BoxError> {
        Ok(Quiet { inner })
    }
}

bb::register_layer!(Quiet<bb::Erased>);

fn main() {}
