#[derive(bb::Backend)]
#[bb(nme = "cpu", version = 1, extensions(Nn))]
struct Cpu;
