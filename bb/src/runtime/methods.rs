//! The operations as methods on values, expanded from the op table and the tables of the families.

/// Expands rows to methods of [`BackendHandle`](super::BackendHandle) and [`Backends`](super::Backends).
///
/// `erased_methods!{ [Enum] rows }`; `Enum` is the enum of the rows' operations.
macro_rules! erased_methods {
    ([$enum:ident] $($rows:tt)*) => {
        crate::runtime::methods_of!{ [$enum, BackendHandle] $($rows)* }
        crate::runtime::methods_of!{ [$enum, Backends] $($rows)* }
    };
}

macro_rules! methods_of {
    ([$enum:ident, $type:ident] $( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       -> $output:ident; )*) => {
        impl crate::runtime::$type {
            $(
                $(#[$doc])*
                #[allow(clippy::too_many_arguments, reason = "a method has as many arguments as its row")]
                pub fn $method(&self $(, $input: crate::runtime::erased_input!($kind))* $($(, $param: bb_ir::param_type!($pkind))+)?)
                    -> Result<crate::runtime::erased_output!($output), crate::Error> {
                    const SPEC: &bb_ir::op::OpSpec = $enum::$name.spec();
                    let outputs = self.call(
                        SPEC,
                        &crate::call::list_operands!($($kind $input),*),
                        &[$($( bb_ir::param_value!($pkind, $param) ),+)?],
                    )?;
                    crate::call::unwrap_output!($output, SPEC.method, outputs)
                }
            )*
        }
    };
}

macro_rules! erased_input {
    (Tensor) => { &crate::Value };
    (Optional) => { Option<&crate::Value> };
    (Tensors) => { &[&crate::Value] };
}

macro_rules! erased_output {
    (Tensor) => { crate::Value };
    (Tensors) => { Vec<crate::Value> };
}

pub(crate) use {erased_input, erased_methods, erased_output, methods_of};

use bb_ir::op::Primitive;

bb_ir::for_each_primitive!(erased_methods, Primitive);
