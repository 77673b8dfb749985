#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Quiet<B> {
    inner: B,
}

#[bb::layer]
impl<B: bb::InnerBackend> bb::Layer for Quiet<B> {}

impl<B: bb::InnerBackend> bb::Backend for Quiet<B> {
    type Tensor = B::Tensor;
    type Error = B::Error;

    bb::forward_to_call!(Self::call);

    fn to_host(&self, x: &B::Tensor) -> Result<bb::TensorData, B::Error> {
        self.inner.to_host(x)
    }
}

impl<B: bb::InnerBackend> Quiet<B> {
    fn call(
        &self,
        op: bb::Primitive,
        inputs: &[Option<&B::Tensor>],
        params: &[bb::ir::op::Param<'_>],
    ) -> Result<bb::Outputs<B::Tensor>, B::Error> {
        bb::call_primitive(&self.inner, op, inputs, params)
    }
}

fn main() {}
