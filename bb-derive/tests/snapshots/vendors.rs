#[derive(bb::Backend)]
#[bb(extensions(Nn), vendors(acme::Acme))]
struct Gpu;
