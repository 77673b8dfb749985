//! The component has no `impl`.

struct Scores;

fn node() -> bb::deployment::DeploymentBuilder {
    bb::Deployment::builder().component("example", "Scores", Scores)
}

fn main() {}
