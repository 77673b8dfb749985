//! A layer that declares two options of one name.

#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Quiet<B> {
    inner: B,
}

#[bb::layer]
impl<B: bb::InnerBackend> bb::Layer for Quiet<B> {}

impl bb::RegisteredLayer for Quiet<bb::Erased> {
    const NAME: &'static str = "quiet";
    const ABOUT: &'static str = "changes nothing";
    const OPTIONS: &'static [bb::OpenOption] = &[
        bb::OpenOption::Own(bb::OwnOption::new("most", bb::OptionDefault::Count(1), "the greatest extent")),
        bb::OpenOption::Own(bb::OwnOption::new("most", bb::OptionDefault::Count(2), "the greatest rank")),
    ];

    fn on(inner: bb::Erased, _: &bb::OpenOptions) -> Result<Self, bb::BoxError> {
        Ok(Quiet { inner })
    }
}

bb::register_layer!(Quiet<bb::Erased>);

fn main() {}
