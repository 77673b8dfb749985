//! A backend of which a test takes a part away, or makes a part wrong; the reference backend computes the rest.

use bb::__private::{operand, operands, outputs};
use bb::{Backend, DataType, Outputs, Primitive, Tensor as _, TensorData, ir::op::Param};
use bb_reference::{Error, Reference, Tensor};

/// What a call gives in place of what the reference computes; `None` leaves it to the reference.
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
            None => bb::__private::call_primitive(&Reference, op, inputs, params),
        }
    }
}

/// Refuses a call if an operand or a parameter has an element type that is not among these, as the contract asks.
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

/// Writes the primitives: each asks the hook first.
macro_rules! forward {
    ($( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       -> $output:ident; )*) => { $(
        fn $method(&self $(, $input: bb::__input_type!($kind))* $($(, $param: bb::ir::param_type!($pkind))+)?)
            -> Result<bb::__output_type!($output), Error> {
            let outputs = self.apply(
                Primitive::$name,
                &operands(&[$( operand::$kind($input) ),*]),
                &[$($( bb::ir::param_value!($pkind, $param) ),+)?],
            )?;
            outputs::$output::<Self>(outputs)
        }
    )* };
}

impl Backend for Tampered {
    type Tensor = Tensor;
    type Error = Error;

    bb::ir::for_each_primitive!(forward);

    fn to_host(&self, x: &Tensor) -> Result<TensorData, Error> {
        Reference.to_host(x)
    }
}
