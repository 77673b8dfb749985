#[derive(bb::Backend)]
#[bb(delegate)]
struct Quiet {
    inner: bb::Erased,
}

fn main() {}
