//! A parameter is missing.

fn total(backends: &bb::Backends, x: &bb::Value) -> Result<bb::Value, bb::Error> {
    backends.reduce_sum(x, &[])
}

fn main() {}
