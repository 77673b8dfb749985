#[derive(bb::Backend)]
#[bb(delegate = iner)]
struct Quiet<B> {
    inner: B,
}

#[bb::layer]
impl<B: bb::InnerBackend> bb::Layer for Quiet<B> {}

fn main() {}
