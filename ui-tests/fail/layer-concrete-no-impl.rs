#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Quiet {
    inner: bb::Erased,
}

fn main() {}
