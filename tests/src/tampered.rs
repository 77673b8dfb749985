//! A backend that a test restricts or modifies; the reference backend computes the rest.

use bb::{Backend, DataType, Outputs, Primitive, Tensor as _, TensorData, ir::op::Param};
use bb_reference::{Error, Reference, Tensor};

/// Returns the result of a call instead of the reference backend; `None` if the reference backend should
/// compute it.
pub type Hook = fn(Primitive, &[Option<&Tensor>], &[Param<'_>]) -> Option<Result<Outputs<Tensor>, Error>>;

/// The backend.
#[derive(Debug, Clone, Copy)]
pub struct Tampered(pub Hook);

impl Tampered {
    fn apply(
        &self,
        op: Primitive,
        inputs: &[Option<&Tensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<Tensor>, Error> {
        match (self.0)(op, inputs, params) {
            Some(result) => result,
            None => bb::call_primitive(&Reference, op, inputs, params),
        }
    }
}

/// Refuses a call, as the contract requires, if an operand or a parameter has an element type that is not in
/// `types`.
pub fn refuse_others(
    types: &[DataType],
    op: Primitive,
    inputs: &[Option<&Tensor>],
    params: &[Param<'_>],
) -> Option<Result<Outputs<Tensor>, Error>> {
    let operands = inputs.iter().flatten().map(|x| x.dtype());
    let named = params.iter().filter_map(|param| match param {
        Param::Type(dtype) => Some(*dtype),
        Param::Data(data) => Some(data.dtype()),
        _ => None,
    });
    let other = operands.chain(named).find(|dtype| !types.contains(dtype))?;
    Some(Err(Error::from(bb::Error::from(bb::ir::Error::Unsupported { op: op.spec().method, dtype: other }))))
}

impl Backend for Tampered {
    type Tensor = Tensor;
    type Error = Error;

    bb::forward_to_call!(Self::apply);

    fn to_host(&self, x: &Tensor) -> Result<TensorData, Error> {
        Reference.to_host(x)
    }
}
