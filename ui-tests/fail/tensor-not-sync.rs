//! A tensor must be `Sync`, also if a registered backend has it.

use std::cell::RefCell;

#[derive(Clone)]
struct Array {
    elements: RefCell<Vec<f32>>,
}

impl bb::Tensor for Array {
    fn dtype(&self) -> bb::DataType {
        bb::DataType::F32
    }

    fn shape(&self) -> &[usize] {
        &[]
    }
}

#[derive(Default, bb::Backend)]
struct Cpu;

impl Cpu {
    fn call(
        &self,
        _: bb::Primitive,
        _: &[Option<&Array>],
        _: &[bb::ir::op::Param<'_>],
    ) -> Result<bb::Outputs<Array>, bb::Error> {
        Err(bb::Error::Abandoned)
    }
}

impl bb::Backend for Cpu {
    type Tensor = Array;
    type Error = bb::Error;

    bb::forward_to_call!(Self::call);

    fn to_host(&self, x: &Array) -> Result<bb::TensorData, bb::Error> {
        Ok(bb::TensorData::new(&[], &x.elements.borrow())?)
    }
}

fn main() {}
