//! The gaps of ONNX Runtime: calls that it does not run as ONNX defines them.

use bb::DataType::{BF16, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
use bb_engines::{Gap, Reason, When};

const fn gap(reason: Reason, op: &'static str, when: When, case: &'static str) -> Gap {
    Gap { domain: "", op, since: 1, until: i64::MAX, when, reason, case }
}

/// The integer types.
const INTS: &[bb::DataType] = &[I8, I16, I32, I64, U8, U16, U32, U64];

/// The float types.
const FLOATS: &[bb::DataType] = &[BF16, F16, F32, F64];

const fn differs(op: &'static str, when: When, case: &'static str) -> Gap {
    gap(Reason::Differs, op, when, case)
}

/// The gaps, ordered by operator. `tests/gaps.rs` runs the case of each row.
pub const GAPS: &[Gap] = &[
    // It rounds to 16-bit floats between the steps.
    differs("Attention", When::Takes(&[F16, BF16]), "node/test_attention_4d_causal_fp16"),
    // A masked score is the lowest finite float instead of minus infinity.
    differs(
        "Attention",
        When::Result(3),
        "node/test_attention_4d_with_past_and_present_qk_matmul_bias_3d_mask_causal",
    ),
    // Its rounding errors exceed the tolerance of ONNX's tests.
    differs("DFT", When::Always, "node/test_dft"),
    // An integer division by 0 ends the process.
    gap(Reason::Crashes, "Div", When::Takes(INTS), "primitive/div"),
    // In training mode, it drops other elements than ONNX's random number generator.
    differs("Dropout", When::Operand(2), "node/test_training_dropout_default"),
    differs("MaxUnpool", When::Operand(2), "node/test_maxunpool_export_with_output_shape"),
    // Integers are converted to floats, and do not wrap around.
    differs("Pow", When::Takes(INTS), "primitive/pow"),
    // A comparison with NaN is false, so the result ignores NaN.
    differs("ReduceMax", When::Takes(FLOATS), "primitive/reduce_max"),
    differs("ReduceMin", When::Takes(FLOATS), "primitive/reduce_min"),
    // The mean of no elements is 0 instead of NaN.
    differs("ReduceMean", When::ReducesNothing, "primitive/reduce_mean"),
    // A sum that overflows saturates instead of wrapping around.
    differs("ReduceSum", When::Takes(INTS), "primitive/reduce_sum"),
    differs(
        "Resize",
        When::Text("coordinate_transformation_mode", "align_corners"),
        "node/test_resize_downsample_scales_linear_align_corners",
    ),
    differs("STFT", When::Always, "node/test_stft"),
];
