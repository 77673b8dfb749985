//! Operands are borrowed.

fn double(backends: &bb::Backends, x: bb::Value) -> Result<bb::Value, bb::Error> {
    backends.add(x.clone(), x)
}

fn main() {}
