#[derive(bb::Backend)]
#[bb(delegate)]
enum Either {}

fn main() {}
