//! A type that has no `Default`, and no constructor is named.

#[derive(bb::Backend)]
struct Cpu {
    _device: Device,
}

struct Device;

ui_tests::backend!(Cpu);

fn main() {}
