//! The operations of families as methods of running backends and of values.

use crate::family::*;

/// Expands rows to the methods, and to the family's trait for a handle: `family_methods!{ [Trait, OpEnum] rows }`.
macro_rules! family_methods {
    ([$trait:ident, $enum:ident] $($rows:tt)*) => {
        crate::runtime::erased_methods!{ [$enum] $($rows)* }
        family_handle!{ [$trait, $enum] $($rows)* }
    };
}

/// Implements the family for a running backend of any type, by its methods of the same names.
macro_rules! family_handle {
    ([$trait:ident, $enum:ident] $( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       $(with $options:ident : $struct:ident $(<$life:lifetime>)?
         { $( $(#[$odoc:meta])* $option:ident : $okind:ident = $odefault:expr ),+ $(,)? })?
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        #[diagnostic::do_not_recommend]
        impl crate::contract::Native<$enum> for crate::BackendHandle {
            const NATIVE: &'static [$enum] = &[];
        }

        #[diagnostic::do_not_recommend]
        impl $trait for crate::BackendHandle {
            $(
                #[allow(clippy::too_many_arguments, reason = "some operations have many operands")]
                fn $method(&self $(, $input: crate::__input_type!($kind))* $($(, $param: bb_ir::param_type!($pkind))+)? $(, $options: $struct)?)
                    -> Result<crate::__output_type!($output), Self::Error> {
                    crate::BackendHandle::$method(self $(, $input)* $($(, $param)+)? $(, $options)?)
                }
            )*
        }
    };
}

bb_ir::for_each_family!(family_methods);
