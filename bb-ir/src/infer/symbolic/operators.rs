//! The rules of operators that are no primitives, by name.
//!
//! A rule says what is sure and nothing else: what it cannot tell, an odd attribute included, it leaves to whoever runs
//! the node.

use super::dims::{broadcast, concrete, quotient};
use super::evaluate::{Entry, Given, given};
use super::{Facts, shape_of};
use super::{collections, elements, movement, products, windows};
use crate::graph::{Dim, Node, ValueType};
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
    ("ArgMax", By(elements::arg)), ("ArgMin", By(elements::arg)),
    ("Asin", Same), ("Asinh", Same), ("Atan", Same), ("Atanh", Same),
    ("AveragePool", By(windows::pool)), ("BatchNormalization", Same), ("Bernoulli", By(elements::cast_as_attribute)),
    ("BitShift", Broadcast), ("BitwiseAnd", Broadcast), ("BitwiseNot", Same), ("BitwiseOr", Broadcast),
    ("BitwiseXor", Broadcast), ("BlackmanWindow", By(elements::window)), ("CastLike", By(elements::cast_like)),
    ("Ceil", Same), ("Celu", Same), ("Clip", Same), ("Compress", By(movement::compress)),
    ("ConstantOfShape", By(movement::constant_of_shape)), ("Conv", By(windows::conv)),
    ("ConvInteger", By(windows::conv_integer)), ("ConvTranspose", By(windows::conv_transpose)),
    ("Cos", Same), ("Cosh", Same), ("CumProd", Same), ("CumSum", Same), ("DepthToSpace", By(movement::depth_to_space)),
    ("DequantizeLinear", By(elements::dequantize)), ("Det", By(products::det)), ("Dropout", By(elements::dropout)),
    ("DynamicQuantizeLinear", By(elements::dynamic_quantize)), ("Einsum", By(products::einsum)), ("Elu", Same),
    ("Erf", Same), ("Expand", By(movement::expand)), ("EyeLike", By(elements::cast_as_attribute)),
    ("Flatten", By(movement::flatten)), ("Floor", Same), ("GRU", By(products::recurrent)),
    ("GatherElements", By(movement::gather_elements)), ("GatherND", By(movement::gather_nd)), ("Gelu", Same),
    ("Gemm", By(products::gemm)), ("GlobalAveragePool", By(windows::global_pool)),
    ("GlobalLpPool", By(windows::global_pool)), ("GlobalMaxPool", By(windows::global_pool)),
    ("GreaterOrEqual", Truth), ("GridSample", By(windows::grid_sample)), ("GroupNormalization", Same),
    ("HammingWindow", By(elements::window)), ("HannWindow", By(elements::window)), ("HardSigmoid", Same),
    ("HardSwish", Same), ("Hardmax", Same), ("If", By(collections::branches)),
    ("InstanceNormalization", Same), ("IsInf", As(DataType::Bool)), ("IsNaN", As(DataType::Bool)), ("LRN", Same),
    ("LSTM", By(products::recurrent)), ("LayerNormalization", Same), ("LeakyRelu", Same), ("LessOrEqual", Truth),
    ("LogSoftmax", Same), ("LpNormalization", Same), ("LpPool", By(windows::pool)),
    ("MatMulInteger", By(products::matmul_integer)), ("Max", Broadcast), ("MaxPool", By(windows::pool)),
    ("MaxRoiPool", By(windows::max_roi_pool)), ("Mean", Broadcast), ("MeanVarianceNormalization", Same),
    ("Min", Broadcast), ("Mish", Same), ("Mod", Broadcast), ("Multinomial", By(elements::multinomial)),
    ("NegativeLogLikelihoodLoss", By(products::loss)), ("NonZero", By(movement::non_zero)), ("Not", Same),
    ("OneHot", By(movement::one_hot)), ("Optional", By(collections::optional)),
    ("OptionalHasElement", By(collections::has_element)), ("Or", Truth), ("PRelu", Same), ("Pad", By(movement::pad)),
    ("QLinearConv", By(windows::qlinear_conv)), ("QLinearMatMul", By(products::qlinear_matmul)),
    ("QuantizeLinear", By(elements::quantize)), ("RMSNormalization", By(elements::scaled)), ("RNN", By(products::recurrent)),
    ("RandomNormal", By(elements::random)), ("RandomNormalLike", By(elements::cast_as_attribute)),
    ("RandomUniform", By(elements::random)), ("RandomUniformLike", By(elements::cast_as_attribute)),
    ("Range", By(movement::range)), ("Reciprocal", Same), ("ReduceL1", By(elements::reduce)),
    ("ReduceL2", By(elements::reduce)), ("ReduceLogSum", By(elements::reduce)),
    ("ReduceLogSumExp", By(elements::reduce)), ("ReduceProd", By(elements::reduce)),
    ("ReduceSumSquare", By(elements::reduce)), ("Relu", Same), ("Resize", By(windows::resize)),
    ("ReverseSequence", Same), ("RoiAlign", By(windows::roi_align)), ("RotaryEmbedding", Same), ("Round", Same),
    ("Scatter", Same), ("ScatterElements", Same), ("ScatterND", Same), ("Selu", Same),
    ("SequenceAt", By(collections::at)), ("SequenceConstruct", By(collections::construct)),
    ("SequenceEmpty", By(collections::empty)), ("SequenceErase", Same), ("SequenceLength", By(collections::length)),
    ("Shape", By(movement::shape)), ("Shrink", Same), ("Sigmoid", Same), ("Sign", Same), ("Sin", Same),
    ("Sinh", Same), ("Size", By(movement::size)), ("Softmax", Same), ("SoftmaxCrossEntropyLoss", By(products::loss)),
    ("Softplus", Same), ("Softsign", Same), ("SpaceToDepth", By(movement::space_to_depth)), ("Sum", Broadcast),
    ("Swish", Same), ("Tan", Same), ("Tanh", Same), ("TensorScatter", Same), ("ThresholdedRelu", Same),
    ("Tile", By(movement::tile)), ("TopK", By(elements::top_k)), ("Trilu", Same), ("Upsample", By(windows::resize)),
    ("Xor", Truth),
];

