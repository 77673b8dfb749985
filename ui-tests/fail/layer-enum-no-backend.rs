#[derive(bb::Backend)]
#[bb(delegate)]
enum Either {
    Fast(bb::Erased),
    Plain(String),
}

fn main() {}
