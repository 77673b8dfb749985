//! A layer that names its field in quotation marks.

#[derive(bb::Backend)]
#[bb(delegate = "inner")]
struct Quiet<B> {
    inner: B,
}

#[bb::layer]
impl<B: bb::InnerBackend> bb::Layer for Quiet<B> {}

fn main() {}
