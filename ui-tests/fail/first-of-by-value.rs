fn several(fast: bb::Erased, plain: bb::Erased) -> Result<bb::FirstOf, bb::Error> {
    bb::first_of([fast, plain])
}

fn main() {
    let _ = several;
}
