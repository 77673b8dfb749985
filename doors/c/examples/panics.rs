//! Exports a backend that panics in every operation and when it is dropped.

use bb::{DataType, Outputs, Primitive, TensorData, ir::op::Param};

/// A backend that creates tensors, but panics when it computes.
#[derive(Debug, Default, bb::Backend)]
#[bb(name = "panics")]
pub struct Panics;

/// A host tensor that panics when its last reference is dropped.
#[derive(Debug, Clone)]
pub struct Fragile(std::sync::Arc<Inner>);

#[derive(Debug)]
struct Inner(TensorData);

impl Drop for Inner {
    fn drop(&mut self) {
        panic!("dropping panics, too");
    }
}

impl bb::Tensor for Fragile {
    fn dtype(&self) -> DataType {
        self.0.0.dtype()
    }

    fn shape(&self) -> &[usize] {
        self.0.0.shape()
    }
}

impl Panics {
    fn call(
        &self,
        op: Primitive,
        _: &[Option<&Fragile>],
        params: &[Param<'_>],
    ) -> Result<Outputs<Fragile>, bb::Error> {
        match params {
            [Param::Data(data)] => Ok(Outputs::from_buf([Fragile(Inner(data.clone().into_owned()).into())])),
            _ => panic!("{} panics", op.spec().method),
        }
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        panic!("the backend panics when it is dropped");
    }
}

impl bb::Backend for Panics {
    type Tensor = Fragile;
    type Error = bb::Error;

    bb::forward_to_call!(Self::call);

    fn to_host(&self, _: &Fragile) -> Result<TensorData, bb::Error> {
        panic!("to_host panics")
    }
}

bb::export_backend!(Panics);
