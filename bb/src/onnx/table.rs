//! Which function serves an operator of an opset: one row per operator, with every version of its history.

use super::{
    Body, arithmetic as a, attention as t, bit_cast, determinant, grid as g, image, ml as l, movement as m,
    ngrams, normalize as n, picture, quant as q, random, reduce as r, region, resize as z, scalar as s,
    selection, sequence, sequence_axis, shape as h, signal, sorting, strings, suppression, window as w,
};
use super::{
    cumulative, einsum, flex_attention, gradient, linear_attention, loss, microsoft as ms, recurrent,
    training,
};
use crate::ext::Ops;
use bb_ir::opset::{Presence, presence};

/// What an operator's function is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Primitives and extension methods.
    Primitives,
    /// The host: what it does depends on data, or on what is no number.
    Host,
    /// The host, unless a backend overrides the extension method it calls.
    HostByDefault,
    /// Nothing that computes: sequences, optionals and maps are taken apart when a plan is made.
    Items,
}

/// One version of an operator that a function serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operator {
    /// The domain; empty for `ai.onnx`.
    pub domain: &'static str,
    /// The operator, as in `ReduceSum`.
    pub name: &'static str,
    /// The opset that brought this version; it holds until the next version's.
    pub since: i64,
    /// What the function is made of.
    pub class: Class,
}

/// Expands `domain { Class Name: versions => function, versions => function; … }` to the list of operators and the
/// functions beside it. Domains, names and versions ascend, so that [`lookup`] can bisect; a test holds it.
macro_rules! operators {
    ($( $domain:literal { $( $class:ident $name:ident : $( $($since:literal),+ => $function:expr ),+ ; )* } )*) => {
        static OPERATORS: &[Operator] = &[$( $( $( $(
            Operator { domain: $domain, name: stringify!($name), since: $since, class: Class::$class },
        )+ )+ )* )*];

        /// Returns the function of the operator at `index` of [`OPERATORS`].
        fn function<B: Ops + ?Sized>(index: usize) -> Option<Body<B>> {
            let functions: &[(Body<B>, usize)] =
                &[$( $( $( (body!($class, $function), [$($since),+].len()), )+ )* )*];
            let mut end = 0;
            // Versions that share a function are one entry here.
            functions.iter().find(|(_, versions)| { end += versions; index < end }).map(|(f, _)| *f)
        }
    };
}

/// What a function of a class works on.
macro_rules! body {
    (Primitives, $function:expr) => {
        Body::Tensors($function)
    };
    (HostByDefault, $function:expr) => {
        Body::Tensors($function)
    };
    (Host, $function:expr) => {
        Body::Host($function)
    };
    (Items, $function:expr) => {
        Body::Items($function)
    };
}

/// Returns the operator and its function for a model that imports `opset` of `domain`.
///
/// `ai.onnx` is another name of the empty domain.
pub fn lookup<B: Ops + ?Sized>(
    domain: &str,
    op_type: &str,
    opset: i64,
) -> Option<(&'static Operator, Body<B>)> {
    let domain = if domain == "ai.onnx" { "" } else { domain };
    let end = OPERATORS.partition_point(|o| (o.domain, o.name, o.since) <= (domain, op_type, opset));
    let index = end.checked_sub(1)?;
    let operator = OPERATORS.get(index).filter(|o| o.domain == domain && o.name == op_type)?;
    // ONNX may have taken it away since.
    if matches!(presence(domain, op_type, opset), Presence::Gone { .. }) {
        return None;
    }
    Some((operator, function::<B>(index)?))
}

/// Lists the versions of operators that have functions, by domain, name and version.
pub fn operators() -> impl Iterator<Item = &'static Operator> {
    OPERATORS.iter()
}

