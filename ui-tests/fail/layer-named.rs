#[derive(bb::Backend)]
#[bb(delegate = inner, name = "quiet")]
struct Quiet<B> {
    inner: B,
}

#[bb::layer]
impl<B: bb::InnerBackend> bb::Layer for Quiet<B> {}

fn main() {}
