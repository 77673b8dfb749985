//! The path of `bb` leads nowhere, as `::bb` does where `Cargo.toml` has another name for it.

#[derive(Default, bb::Backend)]
#[bb(name = "cpu", crate = ::renamed_bb)]
struct Cpu;

ui_tests::backend!(Cpu);

fn main() {}