operators! {
    "" {
        Primitives Abs: 1, 6, 13 => a::abs;
        Primitives Acos: 7, 22 => s::acos;
        Primitives Acosh: 9, 22 => s::acosh;
        Primitives Add: 1, 6 => a::legacy_add, 7, 13, 14 => a::add;
        Primitives AffineGrid: 20 => g::affine_grid;
        Primitives And: 1 => s::legacy_and, 7 => s::and;
        Primitives ArgMax: 1, 11, 12, 13 => r::arg_max;
        Primitives ArgMin: 1, 11, 12, 13 => r::arg_min;
        Primitives Asin: 7, 22 => s::asin;
        Primitives Asinh: 9, 22 => s::asinh;
        Primitives Atan: 7, 22 => s::atan;
        Primitives Atanh: 9, 22 => s::atanh;
        Primitives Attention: 23, 24, 25 => t::attention;
        Primitives AveragePool: 1, 7, 10, 11, 19, 22 => w::average_pool;
        Primitives BatchNormalization: 1, 6, 7, 9, 14, 15 => n::batch_normalization;
        HostByDefault Bernoulli: 15, 22 => random::bernoulli;
        HostByDefault BitCast: 26 => bit_cast::bit_cast;
        Primitives BitShift: 11, 28 => s::bit_shift;
        HostByDefault BitwiseAnd: 18 => s::bitwise_and;
        HostByDefault BitwiseNot: 18 => s::bitwise_not;
        HostByDefault BitwiseOr: 18 => s::bitwise_or;
        HostByDefault BitwiseXor: 18 => s::bitwise_xor;
        Primitives BlackmanWindow: 17 => signal::blackman_window;
        Primitives Cast: 1 => a::cast_named, 6, 9, 13, 19, 21, 23, 24, 25 => a::cast;
        Primitives CastLike: 15, 19, 21, 23, 24, 25 => a::cast_like;
        Primitives CausalConvWithState: 27 => linear_attention::causal_conv;
        Primitives Ceil: 1, 6, 13 => s::ceil;
        Primitives Celu: 12 => s::celu;
        Primitives CenterCropPad: 18 => image::center_crop_pad;
        Primitives Clip: 1, 6 => s::clip_by_attributes, 11, 12, 13 => s::clip;
        Primitives Col2Im: 18 => image::col2im;
        Host Compress: 9, 11, 28 => selection::compress;
        Primitives Concat: 1, 4, 11, 13 => m::concat;
        Items ConcatFromSequence: 11 => sequence::concat;
        Primitives Constant: 1, 9, 11, 12, 13, 19, 21, 23, 24, 25 => a::constant;
        Primitives ConstantOfShape: 9, 20, 21, 23, 24, 25 => h::constant_of_shape;
        Primitives Conv: 1, 11, 22 => w::conv;
        Primitives ConvInteger: 10 => w::conv_integer;
        Primitives ConvTranspose: 1, 11, 22 => w::conv_transpose;
        Primitives Cos: 7, 22 => s::cos;
        Primitives Cosh: 9, 22 => s::cosh;
        Primitives CumProd: 26 => cumulative::cum_prod;
        Primitives CumSum: 11, 14 => cumulative::cum_sum;
        Primitives DFT: 17, 20 => signal::dft;
        Primitives DeformConv: 19, 22 => g::deform_conv;
        Primitives DepthToSpace: 1, 11, 13 => h::depth_to_space;
        Primitives DequantizeLinear: 10, 13, 19, 21, 23, 24, 25 => q::dequantize;
        Primitives Det: 11, 22 => determinant::det;
        Primitives Div: 1, 6 => a::legacy_div, 7, 13, 14 => a::div;
        HostByDefault Dropout: 1, 6, 7, 10, 12, 13, 22 => random::dropout;
        Primitives DynamicQuantizeLinear: 11 => q::dynamic_quantize;
        Primitives Einsum: 12, 28 => einsum::einsum;
        Primitives Elu: 1, 6, 22 => s::elu;
        Primitives Equal: 1 => a::legacy_equal, 7, 11, 13, 19 => a::equal;
        Primitives Erf: 9, 13 => s::erf;
        Primitives Exp: 1, 6, 13 => a::exp;
        Primitives Expand: 8, 13 => h::expand;
        Primitives EyeLike: 9, 22 => h::eye_like;
        Primitives Flatten: 1, 9, 11, 13, 21, 23, 24, 25 => h::flatten;
        Primitives Floor: 1, 6, 13 => s::floor;
        Primitives GRU: 1, 3, 7, 14, 22 => recurrent::gru;
        Primitives Gather: 1, 11, 13 => m::gather;
        Primitives GatherElements: 11, 13 => h::gather_elements;
        Primitives GatherND: 11, 12, 13 => h::gather_nd;
        Primitives Gelu: 20 => s::gelu;
        Primitives Gemm: 1, 6, 7, 9, 11, 13 => n::gemm;
        Primitives GlobalAveragePool: 1, 22 => w::global_average_pool;
        Primitives GlobalLpPool: 1, 2, 22 => w::global_lp_pool;
        Primitives GlobalMaxPool: 1, 22 => w::global_max_pool;
        Primitives Greater: 1 => a::legacy_greater, 7, 9, 13 => a::greater;
        Primitives GreaterOrEqual: 12, 16 => s::greater_or_equal;
        Primitives GridSample: 16, 20, 22 => g::grid_sample;
        Primitives GroupNormalization: 18, 21 => n::group_normalization;
        Primitives HammingWindow: 17 => signal::hamming_window;
        Primitives HannWindow: 17 => signal::hann_window;
        Primitives HardSigmoid: 1, 6, 22 => s::hard_sigmoid;
        Primitives HardSwish: 14, 22 => s::hard_swish;
        Primitives Hardmax: 1, 11, 13 => n::hardmax;
        Primitives Identity: 1, 13 => a::identity;
        Items Identity: 14, 16, 19, 21, 23, 24, 25 => sequence::identity;
        Host ImageDecoder: 20 => picture::image_decoder;
        Primitives InstanceNormalization: 1, 6, 22 => n::instance_normalization;
        Primitives IsInf: 10, 20 => s::is_inf;
        Primitives IsNaN: 9, 13, 20 => s::is_nan;
        Primitives LRN: 1, 13 => n::lrn;
        Primitives LSTM: 1, 7, 14, 22 => recurrent::lstm;
        Primitives LayerNormalization: 17 => n::layer_normalization;
        Primitives LeakyRelu: 1, 6, 16 => s::leaky_relu;
        Primitives Less: 1 => a::legacy_less, 7, 9, 13 => a::less;
        Primitives LessOrEqual: 12, 16 => s::less_or_equal;
        Primitives LinearAttention: 27 => linear_attention::linear_attention;
        Primitives Log: 1, 6, 13 => a::log;
        Primitives LogSoftmax: 1, 11 => n::joint_log_softmax, 13 => n::log_softmax;
        Primitives LpNormalization: 1, 22 => n::lp_normalization;
        Primitives LpPool: 1, 2, 11, 18, 22 => w::lp_pool;
        Primitives MatMul: 1, 9, 13 => a::matmul;
        Primitives MatMulInteger: 10 => q::matmul_integer;
        Primitives Max: 1, 6, 8, 12, 13 => s::max;
        Primitives MaxPool: 1, 8, 10, 11, 12, 22 => w::max_pool;
        HostByDefault MaxRoiPool: 1, 22 => region::max_roi_pool;
        HostByDefault MaxUnpool: 9, 11, 22 => image::max_unpool;
        Primitives Mean: 1, 6, 8, 13 => s::mean;
        Primitives MeanVarianceNormalization: 9, 13 => n::mean_variance_normalization;
        Primitives MelWeightMatrix: 17 => signal::mel_weight_matrix;
        Primitives Min: 1, 6, 8, 12, 13 => s::min;
        Primitives Mish: 18, 22 => s::mish;
        HostByDefault Mod: 10, 13 => s::modulo;
        Primitives Mul: 1, 6 => a::legacy_mul, 7, 13, 14 => a::mul;
        HostByDefault Multinomial: 7, 22 => random::multinomial;
        Primitives Neg: 1, 6, 13 => a::neg;
        Primitives NegativeLogLikelihoodLoss: 12, 13, 22 => loss::negative_log_likelihood;
        Host NonMaxSuppression: 10, 11 => suppression::non_max_suppression;
        Host NonZero: 9, 13 => selection::non_zero;
        Primitives Not: 1 => s::not;
        Primitives OneHot: 9, 11 => h::one_hot;
        Items Optional: 15 => sequence::optional;
        Items OptionalGetElement: 15, 18 => sequence::get_element;
        Items OptionalHasElement: 15, 18 => sequence::has_element;
        Primitives Or: 1 => s::legacy_or, 7 => s::or;
        Primitives PRelu: 1, 6, 7, 9, 16 => s::prelu;
        Primitives Pad: 1, 2, 11, 13, 18, 19, 21, 23, 24, 25 => h::pad;
        Primitives Pow: 1 => a::legacy_pow, 7, 12, 13, 15 => a::pow;
        Primitives QLinearConv: 10 => q::qlinear_conv;
        Primitives QLinearMatMul: 10, 21 => q::qlinear_matmul;
        Primitives QuantizeLinear: 10, 13, 19, 21, 23, 24, 25 => q::quantize;
        Primitives RMSNormalization: 23 => n::rms_normalization;
        Primitives RNN: 1, 7, 14, 22 => recurrent::rnn;
        HostByDefault RandomNormal: 1, 22 => random::normal;
        HostByDefault RandomNormalLike: 1, 22 => random::normal_like;
        HostByDefault RandomUniform: 1, 22 => random::uniform;
        HostByDefault RandomUniformLike: 1, 22 => random::uniform_like;
        Primitives Range: 11 => h::range;
        Primitives Reciprocal: 1, 6, 13 => s::reciprocal;
        Primitives ReduceL1: 1, 11, 13, 18 => r::l1;
        Primitives ReduceL2: 1, 11, 13, 18 => r::l2;
        Primitives ReduceLogSum: 1, 11, 13, 18 => r::log_sum;
        Primitives ReduceLogSumExp: 1, 11, 13, 18 => r::log_sum_exp;
        Primitives ReduceMax: 1, 11, 12, 13, 18, 20 => r::max;
        Primitives ReduceMean: 1, 11, 13, 18 => r::mean;
        Primitives ReduceMin: 1, 11, 12, 13, 18, 20 => r::min;
        Primitives ReduceProd: 1, 11, 13, 18 => r::prod;
        Primitives ReduceSum: 1, 11, 13 => r::sum;
        Primitives ReduceSumSquare: 1, 11, 13, 18 => r::sum_square;
        HostByDefault RegexFullMatch: 20 => strings::regex_full_match;
        Primitives Relu: 1, 6, 13, 14 => s::relu;
        Primitives Reshape: 1, 5, 13, 14, 19, 21, 23, 24, 25 => m::reshape;
        Primitives Resize: 10, 11, 13, 18, 19 => z::resize;
        Primitives ReverseSequence: 10, 28 => sequence_axis::reverse_sequence;
        HostByDefault RoiAlign: 10, 16, 22 => region::roi_align;
        Primitives RotaryEmbedding: 23 => t::rotary_embedding;
        Primitives Round: 11, 22 => s::round;
        Primitives STFT: 17 => signal::stft;
        HostByDefault Scatter: 9 => sorting::scatter_elements;
        HostByDefault ScatterElements: 11, 13, 16, 18 => sorting::scatter_elements;
        HostByDefault ScatterND: 11, 13, 16, 18 => sorting::scatter_nd;
        Primitives Selu: 1, 6, 22 => s::selu;
        Items SequenceAt: 11 => sequence::at;
        Items SequenceConstruct: 11 => sequence::construct;
        Items SequenceEmpty: 11 => sequence::empty;
        Items SequenceErase: 11 => sequence::erase;
        Items SequenceInsert: 11 => sequence::insert;
        Items SequenceLength: 11 => sequence::length;
        Primitives Shape: 1, 13, 15, 19, 21, 23, 24, 25 => h::shape;
        Primitives Shrink: 9 => s::shrink;
        Primitives Sigmoid: 1, 6, 13 => s::sigmoid;
        Primitives Sign: 9, 13 => s::sign;
        Primitives Sin: 7, 22 => s::sin;
        Primitives Sinh: 9, 22 => s::sinh;
        Primitives Size: 1, 13, 19, 21, 23, 24, 25 => h::size;
        Primitives Slice: 1, 10, 11, 13 => m::slice;
        Primitives Softmax: 1, 11 => n::joint_softmax, 13 => n::softmax;
        Primitives SoftmaxCrossEntropyLoss: 12, 13 => loss::softmax_cross_entropy;
        Primitives Softplus: 1, 22 => s::softplus;
        Primitives Softsign: 1, 22 => s::softsign;
        Primitives SpaceToDepth: 1, 13 => h::space_to_depth;
        Primitives Split: 1, 2, 11, 13, 18 => m::split;
        Items SplitToSequence: 11, 24 => sequence::split;
        Primitives Sqrt: 1, 6, 13 => a::sqrt;
        Primitives Squeeze: 1, 11, 13, 21, 23, 24, 25 => m::squeeze;
        HostByDefault StringConcat: 20 => strings::concat;
        Host StringNormalizer: 10 => strings::normalizer;
        Host StringSplit: 20 => strings::split;
        Primitives Sub: 1, 6 => a::legacy_sub, 7, 13, 14 => a::sub;
        Primitives Sum: 1, 6, 8, 13 => s::sum;
        Primitives SwiGLU: 28 => s::swiglu;
        Primitives Swish: 24 => s::swish;
        Primitives Tan: 7, 22 => s::tan;
        Primitives Tanh: 1, 6, 13 => s::tanh;
        Primitives TensorScatter: 24 => sequence_axis::tensor_scatter;
        HostByDefault TfIdfVectorizer: 9 => ngrams::tf_idf_vectorizer;
        Primitives ThresholdedRelu: 1, 10, 22 => s::thresholded_relu;
        Primitives Tile: 1, 6, 13 => h::tile;
        HostByDefault TopK: 1, 10, 11, 24 => sorting::top_k;
        Primitives Transpose: 1, 13, 21, 23, 24, 25 => m::transpose;
        Primitives Trilu: 14 => h::trilu;
        Host Unique: 11, 28 => selection::unique;
        Primitives Unsqueeze: 1, 11, 13, 21, 23, 24, 25 => m::unsqueeze;
        Primitives Upsample: 1, 7, 9 => z::resize;
        Primitives Where: 9, 16 => a::select;
        Primitives Xor: 1 => s::legacy_xor, 7 => s::xor;
    }
    "ai.onnx.ml" {
        Primitives ArrayFeatureExtractor: 1 => l::array_feature_extractor;
        Primitives Binarizer: 1 => l::binarizer;
        Items CastMap: 1 => l::cast_map;
        HostByDefault CategoryMapper: 1 => l::category_mapper;
        Items DictVectorizer: 1 => l::dict_vectorizer;
        Primitives FeatureVectorizer: 1 => l::feature_vectorizer;
        Primitives Imputer: 1 => l::imputer;
        HostByDefault LabelEncoder: 1 => l::label_encoder_by_position, 2, 4 => l::label_encoder;
        Primitives LinearClassifier: 1 => l::linear_classifier;
        Primitives LinearRegressor: 1 => l::linear_regressor;
        Primitives Normalizer: 1 => l::normalizer;
        Primitives OneHotEncoder: 1 => l::one_hot_encoder;
        Primitives SVMClassifier: 1 => l::svm_classifier;
        Primitives SVMRegressor: 1 => l::svm_regressor;
        Primitives Scaler: 1 => l::scaler;
        Primitives TreeEnsemble: 5 => l::tree_ensemble;
        Primitives TreeEnsembleClassifier: 1, 3, 5 => l::tree_ensemble_classifier;
        Primitives TreeEnsembleRegressor: 1, 3, 5 => l::tree_ensemble_regressor;
        Items ZipMap: 1 => l::zip_map;
    }
    "ai.onnx.preview" {
        Primitives FlexAttention: 1 => flex_attention::flex_attention;
    }
    "ai.onnx.preview.training" {
        Primitives Adagrad: 1 => training::adagrad;
        Primitives Adam: 1 => training::adam;
        Primitives Gradient: 1 => gradient::gradient;
        Primitives Momentum: 1 => training::momentum;
    }
    "com.microsoft" {
        Primitives Attention: 1 => ms::attention;
        Primitives BiasGelu: 1 => ms::bias_gelu;
        Primitives CDist: 1 => ms::c_dist;
        Primitives ConvTransposeWithDynamicPads: 1 => ms::conv_transpose_with_dynamic_pads;
        Primitives CropAndResize: 1 => ms::crop_and_resize;
        Primitives DequantizeLinear: 1 => ms::dequantize;
        Primitives DynamicQuantizeLSTM: 1 => ms::dynamic_quantize_lstm;
        Primitives DynamicQuantizeMatMul: 1 => ms::dynamic_quantize_matmul;
        Primitives EmbedLayerNormalization: 1 => ms::embed_layer_normalization;
        Primitives ExpandDims: 1 => ms::expand_dims;
        Primitives FastGelu: 1 => ms::fast_gelu;
        Primitives FusedConv: 1 => ms::fused_conv;
        Primitives FusedGemm: 1 => ms::fused_gemm;
        Primitives FusedMatMul: 1 => ms::fused_matmul;
        Primitives FusedMatMulActivation: 1 => ms::fused_matmul_activation;
        Primitives GatherBlockQuantized: 1 => ms::gather_block_quantized;
        Primitives GatherND: 1 => ms::gather_nd;
        Primitives Gelu: 1 => ms::gelu;
        Primitives GridSample: 1 => ms::grid_sample;
        Primitives GroupQueryAttention: 1 => ms::group_query_attention;
        Primitives Inverse: 1 => ms::inverse;
        Primitives LayerNormalization: 1 => ms::layer_normalization;
        Primitives MatMulBnb4: 1 => ms::matmul_bnb4;
        Primitives MatMulIntegerToFloat: 1 => ms::matmul_integer_to_float;
        Primitives MatMulNBits: 1 => ms::matmul_n_bits;
        Primitives MultiHeadAttention: 1 => ms::multi_head_attention;
        HostByDefault MurmurHash3: 1 => ms::murmur_hash3;
        Primitives NhwcMaxPool: 1 => ms::nhwc_max_pool;
        Primitives Pad: 1 => ms::pad;
        Primitives QAttention: 1 => ms::q_attention;
        Primitives QEmbedLayerNormalization: 1 => ms::q_embed_layer_normalization;
        Primitives QGemm: 1 => ms::q_gemm;
        Primitives QLinearAdd: 1 => ms::qlinear_add;
        Primitives QLinearAveragePool: 1 => ms::qlinear_average_pool;
        Primitives QLinearConcat: 1 => ms::concat;
        Primitives QLinearConv: 1 => ms::conv;
        Primitives QLinearGlobalAveragePool: 1 => ms::global_average_pool;
        Primitives QLinearLeakyRelu: 1 => ms::leaky_relu;
        Primitives QLinearMul: 1 => ms::qlinear_mul;
        Primitives QLinearReduceMean: 1 => ms::reduce_mean;
        Primitives QLinearSigmoid: 1 => ms::sigmoid;
        Primitives QLinearSoftmax: 1 => ms::softmax;
        Primitives QLinearWhere: 1 => ms::select;
        Primitives QuantizeLinear: 1 => ms::quantize;
        Primitives QuickGelu: 1 => ms::quick_gelu;
        Primitives Range: 1 => ms::range;
        Primitives RotaryEmbedding: 1 => ms::rotary_embedding;
        Primitives SimplifiedLayerNormalization: 1 => ms::simplified_layer_normalization;
        Primitives SkipLayerNormalization: 1 => ms::skip_layer_normalization;
        Primitives SkipSimplifiedLayerNormalization: 1 => ms::skip_simplified_layer_normalization;
        Host Tokenizer: 1 => ms::tokenizer;
        Primitives TransposeMatMul: 1 => ms::transpose_matmul;
        Primitives Trilu: 1 => ms::trilu;
        Host Unique: 1 => ms::unique;
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::trace::Tracer;

    #[test]
    fn rows_ascend() {
        let keys: Vec<_> = operators().map(|o| (o.domain, o.name, o.since)).collect();
        assert!(keys.windows(2).all(|w| w.first() < w.last()), "{keys:?}");
    }

    #[test]
    fn types_are_inferred_for_every_operator() {
        let without: Vec<_> = operators().filter(|o| !bb_ir::infer::has_rule(o.domain, o.name)).collect();
        assert!(without.is_empty(), "{without:?}");
    }

    #[test]
    fn the_greatest_version_that_is_not_newer_serves_an_opset() {
        let since = |opset| lookup::<Tracer>("", "Add", opset).map(|(o, _)| o.since);
        assert_eq!(since(0), None);
        assert_eq!(since(6), Some(6));
        assert_eq!(since(12), Some(7));
        assert_eq!(since(99), Some(14));
        assert_eq!(lookup::<Tracer>("ai.onnx", "Add", 14).unwrap().0.name, "Add");
        assert!(lookup::<Tracer>("", "Ad", 14).is_none());
        assert!(lookup::<Tracer>("other", "Add", 14).is_none());
    }
}
