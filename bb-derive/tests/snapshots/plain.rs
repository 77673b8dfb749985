#[derive(bb::Backend, Default)]
struct Cpu;
