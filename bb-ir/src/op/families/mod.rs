//! The tables of the extension families, one file each, in the grammar of [`table`](super::table).

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

/// Expands a callback macro once for each family, with `[Trait, Operations]` before the rows: the family's trait in `bb::ext` and the
/// enum of its operations.
#[macro_export]
macro_rules! for_each_family {
    ($($callback:ident)::+) => {
        $crate::for_each_nn!($($callback)::+, Nn, NnOp);
        $crate::for_each_llm!($($callback)::+, Llm, LlmOp);
        $crate::for_each_scalar!($($callback)::+, Scalar, ScalarOp);
        $crate::for_each_create!($($callback)::+, Create, CreateOp);
        $crate::for_each_index!($($callback)::+, Index, IndexOp);
        $crate::for_each_bits!($($callback)::+, Bits, BitsOp);
        $crate::for_each_image!($($callback)::+, Image, ImageOp);
        $crate::for_each_ml!($($callback)::+, Ml, MlOp);
        $crate::for_each_quant!($($callback)::+, Quant, QuantOp);
        $crate::for_each_train!($($callback)::+, Train, TrainOp);
    };
}
