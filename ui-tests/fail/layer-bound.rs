#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Quiet<B> {
    inner: B,
}

#[bb::layer]
impl<B: bb::Backend> bb::Layer for Quiet<B> {}

fn main() {}
