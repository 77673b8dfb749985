#[derive(bb::Backend)]
#[bb(delegate = inner)]
enum Quiet {
    One(bb::Erased),
}

fn main() {}
