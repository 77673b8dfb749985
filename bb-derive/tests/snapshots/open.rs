#[derive(bb::Backend)]
#[bb(open = Gpu::open, options(device, memory), devices = Gpu::list)]
struct Gpu {
    device: Device,
}
