#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Quiet<B> {
    inner: B,
}

fn start(inner: bb::Erased) -> bb::BackendHandle {
    bb::BackendHandle::start("quiet", Quiet { inner })
}

fn main() {
    let _ = start;
}
