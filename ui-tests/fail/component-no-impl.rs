//! What is added as a component has no `impl`.

struct Scores;

fn node() -> bb::NodeBuilder {
    bb::Node::builder().component("example", "Scores", Scores)
}

fn main() {}
