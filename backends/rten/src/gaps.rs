//! The gaps of rten: calls that it does not run as ONNX defines them.

use bb::DataType::{Bool, F32, I32, I64};
use bb_engines::{Gap, Reason, When};

const fn differs(op: &'static str, when: When, case: &'static str) -> Gap {
    Gap { domain: "", op, since: 1, until: i64::MAX, when, reason: Reason::Differs, case }
}

const fn until(until: i64, gap: Gap) -> Gap {
    Gap { until, ..gap }
}

/// The gaps, ordered by operator. `tests/gaps.rs` runs the case of each row.
pub const GAPS: &[Gap] = &[
    // If elements are equal, it selects the last one.
    differs("ArgMax", When::Always, "node/test_argmax_no_keepdims_example"),
    // Floats out of range saturate, and NaN becomes 0. Conversions to bool round to an integer first.
    differs("Cast", When::All(&[When::Takes(&[F32]), When::Ints("to", &[2, 3, 6, 7, 9])]), "primitive/cast"),
    differs("DFT", When::Always, "node/test_dft"),
    // If the divisor has one element, the quotient has the shape of the first operand.
    differs("Div", When::RankGrows, "primitive/div"),
    // In training mode, it drops other elements than ONNX's random number generator.
    differs("Dropout", When::Operand(2), "node/test_training_dropout_default"),
    differs("DynamicQuantizeLinear", When::Always, "node/test_dynamicquantizelinear"),
    // The last columns of a row are summed in another order than the other columns, so that equal columns give
    // different results.
    differs("Gemm", When::Always, "light/test_resnet50"),
    // In older opsets, the axis divides the shape into two parts. rten always normalises along a single axis.
    until(12, differs("LogSoftmax", When::Always, "history/test_logsoftmax_axis_0__o9_onnx1.7.0")),
    differs("MatMul", When::Rank(1, 1), "node/test_matmul_4d_1d"),
    differs("NonMaxSuppression", When::Always, "node/test_nonmaxsuppression_two_batches"),
    differs("Pow", When::RankGrows, "primitive/pow"),
    differs("Pow", When::Takes(&[I32, I64]), "primitive/pow"),
    // It multiplies by the reciprocal of the scale, so a quotient halfway between two integers may round to the
    // wrong one.
    differs("QuantizeLinear", When::Always, "node/test_dynamicquantizelinear_expanded"),
    // The result of a reduction of no elements is a 32-bit integer's limit, not the limit of the element type.
    differs("ReduceMax", When::Takes(&[Bool, I64]), "primitive/reduce_max"),
    differs("ReduceMin", When::Takes(&[Bool, I64]), "primitive/reduce_min"),
    differs(
        "Resize",
        When::Text("coordinate_transformation_mode", "align_corners"),
        "node/test_resize_downsample_scales_linear_align_corners",
    ),
    differs("Resize", When::Text("mode", "cubic"), "node/test_resize_upsample_scales_cubic"),
    differs("SequenceErase", When::Always, "simple/test_sequence_model3"),
    // The sign of 0 is computed as 1.
    differs("Sign", When::Takes(&[F32]), "simple/test_sign_model"),
    until(12, differs("Softmax", When::Always, "history/test_softmax_axis_0__o9_onnx1.7.0")),
];
