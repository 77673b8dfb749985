//! The functions for the primitives.

use super::tensors::{Operands, dtype, failed, give, host, operand};
use crate::abi::{Data, Failure, Items, Primitives, Raw, RawTensor, Results, Status};
use crate::failure::{Failed, guarded};
use bb_core::ext::ErasedTensor;
use bb_core::{ErrorKind, Outputs, RoundMode};
use bb_ir::op::{Param, Primitive};
use smallvec::SmallVec;
use std::borrow::Cow;

/// Appends operands of each kind to a list.
macro_rules! push_operand {
    (Tensor, $list:ident, $x:ident) => {
        // SAFETY: the host lends tensors that this library created.
        $list.push(unsafe { operand($x) })
    };
    (Tensors, $list:ident, $x:ident) => {
        // SAFETY: the host lends the list for the call, and tensors that this library created.
        $list.extend(unsafe { $x.slice() }.iter().map(|&x| unsafe { operand(x) }))
    };
}

/// Converts a parameter of each kind.
macro_rules! read_param {
    (Int, $v:ident) => {
        Param::Int($v)
    };
    (Bool, $v:ident) => {
        Param::Bool($v)
    };
    // SAFETY: the host lends the list for the call.
    (Ints, $v:ident) => {
        Param::Ints(Cow::Borrowed(unsafe { $v.slice() }))
    };
    // SAFETY: the host lends the list for the call.
    (Extents, $v:ident) => {
        Param::Extents(Cow::Borrowed(unsafe { $v.slice() }))
    };
    (Type, $v:ident) => {
        Param::Type(dtype($v)?)
    };
    (Round, $v:ident) => {
        Param::Round(round($v)?)
    };
    (Data, $v:ident) => {
        Param::Data(Cow::Owned(data($v)?))
    };
}

/// Converts a rounding mode of the C interface.
pub(super) fn round(number: i32) -> Result<RoundMode, Failed> {
    let modes = [RoundMode::Up, RoundMode::Down, RoundMode::Nearest];
    let mode = modes.into_iter().find(|mode| *mode as i32 == number);
    mode.ok_or_else(|| Failed::new(ErrorKind::WrongInput, format!("{number} is no rounding mode")))
}

fn data(value: *const Data) -> Result<bb_core::TensorData, Failed> {
    // SAFETY: null, or a structure that the host lends for the call.
    match unsafe { value.as_ref() } {
        // SAFETY: as above.
        Some(value) => unsafe { host(value) },
        None => Err(Failed::new(ErrorKind::WrongInput, "expected a host tensor, got null")),
    }
}

/// Moves results to their slots. There must be `count` results.
fn deliver(
    op: Primitive,
    outputs: Outputs<ErasedTensor>,
    results: Results,
    count: usize,
) -> Result<(), Failed> {
    if outputs.len() != count {
        let text = format!("`{}` has {} results, expected {count}", op.spec().method, outputs.len());
        return Err(Failed::new(ErrorKind::Internal, text));
    }
    for (at, x) in outputs.into_iter().enumerate() {
        // SAFETY: the host lends `count` places for the call.
        give(x, unsafe { &mut *results.add(at) });
    }
    Ok(())
}

macro_rules! functions {
    ($( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        $(
            #[allow(clippy::too_many_arguments, reason = "a function has as many arguments as its row")]
            #[allow(unused_mut, reason = "some rows have no operands or no parameters")]
            unsafe extern "C" fn $method(
                backend: *mut Raw, $($input: crate::abi::c_operand!($kind),)* $($($param: crate::abi::c_param!($pkind),)+)?
                results: Results, count: usize, error: *mut Failure,
            ) -> Status {
                let body = || {
                    // SAFETY: `open` created the backend.
                    let opened = unsafe { super::opened(backend) }?;
                    let mut inputs = Operands::new();
                    $( push_operand!($kind, inputs, $input); )*
                    let mut params: SmallVec<[Param<'_>; 4]> = SmallVec::new();
                    $($( params.push(read_param!($pkind, $param)); )+)?
                    let outputs = bb_core::call_primitive(&opened.erased, Primitive::$name, &inputs, &params);
                    deliver(Primitive::$name, outputs.map_err(|e| failed(&e))?, results, count)
                };
                // SAFETY: the host lends `error` for the call.
                unsafe { guarded(error, body) }
            }
        )*

        /// The table with the functions of all primitives.
        pub(super) static EXPORTED: Primitives = Primitives { size: size_of::<Primitives>(), $( $method: Some($method), )* };
    };
}

bb_ir::for_each_primitive!(functions);
