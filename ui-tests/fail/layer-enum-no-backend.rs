#[derive(bb::Backend)]
#[bb(delegate)]
enum Either {
    One(String),
}

fn main() {}
