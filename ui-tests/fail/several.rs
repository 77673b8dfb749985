//! Six mistakes, each reported at its own span in one build.

#[derive(bb::Backend)]
#[bb(name = "CPU", nme = "cpu", extensions(Nm), new = open)]
#[bb(version)]
struct Cpu;

fn open() -> u32 {
    0
}

fn main() {}
