//! An operation that no table has.

fn double(backends: &bb::Backends, x: &bb::Value) -> Result<bb::Value, bb::Error> {
    backends.twice(x)
}

fn main() {}
