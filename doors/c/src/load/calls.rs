//! Calls the primitives of a library, with operands and parameters from lists.

use super::LoadedError;
use super::backend::LoadedTensor;
use crate::abi::{Data, Failure, Items, Primitives, Raw, RawTensor, Slot, Status};
use bb_core::call::Operands;
use bb_core::{DataType, RoundMode, TensorData};
use bb_ir::op::{Param, Primitive, take};
use smallvec::SmallVec;

/// The pointers of a list of operands.
type Pointers = SmallVec<[*const RawTensor; 8]>;

/// Converts an operand of each kind to a value that lives for the call.
macro_rules! taken_operand {
    (Tensor, $operands:ident) => {
        $operands.required("a tensor")?.raw()
    };
    (Tensors, $operands:ident) => {
        $operands.rest()?.iter().map(|x| x.raw()).collect::<Pointers>()
    };
}

/// Expands to the argument in C for an operand of each kind.
macro_rules! passed_operand {
    (Tensor, $x:ident) => {
        $x
    };
    (Tensors, $x:ident) => {
        Items::of(&$x)
    };
}

/// Converts a parameter of each kind to a value of C, which is valid for the call.
#[expect(non_snake_case, reason = "one function per kind, called by the kind's name in table expansions")]
mod given {
    use super::*;

    pub(super) fn Int(value: i64) -> Result<i64, LoadedError> {
        Ok(value)
    }

    pub(super) fn Bool(value: bool) -> Result<bool, LoadedError> {
        Ok(value)
    }

    pub(super) fn Ints(value: &[i64]) -> Result<Items<i64>, LoadedError> {
        Ok(Items::of(value))
    }

    pub(super) fn Extents(value: &[usize]) -> Result<Items<usize>, LoadedError> {
        Ok(Items::of(value))
    }

    pub(super) fn Type(value: DataType) -> Result<i32, LoadedError> {
        Ok(value.to_onnx())
    }

    pub(super) fn Round(value: RoundMode) -> Result<i32, LoadedError> {
        Ok(value as i32)
    }

    pub(super) fn Data(value: &TensorData) -> Result<super::Data, LoadedError> {
        super::lent(value)
    }
}

/// Returns a view of a host tensor for C, which is valid while the tensor lives.
pub(super) fn lent(value: &TensorData) -> Result<Data, LoadedError> {
    let bytes = value.bytes()?;
    Ok(Data {
        dtype: value.dtype().to_onnx(),
        rank: value.shape().len(),
        shape: value.shape().as_ptr(),
        bytes: bytes.as_ptr(),
        length: bytes.len(),
    })
}

/// Expands to the argument in C for a parameter of each kind.
macro_rules! passed_param {
    (Data, $v:ident) => {
        &raw const $v
    };
    ($kind:ident, $v:ident) => {
        $v
    };
}

macro_rules! calls {
    ($( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        /// Returns whether a table has a function for a primitive.
        pub(super) fn has(table: &Primitives, op: Primitive) -> bool {
            match op { $( Primitive::$name => table.$method.is_some(), )* }
        }

        /// Calls a primitive. Returns `None` if the table has no function for it.
        #[allow(unused_mut, unused_variables, reason = "some rows have no operands or no parameters")]
        pub(super) fn call(
            table: &Primitives,
            backend: *mut Raw,
            op: Primitive,
            inputs: &[Option<&LoadedTensor>],
            params: &[Param<'_>],
            results: &mut [Slot],
            error: &mut Failure,
        ) -> Result<Option<Status>, LoadedError> {
            let (places, count) = (results.as_mut_ptr(), results.len());
            match op { $( Primitive::$name => {
                let Some(function) = table.$method else { return Ok(None) };
                let method = op.spec().method;
                let mut operands = Operands::new(method, inputs);
                $( let $input = taken_operand!($kind, operands); )*
                let mut params = params.iter();
                $($( let $param = given::$pkind(take::$pkind(method, params.next())?)?; )+)?
                // SAFETY: the library has this version of the interface, with these primitives. Borrowed arguments live until the call
                // returns.
                let status = unsafe {
                    function(
                        backend,
                        $( passed_operand!($kind, $input), )*
                        $($( passed_param!($pkind, $param), )+)?
                        places, count, error,
                    )
                };
                Ok(Some(status))
            } )* }
        }
    };
}

bb_ir::for_each_primitive!(calls);
