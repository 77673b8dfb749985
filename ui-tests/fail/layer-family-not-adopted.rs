#[derive(bb::Backend)]
#[bb(delegate = inner, extensions(Nn))]
struct Quiet<B> {
    inner: B,
}

#[bb::layer]
impl<B: bb::InnerBackend> bb::Layer for Quiet<B> {}

fn main() {}
