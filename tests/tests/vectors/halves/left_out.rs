//! Operators and operations that the table of errors of 16-bit floats leaves out, with the reasons.

const RANDOM: &str = "random";
const QUANTISED: &str = "quantised numbers, for which the page has rules of its own";
const GRAPH: &str = "a graph of operators, each of which rounds";
const BITS: &str = "bits of elements, not numbers";
const MADE: &str = "made on the host in `f64`, or copied";
const AS_OPERATOR: &str = "measured as the operator of the name";
const NO_HALVES: &str = "takes no 16-bit floats";
const TRUTH: &str = "truth values";
const GROUPS: &str = "keys lie in groups whose size depends on the type";

const SOFTMAX: &str = "up to 2048 terms each step rounds, as in the function by which ONNX defines it";

/// Operators.
pub(super) const OPERATORS: &[(&str, &str)] = &[
    ("Softmax", SOFTMAX),
    ("Bernoulli", RANDOM),
    ("Dropout", RANDOM),
    ("Multinomial", RANDOM),
    ("RandomNormal", RANDOM),
    ("RandomNormalLike", RANDOM),
    ("RandomUniform", RANDOM),
    ("RandomUniformLike", RANDOM),
    ("DequantizeLinear", QUANTISED),
    ("QuantizeLinear", QUANTISED),
    ("QLinearMatMul", QUANTISED),
    ("ai.onnx.preview.training Gradient", GRAPH),
    ("BitCast", BITS),
    ("com.microsoft MurmurHash3", BITS),
    ("Constant", MADE),
    ("ConstantFill", MADE),
    ("GivenTensorFill", MADE),
    ("EyeLike", MADE),
    ("MelWeightMatrix", MADE),
    ("com.microsoft BifurcationDetector", NO_HALVES),
    ("com.microsoft DynamicTimeWarping", NO_HALVES),
    ("com.microsoft MatMulInteger16", NO_HALVES),
    ("com.microsoft NGramHashMapping", NO_HALVES),
    ("com.microsoft DecoderMaskedSelfAttention", GROUPS),
    ("com.microsoft Tokenizer", NO_HALVES),
    ("com.microsoft.nchwc AveragePool", NO_HALVES),
    ("com.microsoft.nchwc Conv", NO_HALVES),
    ("com.microsoft.nchwc GlobalAveragePool", NO_HALVES),
    ("com.microsoft.nchwc GlobalMaxPool", NO_HALVES),
    ("com.microsoft.nchwc MaxPool", NO_HALVES),
    ("com.microsoft.nchwc ReorderInput", NO_HALVES),
    ("com.microsoft.nchwc ReorderOutput", NO_HALVES),
    ("com.microsoft.nchwc Upsample", NO_HALVES),
    ("com.microsoft DequantizeLinear", QUANTISED),
    ("com.microsoft DynamicQuantizeLSTM", QUANTISED),
    ("com.microsoft NhwcMaxPool", QUANTISED),
    ("com.microsoft QEmbedLayerNormalization", QUANTISED),
    ("com.microsoft QGemm", QUANTISED),
    ("com.microsoft QLinearAdd", QUANTISED),
    ("com.microsoft QLinearAveragePool", QUANTISED),
    ("com.microsoft QLinearConcat", QUANTISED),
    ("com.microsoft QLinearConv", QUANTISED),
    ("com.microsoft QLinearGlobalAveragePool", QUANTISED),
    ("com.microsoft QLinearLeakyRelu", QUANTISED),
    ("com.microsoft QLinearMul", QUANTISED),
    ("com.microsoft QLinearReduceMean", QUANTISED),
    ("com.microsoft QLinearSigmoid", QUANTISED),
    ("com.microsoft QLinearSoftmax", QUANTISED),
    ("com.microsoft QLinearWhere", QUANTISED),
    ("com.microsoft QuantizeLinear", QUANTISED),
];

/// Operations of families.
pub(super) const OPERATIONS: &[(&str, &str)] = &[
    ("and", TRUTH),
    ("not", TRUTH),
    ("or", TRUTH),
    ("xor", TRUTH),
    ("fused", GRAPH),
    ("fused_conv", GRAPH),
    ("sample_token", RANDOM),
    ("quantized_linear", QUANTISED),
    ("softmax", SOFTMAX),
    ("roi_align", AS_OPERATOR),
    ("max_roi_pool", AS_OPERATOR),
    ("tree_ensemble", AS_OPERATOR),
];
