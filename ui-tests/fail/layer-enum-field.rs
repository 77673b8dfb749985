#[derive(bb::Backend)]
#[bb(delegate)]
enum Either {
    One { on: bb::Erased },
}

fn main() {}
