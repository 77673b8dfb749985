//! The option `delegate` names a field that holds no backend, and another field holds the inner backend.

#[derive(bb::Backend)]
#[bb(delegate = most)]
struct Small<B> {
    inner: B,
    most: usize,
}

#[bb::layer]
impl<B: bb::InnerBackend> bb::Layer for Small<B> {}

fn main() {}
