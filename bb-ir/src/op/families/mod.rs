//! The op tables of the extension families, one file each. The syntax of a row is documented in [`table`](super::table).

mod bits;
mod create;
mod image;
mod index;
mod llm;
mod ml;
mod nn;
mod quant;
mod scalar;
mod train;

/// Expands a callback macro once for the primitives and once for each family. Its arguments are `[Trait, Operations]` and then, for
/// each row, the name of the operation and its facts: `Relu { Elementwise, export: Relu = same }`.
#[macro_export]
macro_rules! for_each_table_of_facts {
    ($callback:ident) => {
        $crate::for_each_primitive!($crate::facts_of_rows, $callback, Backend, Primitive);
        $crate::for_each_family!($crate::facts_of_rows, $callback);
    };
}

/// Reduces each row to the name of the operation and its facts, and expands the callback macro.
#[doc(hidden)]
#[macro_export]
macro_rules! facts_of_rows {
    ([$callback:ident, $trait:ident, $enum:ident] $( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       $(with $options:ident : $struct:ident $(<$life:lifetime>)?
         { $( $(#[$odoc:meta])* $option:ident : $okind:ident = $odefault:expr ),+ $(,)? })?
       -> $output:ident $facts:tt; )*) => {
        $callback! { [$trait, $enum] $( $name $facts )* }
    };
}

/// Expands a callback macro once for each family. `[Trait, Operations]` precedes the rows: the family's trait in `bb::ext`, and the
/// enum of its operations. If an identifier or a group is passed as the second argument, it precedes the trait: `[word, Trait, Operations]`.
#[macro_export]
macro_rules! for_each_family {
    ($($callback:ident)::+ $(, $with:tt)?) => {
        $crate::for_each_nn!($($callback)::+, $($with,)? Nn, NnOp);
        $crate::for_each_llm!($($callback)::+, $($with,)? Llm, LlmOp);
        $crate::for_each_scalar!($($callback)::+, $($with,)? Scalar, ScalarOp);
        $crate::for_each_create!($($callback)::+, $($with,)? Create, CreateOp);
        $crate::for_each_index!($($callback)::+, $($with,)? Index, IndexOp);
        $crate::for_each_bits!($($callback)::+, $($with,)? Bits, BitsOp);
        $crate::for_each_image!($($callback)::+, $($with,)? Image, ImageOp);
        $crate::for_each_ml!($($callback)::+, $($with,)? Ml, MlOp);
        $crate::for_each_quant!($($callback)::+, $($with,)? Quant, QuantOp);
        $crate::for_each_train!($($callback)::+, $($with,)? Train, TrainOp);
    };
}
