#[derive(bb::Backend)]
#[bb(crate = renamed, name = "gpu", version = "1.2.0")]
#[bb(new = Gpu::first_device, extensions(Nn, Llm))]
struct Gpu {
    device: Device,
}
