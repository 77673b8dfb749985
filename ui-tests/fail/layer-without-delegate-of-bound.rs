//! A layer whose parameter is bounded as in a layer, and which does not say which field holds its backend.

#[derive(bb::Backend)]
struct Layer<B: bb::InnerBackend> {
    inner: Vec<B>,
}

fn main() {}
