//! `#[bb::native]` on the `impl` of a layer, and `#[bb::layer]` on the `impl` of an extension family.

use ui_tests::Handle;

#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Quiet<B> {
    inner: B,
}

#[bb::native]
impl<B: bb::InnerBackend> bb::Layer for Quiet<B> {}

#[derive(bb::Backend, Default)]
#[bb(extensions(Nn))]
struct Cpu;

ui_tests::backend!(Cpu);

#[bb::layer]
impl bb::ext::Nn for Cpu {
    fn relu(&self, x: &Handle) -> Result<Handle, bb::Error> {
        Ok(x.clone())
    }
}

fn main() {}
