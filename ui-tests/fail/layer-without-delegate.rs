//! A layer that does not say which field holds its backend.

#[derive(bb::Backend)]
struct Layer<B> {
    inner: B,
}

fn main() {}
