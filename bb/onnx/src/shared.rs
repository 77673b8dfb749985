//! Shared code of operator crates: rows and tables, reading attributes, and functions and rules of several topics.
//!
//! `bb-onnx-microsoft`, `bb-onnx-ml` and `bb-onnx-training` use it. It is not part of this crate's stable API.

pub use crate::attributes::Attributes;
pub use crate::cache::{Kept, same};
pub use crate::folded::Folded;
pub use crate::inline::inline;
pub use crate::rows::{Row, operators};
pub use crate::strings::texts;
pub use crate::table::{FunctionPlace, Table, operator_table};

/// Rejects attributes and operands that a function does not support.
pub mod served {
    pub use crate::served::{alike, no_operand, no_results_from, none_from, only, only_int, only_text};
}

/// Attention by heads.
pub mod attention {
    pub use crate::attention::{Heads, by_heads, with_cached};
}

/// Sampling of images at given positions.
pub mod grid {
    pub use crate::grid::{grid_sample, grid_sample_types};
}

/// Attention with a recurrent state.
pub mod linear_attention {
    pub use crate::linear_attention::{
        Convolved, PLACES, Unread, convolved, latest, linear_attention_types, several_states, stepped,
        windowed,
    };
}

/// Normalization, and matrix products with a bias.
pub mod normalize {
    pub use crate::normalize::{
        gemm_shape, gemm_types, layer_normalization, layer_normalization_types, plain_gemm, transposed,
    };
}

/// Regular expressions.
pub mod pattern {
    pub use crate::pattern::{compiled, unlinked};
    pub use bb_ir::pattern::Pattern;
}

/// Integers that represent multiples of a scale.
pub mod quant {
    pub use crate::quant::{dequantize, plain_qlinear_conv, product_shape, quantize, quantize_types};
}

/// Recurrent cells.
pub mod recurrent {
    pub use crate::recurrent::{quantized_lstm, recurrent_types};
}

/// Resizing of images.
pub mod resize {
    pub use crate::resize::{repeated, stretched};
}

/// Selections by the values of elements.
pub mod selection {
    pub use crate::selection::unique_by;
}

/// Shapes, and operators that move elements.
pub mod shape {
    pub use crate::shape::{gather_nd, gather_nd_types, pad, pad_types, range_of, range_types, trilu};
}

/// String tensors.
pub mod strings {
    pub use crate::strings::{filled, strings};
}

/// Convolution and pooling.
pub mod window {
    pub use crate::window::{
        conv_shape, conv_shape_of, conv_types, global_pool_shape, global_pool_types, over_space,
        plain_average_pool, plain_conv, plain_conv_transpose, plain_max_pool, pool_shape, pool_types,
        transposed_shape,
    };
}