/// The operators of `ai.onnx.ml`, sorted by name.
#[rustfmt::skip]
const ML: &[(&str, Rule)] = &[
    ("Binarizer", Same), ("Imputer", Same), ("LinearRegressor", By(products::regressor)),
    ("Normalizer", As(DataType::F32)), ("OneHotEncoder", By(products::one_hot_encoder)),
    ("SVMRegressor", By(products::regressor)), ("Scaler", As(DataType::F32)),
    ("TreeEnsembleRegressor", By(products::regressor)),
];

/// Returns the types of a node's results as far as they are sure; fewer where they are not.
pub(super) fn results(node: &Node, facts: &Facts) -> Types {
    let at = At { node, facts };
    let rules = match node.domain.as_str() {
        "" => RULES,
        "ai.onnx.ml" => ML,
        _ => return Types::new(),
    };
    let found = rules.binary_search_by_key(&node.op_type.as_str(), |(name, _)| name);
    let Some((_, rule)) = found.ok().and_then(|i| rules.get(i)) else { return Types::new() };
    let types = match rule {
        Same => Some(vec![facts.ty(node, 0).clone()]),
        As(dtype) => at.one(Some(*dtype), at.dims(0).map(<[Dim]>::to_vec)),
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
        match self.facts.contents(self.node, input)?.entries.as_slice() {
            [Entry::Known(v)] => Some(*v),
            _ => None,
        }
    }

    /// Extents that are an operand; not more of them than are followed.
    pub(super) fn extents(self, input: usize) -> Option<Vec<Dim>> {
        let entries = &self.facts.contents(self.node, input)?.entries;
        let extent = |e: &Entry| match e {
            Entry::Known(n) => usize::try_from(*n).ok().map(Dim::Known),
            Entry::Symbol(name) => Some(Dim::Symbol(name.clone())),
            Entry::Unknown => Some(Dim::Unknown),
        };
        entries.iter().map(extent).collect()
    }

    /// The only result, of this type.
    #[expect(clippy::unused_self, reason = "it reads as what a rule of this node says")]
    pub(super) fn one(self, dtype: Option<DataType>, shape: Option<Vec<Dim>>) -> Option<Types> {
        Some(vec![tensor(dtype, shape)])
    }

    /// The extents that all operands broadcast to.
    fn broadcast(self) -> Option<Vec<Dim>> {
        // Before, attributes said how, and the first operand was not extended.
        if self.node.opset < 7 {
            return self.dims(0).map(<[Dim]>::to_vec);
        }
        let shapes = (0..self.node.inputs.len()).map(|i| self.dims(i)).collect::<Option<Vec<_>>>()?;
        broadcast("broadcast", &shapes).ok()
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

/// The number of elements, as far as it is an extent.
pub(super) fn product(dims: &[Dim]) -> Dim {
    match concrete(dims) {
        Some(all) if all.contains(&0) => Dim::Known(0),
        _ => quotient(dims, &[]),
    }
}

/// `f` of an extent that is known.
pub(super) fn with(dim: &Dim, f: impl FnOnce(usize) -> Option<usize>) -> Dim {
    match dim {
        Dim::Known(n) => f(*n).map_or(Dim::Unknown, Dim::Known),
        Dim::Symbol(_) | Dim::Unknown => Dim::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_sorted() {
        for rules in [RULES, ML] {
            assert!(rules.is_sorted_by(|a, b| a.0 < b.0));
        }
    }
}
