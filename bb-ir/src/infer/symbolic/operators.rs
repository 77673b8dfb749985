//! The rules of operators that are no primitives, by name.
//!
//! A rule says what is sure and nothing else: what it cannot tell, an odd attribute included, it leaves to whoever runs
//! the node.

use super::contents::{Contents, Given, given};
use super::{Facts, shape_of};
use super::{attention, collections, elements, ml, movement, products, windows};
use crate::graph::{Dim, Node, ValueType};
use crate::infer::broadcast;
use crate::op::Primitive;
use crate::{Axis, DataType};

/// A node and what is known of its operands.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) node: &'a Node,
    pub(super) facts: &'a Facts,
}

/// The types of results, as far as they are known.
pub(super) type Types = Vec<ValueType>;

/// What tells the types of an operator's results.
#[derive(Clone, Copy)]
enum Rule {
    /// The first result is as the first operand.
    Same,
    /// The extents of the first operand, and another element type.
    As(DataType),
    /// The extents that all operands broadcast to, and the type of the first.
    Broadcast,
    /// The extents that all operands broadcast to, and truth values.
    Truth,
    /// A function.
    By(fn(At<'_>) -> Option<Types>),
}

use Rule::{As, Broadcast, By, Same, Truth};

/// The operators of `ai.onnx`, sorted by name.
#[rustfmt::skip]
const RULES: &[(&str, Rule)] = &[
    ("Acos", Same), ("Acosh", Same), ("AffineGrid", By(windows::affine_grid)), ("And", Truth),
    ("ArgMax", By(elements::arg)), ("ArgMin", By(elements::arg)), ("Asin", Same), ("Asinh", Same),
    ("Atan", Same), ("Atanh", Same), ("Attention", By(attention::attention)),
    ("AveragePool", By(windows::pool)), ("BatchNormalization", By(ml::batch_normalization)),
    ("Bernoulli", By(elements::cast_as_attribute)), ("BitCast", By(ml::bit_cast)),
    ("BitShift", Broadcast), ("BitwiseAnd", Broadcast), ("BitwiseNot", Same), ("BitwiseOr", Broadcast),
    ("BitwiseXor", Broadcast), ("BlackmanWindow", By(elements::window)),
    ("CastLike", By(elements::cast_like)), ("CausalConvWithState", By(attention::causal_conv)),
    ("Ceil", Same), ("Celu", Same), ("CenterCropPad", By(windows::center_crop_pad)), ("Clip", Same),
    ("Col2Im", By(windows::col2im)), ("Compress", By(movement::compress)),
    ("ConcatFromSequence", By(collections::concat)), ("ConstantOfShape", By(movement::constant_of_shape)),
    ("Conv", By(windows::conv)), ("ConvInteger", By(windows::conv_integer)),
    ("ConvTranspose", By(windows::conv_transpose)), ("Cos", Same), ("Cosh", Same), ("CumProd", Same),
    ("CumSum", Same), ("DFT", By(windows::dft)), ("DeformConv", By(windows::deform_conv)),
    ("DepthToSpace", By(movement::depth_to_space)), ("DequantizeLinear", By(elements::dequantize)),
    ("Det", By(products::det)), ("Dropout", By(elements::dropout)),
    ("DynamicQuantizeLinear", By(elements::dynamic_quantize)), ("Einsum", By(products::einsum)),
    ("Elu", Same), ("Erf", Same), ("Expand", By(movement::expand)),
    ("EyeLike", By(elements::cast_as_attribute)), ("Flatten", By(movement::flatten)), ("Floor", Same),
    ("GRU", By(products::recurrent)), ("GatherElements", By(movement::gather_elements)),
    ("GatherND", By(movement::gather_nd)), ("Gelu", Same), ("Gemm", By(products::gemm)),
    ("GlobalAveragePool", By(windows::global_pool)), ("GlobalLpPool", By(windows::global_pool)),
    ("GlobalMaxPool", By(windows::global_pool)), ("GreaterOrEqual", Truth),
    ("GridSample", By(windows::grid_sample)), ("GroupNormalization", Same),
    ("HammingWindow", By(elements::window)), ("HannWindow", By(elements::window)), ("HardSigmoid", Same),
    ("HardSwish", Same), ("Hardmax", Same), ("ImageDecoder", By(windows::image_decoder)),
    ("InstanceNormalization", Same), ("IsInf", As(DataType::Bool)), ("IsNaN", As(DataType::Bool)),
    ("LRN", Same), ("LSTM", By(products::recurrent)), ("LayerNormalization", By(attention::normalization)),
    ("LeakyRelu", Same), ("LessOrEqual", Truth), ("LinearAttention", By(attention::linear)),
    ("LogSoftmax", Same), ("LpNormalization", Same), ("LpPool", By(windows::pool)),
    ("MatMulInteger", By(products::matmul_integer)), ("Max", Broadcast), ("MaxPool", By(windows::pool)),
    ("MaxRoiPool", By(windows::max_roi_pool)), ("MaxUnpool", By(windows::max_unpool)), ("Mean", Broadcast),
    ("MeanVarianceNormalization", Same), ("MelWeightMatrix", By(windows::mel_weights)), ("Min", Broadcast),
    ("Mish", Same), ("Mod", Broadcast), ("Multinomial", By(elements::multinomial)),
    ("NegativeLogLikelihoodLoss", By(products::loss)), ("NonMaxSuppression", By(ml::suppression)),
    ("NonZero", By(movement::non_zero)), ("Not", Same), ("OneHot", By(movement::one_hot)),
    ("Optional", By(collections::optional)), ("OptionalGetElement", By(collections::get_element)),
    ("OptionalHasElement", By(collections::has_element)), ("Or", Truth), ("PRelu", Same),
    ("Pad", By(movement::pad)), ("QLinearConv", By(windows::qlinear_conv)),
    ("QLinearMatMul", By(products::qlinear_matmul)), ("QuantizeLinear", By(elements::quantize)),
    ("RMSNormalization", By(elements::scaled)), ("RNN", By(products::recurrent)), ("RandomNormal", By(elements::random)),
    ("RandomNormalLike", By(elements::cast_as_attribute)), ("RandomUniform", By(elements::random)),
    ("RandomUniformLike", By(elements::cast_as_attribute)), ("Range", By(movement::range)),
    ("Reciprocal", Same), ("ReduceL1", By(elements::reduce)), ("ReduceL2", By(elements::reduce)),
    ("ReduceLogSum", By(elements::reduce)), ("ReduceLogSumExp", By(elements::reduce)),
    ("ReduceProd", By(elements::reduce)), ("ReduceSumSquare", By(elements::reduce)),
    ("RegexFullMatch", As(DataType::Bool)), ("Relu", Same), ("Resize", By(movement::resize)),
    ("ReverseSequence", Same), ("RoiAlign", By(windows::roi_align)), ("RotaryEmbedding", Same),
    ("Round", Same), ("STFT", By(windows::stft)), ("Scatter", Same), ("ScatterElements", Same),
    ("ScatterND", Same), ("Selu", Same), ("SequenceAt", By(collections::at)),
    ("SequenceConstruct", By(collections::construct)), ("SequenceEmpty", By(collections::empty)),
    ("SequenceErase", Same), ("SequenceInsert", By(collections::insert)),
    ("SequenceLength", By(collections::length)), ("Shape", By(movement::shape)), ("Shrink", Same),
    ("Sigmoid", Same), ("Sign", Same), ("Sin", Same), ("Sinh", Same), ("Size", By(movement::size)),
    ("Softmax", Same), ("SoftmaxCrossEntropyLoss", By(products::loss)), ("Softplus", Same),
    ("Softsign", Same), ("SpaceToDepth", By(movement::space_to_depth)),
    ("SplitToSequence", By(collections::split)), ("StringConcat", By(ml::joined_texts)),
    ("StringNormalizer", By(ml::normalized_texts)), ("StringSplit", By(ml::split_texts)),
    ("Sum", Broadcast), ("SwiGLU", Same), ("Swish", Same), ("Tan", Same), ("Tanh", Same),
    ("TensorScatter", Same), ("TfIdfVectorizer", By(ml::tf_idf)), ("ThresholdedRelu", Same),
    ("Tile", By(movement::tile)), ("TopK", By(elements::top_k)), ("Trilu", Same),
    ("Unique", By(ml::unique)), ("Upsample", By(movement::resize)), ("Xor", Truth),
];

/// The operators of `ai.onnx.ml`, sorted by name.
#[rustfmt::skip]
const ML: &[(&str, Rule)] = &[
    ("ArrayFeatureExtractor", By(ml::feature_extractor)), ("Binarizer", Same),
    ("CastMap", By(collections::cast_map)), ("CategoryMapper", By(ml::labels)),
    ("DictVectorizer", By(collections::dict_vectorizer)),
    ("FeatureVectorizer", By(ml::feature_vectorizer)), ("Imputer", Same),
    ("LabelEncoder", By(ml::labels)), ("LinearClassifier", By(ml::classifier)),
    ("LinearRegressor", By(ml::regressor)), ("Normalizer", As(DataType::F32)),
    ("OneHotEncoder", By(ml::one_hot_encoder)), ("SVMClassifier", By(ml::classifier)),
    ("SVMRegressor", By(ml::regressor)), ("Scaler", As(DataType::F32)),
    ("TreeEnsemble", By(ml::regressor)), ("TreeEnsembleClassifier", By(ml::classifier)),
    ("TreeEnsembleRegressor", By(ml::regressor)), ("ZipMap", By(collections::zip_map)),
];

/// The operators of `ai.onnx.preview`, sorted by name.
#[rustfmt::skip]
const PREVIEW: &[(&str, Rule)] = &[
    ("FlexAttention", By(attention::flex)),
];

/// The operators of `ai.onnx.preview.training`, sorted by name.
#[rustfmt::skip]
const TRAINING: &[(&str, Rule)] = &[
    ("Adagrad", By(ml::optimizer)), ("Adam", By(ml::optimizer)),
    ("Gradient", By(ml::gradient)), ("Momentum", By(ml::optimizer)),
];

/// The operators of `com.microsoft`, sorted by name.
#[rustfmt::skip]
const MICROSOFT: &[(&str, Rule)] = &[

    ("Attention", By(attention::merged)), ("BiasGelu", Broadcast), ("CDist", By(products::distances)),
    ("ConvTransposeWithDynamicPads", By(windows::conv_transpose_with_pads)),
    ("CropAndResize", By(windows::crop_and_resize)), ("DequantizeLinear", By(ml::numbers_of)),
    ("DynamicQuantizeLSTM", By(products::recurrent)),
    ("DynamicQuantizeMatMul", By(ml::scaled_product)),
    ("EmbedLayerNormalization", By(attention::embedding)), ("ExpandDims", By(movement::expand_dims)),
    ("FastGelu", Broadcast), ("FusedConv", By(windows::conv)), ("FusedGemm", By(products::gemm)),
    ("FusedMatMul", By(ml::fused_matmul)), ("FusedMatMulActivation", By(ml::fused_matmul)),
    ("GatherBlockQuantized", By(ml::gather_blocks)), ("GatherND", By(movement::gather_nd)),
    ("Gelu", Same), ("GridSample", By(windows::grid_sample)),
    ("GroupQueryAttention", By(attention::group_query)), ("Inverse", Same),
    ("LayerNormalization", By(attention::normalization)), ("MatMulBnb4", By(ml::matmul_bnb4)),
    ("MatMulIntegerToFloat", By(ml::scaled_product)), ("MatMulNBits", By(ml::matmul_n_bits)),
    ("MultiHeadAttention", By(attention::multi_head)), ("MurmurHash3", By(ml::hashes)),
    ("NhwcMaxPool", By(windows::nhwc_pool)), ("Pad", By(movement::pad)),
    ("QAttention", By(attention::merged)),
    ("QEmbedLayerNormalization", By(attention::embedding)), ("QGemm", By(products::q_gemm)),
    ("QLinearAdd", By(products::qlinear_elements)), ("QLinearAveragePool", By(windows::qlinear_pool)),
    ("QLinearConcat", By(ml::qlinear_concat)), ("QLinearConv", By(windows::qlinear_conv)),
    ("QLinearGlobalAveragePool", By(windows::qlinear_global_pool)), ("QLinearLeakyRelu", Same),
    ("QLinearMul", By(products::qlinear_elements)), ("QLinearReduceMean", By(elements::qlinear_reduce)),
    ("QLinearSigmoid", Same), ("QLinearSoftmax", Same), ("QLinearWhere", By(products::qlinear_where)),
    ("QuantizeLinear", By(elements::quantize)), ("QuickGelu", Same), ("Range", By(movement::range)),
    ("RotaryEmbedding", Same), ("SimplifiedLayerNormalization", By(attention::simplified_normalization)),
    ("SkipLayerNormalization", By(attention::skip_normalization)),
    ("SkipSimplifiedLayerNormalization", By(attention::skip_normalization)),
    ("Tokenizer", By(ml::tokens)), ("TransposeMatMul", By(ml::fused_matmul)), ("Trilu", Same),
    ("Unique", By(ml::unique_in_order)),
];

fn rule(domain: &str, op_type: &str) -> Option<&'static Rule> {
    let rules = match domain {
        "" => RULES,
        "ai.onnx.ml" => ML,
        "ai.onnx.preview" => PREVIEW,
        "ai.onnx.preview.training" => TRAINING,
        "com.microsoft" => MICROSOFT,
        _ => return None,
    };
    let found = rules.binary_search_by_key(&op_type, |(name, _)| name).ok()?;
    rules.get(found).map(|(_, rule)| rule)
}

/// Tells whether the types of an operator's results are inferred, as far as they can be told.
///
/// # Examples
///
/// ```
/// use bb_ir::infer::has_rule;
/// assert!(has_rule("", "Loop") && has_rule("com.microsoft", "Gelu") && !has_rule("com.example", "Gelu"));
/// ```
pub fn has_rule(domain: &str, op_type: &str) -> bool {
    let in_place = domain.is_empty()
        && (Primitive::from_name(op_type).is_some() || super::control::NAMES.contains(&op_type));
    in_place || rule(domain, op_type).is_some()
}

/// Returns the types of a node's results as far as they are sure; fewer where they are not.
pub(super) fn results(node: &Node, facts: &Facts) -> Types {
    let at = At { node, facts };
    let Some(rule) = rule(&node.domain, &node.op_type) else { return Types::new() };
    let types = match rule {
        Same => Some(vec![facts.ty(node, 0).clone()]),
        As(dtype) => at.one(Some(*dtype), at.same()),
        Broadcast => at.one(at.dtype(0), at.broadcast()),
        Truth => at.one(Some(DataType::Bool), at.broadcast()),
        By(rule) => rule(at),
    };
    types.unwrap_or_default()
}

impl<'a> At<'a> {
    /// The extents of an operand.
    pub(super) fn dims(self, input: usize) -> Option<&'a [Dim]> {
        shape_of(self.facts.ty(self.node, input))
    }

