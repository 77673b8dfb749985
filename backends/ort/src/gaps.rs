//! The gaps of ONNX Runtime: calls that it does not run as ONNX defines them.

use bb::DataType::{BF16, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
use bb_engines::{Gap, Reason, When};

const fn gap(reason: Reason, op: &'static str, when: When, case: &'static str) -> Gap {
    Gap { domain: "", op, since: 1, until: i64::MAX, when, reason, case }
}

/// The integers.
const INTS: &[bb::DataType] = &[I8, I16, I32, I64, U8, U16, U32, U64];

/// The floats.
const FLOATS: &[bb::DataType] = &[BF16, F16, F32, F64];

const fn differs(op: &'static str, when: When, case: &'static str) -> Gap {
    gap(Reason::Differs, op, when, case)
}

/// The gaps, by operator; `tests/gaps.rs` runs each one's case.
pub const GAPS: &[Gap] = &[
    // It rounds to halves between the steps.
    differs("Attention", When::Takes(&[F16, BF16]), "node/test_attention_4d_causal_fp16"),
    // What is masked is the least float rather than the negative infinity.
    differs(
        "Attention",
        When::Result(3),
        "node/test_attention_4d_with_past_and_present_qk_matmul_bias_3d_mask_causal",
    ),
    // Its rounding errors are larger than those of ONNX's tests.
    differs("DFT", When::Always, "node/test_dft"),
    // A divisor of 0 ends the process.
    gap(Reason::Crashes, "Div", When::Takes(INTS), "primitive/div"),
    // Training drops other elements than ONNX's generator of random numbers.
    differs("Dropout", When::Operand(2), "node/test_training_dropout_default"),
    differs("MaxUnpool", When::Operand(2), "node/test_maxunpool_export_with_output_shape"),
    // Integers pass through floats, and do not wrap around.
    differs("Pow", When::Takes(INTS), "primitive/pow"),
    // NaN is not greater and not less than anything, so that it is lost.
    differs("ReduceMax", When::Takes(FLOATS), "primitive/reduce_max"),
    differs("ReduceMin", When::Takes(FLOATS), "primitive/reduce_min"),
    // The mean of nothing is 0 rather than NaN.
    differs("ReduceMean", When::ReducesNothing, "primitive/reduce_mean"),
    // A sum that does not fit is the greatest integer.
    differs("ReduceSum", When::Takes(INTS), "primitive/reduce_sum"),
    differs(
        "Resize",
        When::Text("coordinate_transformation_mode", "align_corners"),
        "node/test_resize_downsample_scales_linear_align_corners",
    ),
    differs("STFT", When::Always, "node/test_stft"),
];
