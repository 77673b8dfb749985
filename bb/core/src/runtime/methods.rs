//! Defines the operations as methods on values. They are expanded from the op table and the tables of the families.

/// Expands table rows to methods of [`BackendHandle`](super::BackendHandle), [`Backends`](super::Backends) and
/// [`Value`](super::Value).
///
/// `erased_methods!{ [Enum] rows }`, where `Enum` is the enum of the rows' operations. The methods are `#[inline]`, so
/// that a crate compiles only the methods that it calls.
macro_rules! erased_methods {
    ([$enum:ident] $($rows:tt)*) => {
        crate::runtime::methods_of!{ [$enum, BackendHandle] $($rows)* }
        crate::runtime::methods_of!{ [$enum, Backends] $($rows)* }
        crate::runtime::methods_of_values!{ [$enum] $($rows)* }
    };
}

macro_rules! methods_of {
    ([$enum:ident, $type:ident] $( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       $(with $options:ident : $struct:ident $(<$life:lifetime>)?
         { $( $(#[$odoc:meta])* $option:ident : $okind:ident = $odefault:expr ),+ $(,)? })?
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        impl crate::runtime::$type {
            $(
                $(#[$doc])*
                #[inline]
                #[allow(clippy::too_many_arguments, reason = "some operations have many operands")]
                pub fn $method(&self $(, $input: crate::runtime::erased_input!($kind))* $($(, $param: crate::runtime::erased_param!($pkind))+)? $(, $options: $struct)?)
                    -> Result<crate::runtime::erased_output!($output), crate::Error> {
                    const SPEC: &bb_ir::op::OpSpec = $enum::$name.spec();
                    $($( crate::runtime::given_param!($pkind, $param); )+)?
                    let outputs = self.call(
                        SPEC,
                        &crate::call::list_operands!($($kind $input),*),
                        &crate::call::list_params!($($($pkind $param),+)? $(; $options $($okind $option),+)?),
                    )?;
                    crate::call::unwrap_output!($output, SPEC.method, outputs)
                }
            )*
        }
    };
}

/// Expands table rows to methods of [`Value`](super::Value): the first operand is `self`.
macro_rules! methods_of_values {
    ([$enum:ident] $( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident ( $($row:tt)* )
       $(with $options:ident : $struct:ident $(<$life:lifetime>)?
         { $( $(#[$odoc:meta])* $option:ident : $okind:ident = $odefault:expr ),+ $(,)? })?
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        impl crate::Value {
            $( crate::runtime::method_of_values!{
                [$enum $name $output] $(#[$doc])* $method ($($row)*)
                $(with $options: $struct { $($option: $okind),+ })?
            } )*
        }
    };
}

macro_rules! method_of_values {
    ([$enum:ident $name:ident $output:ident] $(#[$doc:meta])* $method:ident
       ( $first:ident : Tensor $(, $input:ident : $kind:ident)*
         $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       $(with $options:ident : $struct:ident { $($option:ident : $okind:ident),+ })?) => {
        $(#[$doc])*
        #[inline]
        #[allow(clippy::too_many_arguments, reason = "some operations have many operands")]
        pub fn $method(&self $(, $input: crate::runtime::erased_input!($kind))* $($(, $param: crate::runtime::erased_param!($pkind))+)? $(, $options: $struct)?)
            -> Result<crate::runtime::erased_output!($output), crate::Error> {
            const SPEC: &bb_ir::op::OpSpec = $enum::$name.spec();
            $($( crate::runtime::given_param!($pkind, $param); )+)?
            let $first = self;
            let outputs = self.call(
                SPEC,
                &crate::call::list_operands!(Tensor $first $(, $kind $input)*),
                &crate::call::list_params!($($($pkind $param),+)? $(; $options $($okind $option),+)?),
            )?;
            crate::call::unwrap_output!($output, SPEC.method, outputs)
        }
    };
    ([$enum:ident $name:ident $output:ident] $(#[$doc:meta])* $method:ident
       ( $first:ident : Tensors $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )) => {
        $(#[$doc])*
        ///
        /// The backend that owns the first value runs the operation.
        #[inline]
        #[allow(clippy::too_many_arguments, reason = "some operations have many operands")]
        pub fn $method($first: crate::runtime::erased_input!(Tensors) $($(, $param: crate::runtime::erased_param!($pkind))+)?)
            -> Result<crate::runtime::erased_output!($output), crate::Error> {
            const SPEC: &bb_ir::op::OpSpec = $enum::$name.spec();
            $($( crate::runtime::given_param!($pkind, $param); )+)?
            let outputs = crate::Value::call_first(
                $first,
                SPEC,
                &crate::call::list_operands!(Tensors $first),
                &crate::call::list_params!($($($pkind $param),+)?),
            )?;
            crate::call::unwrap_output!($output, SPEC.method, outputs)
        }
    };
    ([$enum:ident $name:ident $output:ident] $(#[$doc:meta])* $method:ident
       ( $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       $(with $options:ident : $struct:ident { $($option:ident : $okind:ident),+ })?) => {
        $(#[$doc])*
        ///
        /// The backend that owns this value creates the result. The elements of this value are not read.
        #[inline]
        #[allow(clippy::too_many_arguments, reason = "some operations have many operands")]
        pub fn $method(&self $($(, $param: crate::runtime::erased_param!($pkind))+)? $(, $options: $struct)?)
            -> Result<crate::runtime::erased_output!($output), crate::Error> {
            const SPEC: &bb_ir::op::OpSpec = $enum::$name.spec();
            $($( crate::runtime::given_param!($pkind, $param); )+)?
            let outputs = self.call(SPEC, &[], &crate::call::list_params!($($($pkind $param),+)? $(; $options $($okind $option),+)?))?;
            crate::call::unwrap_output!($output, SPEC.method, outputs)
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __erased_input {
    (Tensor) => { &$crate::Value };
    (Optional) => { ::core::option::Option<&$crate::Value> };
    (Tensors) => { &[&$crate::Value] };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __erased_output {
    (Tensor) => { $crate::Value };
    (Tensors) => { ::std::vec::Vec<$crate::Value> };
}

/// The Rust type of a parameter of each kind. A float parameter accepts any number type.
#[doc(hidden)]
#[macro_export]
macro_rules! __erased_param {
    (Float) => { impl $crate::number::FloatParam };
    ($kind:ident) => { $crate::__private::ir::param_type!($kind) };
}

/// Shadows a float parameter with its converted value. Other parameters need no conversion.
#[doc(hidden)]
#[macro_export]
macro_rules! __given_param {
    (Float, $param:ident) => {
        let $param = $crate::number::FloatParam::to_float($param).map_err($crate::Error::from)?;
    };
    ($kind:ident, $param:ident) => {};
}

pub(crate) use {
    __erased_input as erased_input, __erased_output as erased_output, __erased_param as erased_param,
    __given_param as given_param, erased_methods, method_of_values, methods_of, methods_of_values,
};

use super::{BackendHandle, Backends, DispatchResult, Value};
use bb_ir::op::{OpSpec, Param, Primitive};

/// The supertrait that seals [`CallsRows`]: other crates cannot name it.
pub trait Sealed {}

/// A caller of operations by their table rows: a [`BackendHandle`], or [`Backends`].
///
/// The traits of vendors' operations ([`bb::vendor!`](crate::vendor)) are implemented for every caller. The trait
/// is sealed.
pub trait CallsRows: Sealed {
    /// Calls an operation of any family. Operands and parameters are in the order of the operation's table row.
    ///
    /// # Errors
    ///
    /// The operation's own errors; [`Error::ForeignTensor`](crate::Error::ForeignTensor) if an operand belongs to another
    /// backend.
    fn call_row(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&Value>],
        params: &[Param<'_>],
    ) -> DispatchResult;
}

macro_rules! calls_rows {
    ($($type:ident),*) => { $(
        impl Sealed for $type {}

        impl CallsRows for $type {
            fn call_row(
                &self,
                op: &'static OpSpec,
                inputs: &[Option<&Value>],
                params: &[Param<'_>],
            ) -> DispatchResult {
                self.call(op, inputs, params)
            }
        }
    )* };
}

calls_rows!(BackendHandle, Backends);

bb_ir::for_each_primitive!(erased_methods, Primitive);
