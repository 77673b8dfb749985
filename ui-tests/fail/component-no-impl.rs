//! The component has no `impl`.

struct Scores;

fn node() -> bb::DeploymentBuilder {
    bb::Deployment::builder().component("example", "Scores", Scores)
}

fn main() {}