    /// The element type of an operand.
    pub(super) fn dtype(self, input: usize) -> Option<DataType> {
        match self.facts.ty(self.node, input) {
            ValueType::Tensor { dtype, .. } => Some(*dtype),
            _ => None,
        }
    }

    /// Tells whether an operand is given.
    pub(super) fn has(self, input: usize) -> bool {
        self.node.inputs.get(input).is_some_and(Option::is_some)
    }

    /// An integer attribute, or `default` where it is left out; none if it is of another kind.
    pub(super) fn int(self, name: &str, default: i64) -> Option<i64> {
        Some(self.node.attributes.int(name).ok()?.unwrap_or(default))
    }

    /// Integers of an attribute.
    pub(super) fn ints(self, name: &str) -> Option<&'a [i64]> {
        self.node.attributes.ints(name).ok()?
    }

    /// A word of an attribute, or `default` where it is left out.
    pub(super) fn text(self, name: &str, default: &'a str) -> Option<&'a str> {
        Some(self.node.attributes.text(name).ok()?.unwrap_or(default))
    }

    /// The element type that an attribute numbers, or `default` where it is left out.
    pub(super) fn type_attribute(self, name: &str, default: Option<DataType>) -> Option<DataType> {
        match self.node.attributes.int(name).ok()? {
            Some(number) => DataType::from_onnx(i32::try_from(number).ok()?),
            None => default,
        }
    }

    /// Integers that are an attribute in old versions and an operand in new ones; empty where they are left out.
    pub(super) fn list(self, attribute: &str, input: usize) -> Option<Vec<i64>> {
        match given(self.node, self.facts, attribute, input) {
            Given::Ints(ints) => Some(ints),
            Given::Absent => Some(Vec::new()),
            Given::Unknown => None,
        }
    }

    /// An integer that is an operand of one element.
    pub(super) fn scalar(self, input: usize) -> Option<i64> {
        self.contents(input)?.only()?.int()
    }

    /// The extent that is an operand of one element.
    pub(super) fn extent(self, input: usize) -> Dim {
        let entry = self.contents(input).and_then(Contents::only);
        entry.and_then(|e| e.formula().cloned()).map_or(Dim::Unknown, Dim::from)
    }

    /// The integer that is an operand of one element, or 0 if that is more.
    pub(super) fn extent_or_less(self, input: usize) -> Dim {
        let entry = self.contents(input).and_then(Contents::only);
        entry.and_then(|e| e.formula()?.greater(&0.into())).map_or(Dim::Unknown, Dim::from)
    }

    /// The contents of an operand, as far as they are known.
    pub(super) fn contents(self, input: usize) -> Option<&'a Contents> {
        self.facts.contents(self.node, input)
    }

    /// Extents that are an operand; not more of them than are followed.
    pub(super) fn extents(self, input: usize) -> Option<Vec<Dim>> {
        let entries = self.contents(input)?.entries.iter();
        Some(entries.map(|e| e.formula().map_or(Dim::Unknown, |f| Dim::from(f.clone()))).collect())
    }

    /// As many unknown extents as an operand that lists them has elements.
    pub(super) fn open_extents(self, input: usize) -> Option<Vec<Dim>> {
        match self.dims(input)? {
            [Dim::Known(rank)] if *rank <= 64 => Some(vec![Dim::Unknown; *rank]),
            _ => None,
        }
    }

    /// `x` with another extent for the axis that is named; none if there is no such axis.
    pub(super) fn with_axis(self, x: &[Dim], axis: i64, to: Dim) -> Option<Vec<Dim>> {
        self.with_axes(x, &[axis], &[to])
    }

    /// `x` with other extents for the axes that are named; none if the lists do not fit.
    #[expect(clippy::unused_self, reason = "it reads as what a rule of this node says")]
    pub(super) fn with_axes(self, x: &[Dim], axes: &[i64], to: &[Dim]) -> Option<Vec<Dim>> {
        let mut out = x.to_vec();
        for (&named, dim) in axes.iter().zip(to) {
            *out.get_mut(axis(named, x.len())?)? = dim.clone();
        }
        (axes.len() == to.len()).then_some(out)
    }

    /// The only result, of this type.
    #[expect(clippy::unused_self, reason = "it reads as what a rule of this node says")]
    pub(super) fn one(self, dtype: Option<DataType>, shape: Option<Vec<Dim>>) -> Option<Types> {
        Some(vec![tensor(dtype, shape)])
    }

    /// The extents of the first operand.
    pub(super) fn same(self) -> Option<Vec<Dim>> {
        self.dims(0).map(<[Dim]>::to_vec)
    }

    /// The extents that all operands broadcast to.
    fn broadcast(self) -> Option<Vec<Dim>> {
        // Before, attributes said how, and the first operand was not extended.
        if self.node.opset < 7 && self.node.domain.is_empty() {
            return self.same();
        }
        let given: Vec<usize> = (0..self.node.inputs.len()).filter(|i| self.has(*i)).collect();
        self.broadcast_of(&given)
    }

    /// The extents that these operands broadcast to.
    pub(super) fn broadcast_of(self, inputs: &[usize]) -> Option<Vec<Dim>> {
        let shapes = inputs.iter().map(|i| self.dims(*i)).collect::<Option<Vec<_>>>()?;
        Some(broadcast("broadcast", &shapes).ok()?.into_vec())
    }
}

/// A tensor type; nothing is known where the element type is not.
pub(super) fn tensor(dtype: Option<DataType>, shape: Option<Vec<Dim>>) -> ValueType {
    dtype.map_or(ValueType::Unknown, |dtype| ValueType::Tensor { dtype, shape })
}

/// The axis that `axis` names in `rank` dimensions.
pub(super) fn axis(axis: i64, rank: usize) -> Option<usize> {
    Axis::new(axis, rank).ok().map(Axis::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_sorted() {
        for rules in [RULES, ML, PREVIEW, TRAINING, MICROSOFT] {
            assert!(rules.is_sorted_by(|a, b| a.0 < b.0));
        }
    }
}
