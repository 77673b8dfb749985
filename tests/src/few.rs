//! A backend that has few element types and refuses all others; the reference backend computes.

use bb::ir::op::Param;
use bb::{Backend, DataType, DataTypes, Outputs, Primitive, Tensor, TensorData};
use bb_reference::Reference;

/// The backend.
#[derive(Debug, Clone, Copy)]
pub struct Few {
    types: DataTypes,
}

impl Few {
    /// Makes a backend with these types.
    pub fn of(types: &[DataType]) -> Few {
        Few { types: DataTypes::of(types) }
    }

    /// Makes a backend with the least set: `f32`, `i32` and `bool`.
    pub fn least() -> Few {
        Few::of(&[DataType::F32, DataType::I32, DataType::Bool])
    }

    fn has(&self, op: Primitive, dtype: DataType) -> Result<(), bb_reference::Error> {
        if self.types.has(dtype) {
            return Ok(());
        }
        Err(bb::ir::Error::Unsupported { op: op.spec().method, dtype }.into())
    }

    fn call(
        &self,
        op: Primitive,
        inputs: &[Option<&<Reference as Backend>::Tensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<<Reference as Backend>::Tensor>, bb_reference::Error> {
        for x in inputs.iter().flatten() {
            self.has(op, x.dtype())?;
        }
        for param in params {
            match param {
                Param::Type(dtype) => self.has(op, *dtype)?,
                Param::Data(data) => self.has(op, data.dtype())?,
                _ => {}
            }
        }
        bb::call_primitive(&Reference, op, inputs, params)
    }
}

impl Backend for Few {
    type Tensor = <Reference as Backend>::Tensor;
    type Error = bb_reference::Error;

    bb::forward_to_call!(Self::call);

    fn to_host(&self, x: &Self::Tensor) -> Result<TensorData, bb_reference::Error> {
        Reference.to_host(x)
    }

    fn types(&self) -> DataTypes {
        self.types
    }

    fn wrapped(error: &bb_reference::Error) -> Option<&bb::Error> {
        <Reference as Backend>::wrapped(error)
    }
}

impl bb::InnerBackend for Few {}
