#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Quiet {
    inner: String,
}

#[bb::layer]
impl bb::Layer for Quiet {}

fn main() {}
