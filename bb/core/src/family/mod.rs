//! The tables of extension families: their traits, the enums of their operations, and the structs of their options.
//!
//! If a backend does not implement a method, the method runs the operation's body: a function in [`crate::ext`] that is traced. Bodies are
//! called through [`RunsBodies`](crate::erased::RunsBodies), so that the tables do not depend on the bodies.

mod extended;
mod macros;

pub use bits::{Bits, BitsOp};
pub use create::{Create, CreateOp, RandomNormalOptions, RandomUniformOptions};
pub use extended::Extended;
pub(crate) use extended::call_erased;
pub use image::{
    DeformConvOptions, GridSampleOptions, Image, ImageOp, RoiAlignOptions, SharpenOptions, SobelOptions,
};
pub use index::{Index, IndexOp, ScatterElementsOptions, TopKOptions};
pub use llm::{
    AttentionOptions, CachedAttentionOptions, Llm, LlmOp, PagedAttentionOptions, QuantizedLinearOptions,
    RaggedAttentionOptions, RotateOptions, SampleTokenOptions,
};
pub(crate) use macros::{family, family_extended, family_options, family_trait};
pub use ml::{Ml, MlOp, TreeEnsembleOptions};
pub use nn::{
    AveragePoolOptions, ConvOptions, ConvTransposeOptions, FusedConvOptions, GruOptions,
    LayerNormalizationOptions, LstmOptions, MaxPoolOptions, Nn, NnOp, RnnOptions,
};
pub use quant::{
    ConvIntegerOptions, DequantizeOptions, MatMulNBitsOptions, QLinearConvOptions, Quant, QuantOp,
    QuantizeLinearOptions, QuantizeOptions,
};
pub use scalar::{Scalar, ScalarOp};
pub use train::{
    AdagradOptions, AdamOptions, CrossEntropyOfProbabilitiesOptions, CrossEntropyOptions,
    CrossEntropyWithProbabilitiesOptions, MomentumOptions, NegativeLogLikelihoodOptions, Train, TrainOp,
};

use crate::contract::OpSet;
use bb_ir::op::{Family, OpSpec, Primitive};

/// The family `Bits`.
pub(crate) mod bits {
    bb_ir::for_each_bits!(crate::family::family,
        /// Bitwise operations on integers.
        Bits, BitsOp, bits);
}

/// The family `Create`.
pub(crate) mod create {
    use bb_ir::DataType;

    bb_ir::for_each_create!(crate::family::family,
        /// Operations that create tensors: constants, zeros, ones, ranges and random numbers.
        Create, CreateOp, create);
}

/// The family `Image`.
pub(crate) mod image {
    use bb_ir::op::{Border, Interpolation, SamplePadding};

    bb_ir::for_each_image!(crate::family::family,
        /// Operations on images and signals.
        Image, ImageOp, image);
}

/// The family `Index`.
pub(crate) mod index {
    use bb_ir::op::ScatterReduction;

    bb_ir::for_each_index!(crate::family::family,
        /// Sorting, writing to indexed positions, and the positions of extrema.
        Index, IndexOp, index);
}

/// The family `Llm`.
pub(crate) mod llm {
    bb_ir::for_each_llm!(crate::family::family,
        /// Operations of language models.
        Llm, LlmOp, llm);
}

/// The family `Ml`.
pub(crate) mod ml {
    bb_ir::for_each_ml!(crate::family::family,
        /// Classical models: forests of decision trees, and distances.
        Ml, MlOp, ml);
}

/// The family `Nn`.
pub(crate) mod nn {
    bb_ir::for_each_nn!(crate::family::family,
        /// Neural-network operations.
        Nn, NnOp, nn);
}

/// The family `Quant`.
pub(crate) mod quant {
    bb_ir::for_each_quant!(crate::family::family,
        /// Operations on quantised tensors, whose integers represent multiples of a scale, counted from a zero point.
        Quant, QuantOp, quant);
}

/// The family `Scalar`.
pub(crate) mod scalar {
    bb_ir::for_each_scalar!(crate::family::family,
        /// Element-wise functions.
        Scalar, ScalarOp, scalar);
}

/// The family `Train`.
pub(crate) mod train {
    use bb_ir::op::{AdamEpsilon, Reduction};

    bb_ir::for_each_train!(crate::family::family,
        /// Losses of classification, and optimizers.
        Train, TrainOp, train);
}

/// Evaluates to the associated constant `$constant` of the family's enum of operations, or to `$vendor` for a vendor's family.
macro_rules! of_family {
    ($family:expr, $constant:ident, $vendor:expr) => {
        match $family {
            bb_ir::op::Family::Primitive => bb_ir::op::Primitive::$constant,
            bb_ir::op::Family::Nn => $crate::family::NnOp::$constant,
            bb_ir::op::Family::Llm => $crate::family::LlmOp::$constant,
            bb_ir::op::Family::Scalar => $crate::family::ScalarOp::$constant,
            bb_ir::op::Family::Create => $crate::family::CreateOp::$constant,
            bb_ir::op::Family::Index => $crate::family::IndexOp::$constant,
            bb_ir::op::Family::Bits => $crate::family::BitsOp::$constant,
            bb_ir::op::Family::Image => $crate::family::ImageOp::$constant,
            bb_ir::op::Family::Ml => $crate::family::MlOp::$constant,
            bb_ir::op::Family::Quant => $crate::family::QuantOp::$constant,
            bb_ir::op::Family::Train => $crate::family::TrainOp::$constant,
            _ => $vendor,
        }
    };
}
pub(crate) use of_family;

/// Expands to functions that list the operations of the families.
macro_rules! families {
    ($($trait:ident $enum:ident;)*) => {
        /// Returns the table rows of a family of `bb` or of the primitives. The list is empty for a vendor's family.
        pub(crate) fn rows(family: Family) -> Vec<&'static OpSpec> {
            match family {
                $( Family::$trait => $enum::ALL.iter().map(|op| op.spec()).collect(), )*
                Family::Primitive => Primitive::ALL.iter().map(|op| op.spec()).collect(),
                _ => Vec::new(),
            }
        }

        /// Returns every operation of every family of `bb`.
        pub(crate) fn every_operation() -> Vec<(Family, OpSet)> {
            let all = |family| rows(family).iter().fold(OpSet::default(), |set, op| set.with(op.index));
            vec![$( (Family::$trait, all(Family::$trait)), )*]
        }
    };
}

families! {
    Create CreateOp;
    Scalar ScalarOp;
    Nn NnOp;
    Llm LlmOp;
    Index IndexOp;
    Bits BitsOp;
    Image ImageOp;
    Ml MlOp;
    Quant QuantOp;
    Train TrainOp;
}
