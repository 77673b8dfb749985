#[derive(bb::Backend)]
#[bb(delegate)]
enum Either<B> {
    One(B),
}

fn main() {}
