//! A type without `Default` and without a constructor.

#[derive(bb::Backend)]
struct Cpu {
    _device: Device,
}

struct Device;

ui_tests::backend!(Cpu);

fn main() {}
