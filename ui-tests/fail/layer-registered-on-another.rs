//! A registered layer that stands on a backend of one type.

#[derive(bb::Backend, Default)]
struct Cpu;

ui_tests::backend!(Cpu);

#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Quiet {
    inner: Cpu,
}

#[bb::layer]
impl bb::Layer for Quiet {}

impl bb::RegisteredLayer for Quiet {
    const NAME: &'static str = "quiet";
    const ABOUT: &'static str = "Passes everything on.";

    fn on(_: bb::Erased, _: &bb::OpenOptions) -> Result<Self, bb::BoxError> {
        Ok(Quiet { inner: Cpu })
    }
}

bb::register_layer!(Quiet);

fn main() {}
