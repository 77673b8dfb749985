//! Calls an operation by its index: converts lists of operands and decoded parameters into the arguments of the typed
//! method.
//!
//! Plans, the bridge and `Extended` all use this module, so the conversion is written only once.

use crate::{Error, Outputs};
use smallvec::SmallVec;

/// Iterates over the operands of a call, in the order of the operation's table row.
#[derive(Debug)]
pub struct Operands<'a, T> {
    op: &'static str,
    at: usize,
    inputs: &'a [Option<&'a T>],
}

impl<'a, T> Operands<'a, T> {
    /// Starts at the first operand.
    pub fn new(op: &'static str, inputs: &'a [Option<&'a T>]) -> Self {
        Operands { op, at: 0, inputs }
    }

    /// Returns the next operand, which is required. `expected` describes it for the error.
    ///
    /// # Errors
    ///
    /// [`Error::Operand`] if it is absent.
    #[inline]
    pub fn required(&mut self, expected: &'static str) -> Result<&'a T, Error> {
        let index = self.at;
        self.at += 1;
        // The error is built only where it is returned: building and dropping it would double the cost of this
        // function.
        let missing = || Error::Operand { op: self.op, index, expected };
        self.inputs.get(index).copied().flatten().ok_or_else(missing)
    }

    /// Returns the next operand, which is optional.
    #[inline]
    pub fn optional(&mut self) -> Option<&'a T> {
        self.at += 1;
        self.inputs.get(self.at - 1).copied().flatten()
    }

    /// Returns all remaining operands.
    ///
    /// # Errors
    ///
    /// [`Error::Operand`] if one of them is absent.
    pub fn rest(&mut self) -> Result<SmallVec<[&'a T; 8]>, Error> {
        let from = self.at;
        let rest = self.inputs.get(from..).unwrap_or_default();
        self.at = self.inputs.len();
        rest.iter()
            .enumerate()
            .map(|(i, x)| {
                x.ok_or_else(|| Error::Operand { op: self.op, index: from + i, expected: "a tensor" })
            })
            .collect()
    }

    /// Ends the list. The remaining operands must be absent, because trailing absent operands equal omitted ones.
    ///
    /// # Errors
    ///
    /// [`Error::Surplus`] if there are more operands than the operation takes.
    #[inline]
    pub fn end(&self) -> Result<(), Error> {
        if self.inputs.len() <= self.at { Ok(()) } else { self.surplus() }
    }

    /// Checks that the remaining operands are absent. Few calls have remaining operands.
    #[cold]
    fn surplus(&self) -> Result<(), Error> {
        if self.inputs.get(self.at..).unwrap_or_default().iter().all(Option::is_none) {
            return Ok(());
        }
        Err(Error::Surplus { op: self.op, what: "operands", takes: self.at, got: self.inputs.len() })
    }
}

/// Ends the list of parameters. `left` is the number of parameters that the operation did not take.
///
/// # Errors
///
/// [`Error::Surplus`] if `left` is not 0.
#[inline]
pub fn no_more_params(op: &'static str, given: usize, left: usize) -> Result<(), Error> {
    if left == 0 { Ok(()) } else { surplus_params(op, given, left) }
}

#[cold]
fn surplus_params(op: &'static str, given: usize, left: usize) -> Result<(), Error> {
    Err(Error::Surplus { op, what: "parameters", takes: given - left, got: given })
}

/// Returns the result of an operation that has exactly one.
///
/// # Errors
///
/// [`Error::Results`] if the number of results is not 1.
#[inline]
pub fn only<T>(op: &'static str, outputs: Outputs<T>) -> Result<T, Error> {
    match outputs.into_inner() {
        Ok([one]) => Ok(one),
        Err(outputs) => only_of_list(op, outputs),
    }
}

/// Returns the only result of a list that is on the heap or does not have exactly one element.
#[cold]
fn only_of_list<T>(op: &'static str, outputs: Outputs<T>) -> Result<T, Error> {
    let results = outputs.into_vec();
    let [one] = <[T; 1]>::try_from(results).map_err(|results| Error::Results {
        op: op.to_owned(),
        expected: 1,
        got: results.len(),
    })?;
    Ok(one)
}

/// Expands rows of an op table into a function that calls an operation by its index.
///
/// `op_call!{ [function, Enum, Trait] rows }`
macro_rules! op_call {
    ([$function:ident, $enum:ident, $trait:path] $( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       $(with $options:ident : $struct:ident $(<$life:lifetime>)?
         { $( $(#[$odoc:meta])* $option:ident : $okind:ident = $odefault:expr ),+ $(,)? })?
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        /// Calls an operation with its operands and parameters in the order of its table row.
        ///
        /// # Errors
        ///
        /// The errors of the operation; [`Error::Operand`](crate::Error::Operand), [`Error::Surplus`](crate::Error::Surplus) or
        /// [`Error::Ir`](crate::Error::Ir) if operands or parameters do not match the row.
        #[allow(unused_mut, unused_variables, reason = "some rows have no operands or no parameters")]
        pub fn $function<B: $trait + ?Sized>(
            on: &B,
            op: $enum,
            inputs: &[Option<&B::Tensor>],
            params: &[bb_ir::op::Param<'_>],
        ) -> Result<crate::Outputs<B::Tensor>, B::Error> {
            match op { $( $enum::$name => crate::call::call_method! {
                [$enum::$name, <B as $trait>::$method, on, inputs, params]
                ( $($input: $kind),* ; $($( $param: $pkind ),+)? )
                $(with $struct { $($option: $okind),+ })? -> $output
            }, )* }
        }
    };
}

/// Reads the operands and parameters of an operation from lists, and calls a method or a function with them.
#[doc(hidden)]
#[macro_export]
macro_rules! __call_method {
    ([$op:path, $call:expr, $on:ident, $inputs:ident, $params:ident]
     ( $($input:ident : $kind:ident),* ; $($param:ident : $pkind:ident),* )
     $(with $struct:ident { $($option:ident : $okind:ident),+ })? -> $output:ident) => {{
        const METHOD: &str = $op.spec().method;
        let mut operands = $crate::__private::Operands::new(METHOD, $inputs);
        $( let $input = $crate::__take_operand!($kind, operands, $input); )*
        let mut params = $params.iter();
        $( let $param = $crate::__take_param!($pkind, METHOD, params); )*
        $( $( let $option = $crate::__take_param!($okind, METHOD, params); )+ )?
        operands.end()?;
        $crate::__private::no_more_params(METHOD, $params.len(), params.as_slice().len())?;
        $crate::__wrap_output!($output, $call($on,
            $( $crate::__pass_operand!($kind, $input), )* $( $param, )*
            $( $struct { $( $option ),+ } )?))
    }};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __take_operand {
    (Tensor, $operands:ident, $name:ident) => {
        $operands.required(::core::concat!("the tensor `", ::core::stringify!($name), "`"))?
    };
    (Optional, $operands:ident, $name:ident) => {
        $operands.optional()
    };
    (Tensors, $operands:ident, $name:ident) => {
        $operands.rest()?
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __take_param {
    ($kind:ident, $op:expr, $params:ident) => {
        $crate::__private::ir::op::take::$kind($op, ::core::iter::Iterator::next(&mut $params))
            .map_err(<$crate::Error as ::core::convert::From<_>>::from)?
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __pass_operand {
    (Tensors, $x:ident) => {
        &$x
    };
    ($kind:ident, $x:ident) => {
        $x
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __wrap_output {
    (Tensor, $result:expr) => {
        $result.map(|x| $crate::Outputs::from_buf([x]))
    };
    (Tensors, $result:expr) => {
        $result.map($crate::Outputs::from_vec)
    };
}

/// Lists operands as `&[Option<&T>]`, by their kinds in the table row. The list is an array unless the number of
/// operands varies.
#[doc(hidden)]
#[macro_export]
macro_rules! __list_operands {
    ($(Tensor $x:ident),+) => { [$( ::core::option::Option::Some($x) ),+] };
    ($($kind:ident $x:ident),*) => {{
        #[allow(unused_mut, reason = "some rows have no operands")]
        let mut list: $crate::__private::SmallVec<[::core::option::Option<_>; 4]> = $crate::__private::SmallVec::new();
        $( $crate::__push_operand!($kind, list, $x); )*
        list
    }};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __push_operand {
    (Tensor, $list:ident, $x:ident) => {
        $list.push(::core::option::Option::Some($x))
    };
    (Optional, $list:ident, $x:ident) => {
        $list.push($x)
    };
    (Tensors, $list:ident, $x:ident) => {
        ::core::iter::Extend::extend(
            &mut $list,
            ::core::iter::Iterator::map($x.iter(), |x| ::core::option::Option::Some(*x)),
        )
    };
}

/// Lists parameters as `[Param]`, by their kinds in the table row: first the arguments, then the options.
#[doc(hidden)]
#[macro_export]
macro_rules! __list_params {
    ($($kind:ident $param:ident),* $(; $options:ident $($okind:ident $option:ident),+)?) => {
        [$( $crate::__private::ir::param_value!($kind, $param), )* $($( $crate::__private::ir::param_value!($okind, $options.$option), )+)?]
    };
}

/// Converts the results of a call by index to the return type of the method.
#[doc(hidden)]
#[macro_export]
macro_rules! __unwrap_output {
    (Tensor, $op:expr, $outputs:expr) => {
        $crate::__private::only($op, $outputs).map_err(::core::convert::Into::into)
    };
    (Tensors, $op:expr, $outputs:expr) => {
        ::core::result::Result::Ok($outputs.into_vec())
    };
}

pub(crate) use {
    __call_method as call_method, __list_operands as list_operands, __list_params as list_params,
    __unwrap_output as unwrap_output, __wrap_output as wrap_output, op_call,
};

use crate::Backend;
use bb_ir::op::Primitive;

bb_ir::for_each_primitive!(op_call, call_primitive, Primitive, Backend);
