//! A backend's own tensor where a value belongs.

fn double(backends: &bb::Backends, x: &ui_tests::Handle) -> Result<bb::Value, bb::Error> {
    backends.add(x, x)
}

fn main() {}
