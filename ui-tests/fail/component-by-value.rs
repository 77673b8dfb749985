//! A closure that takes its operands by value.

fn node() -> bb::deployment::DeploymentBuilder {
    bb::Deployment::builder().component("example", "Double", |ctx: &bb::Ctx<'_>, inputs: Vec<bb::Value>| {
        Ok(vec![ctx.backends.add(&inputs[0], &inputs[0])?])
    })
}

fn main() {}
