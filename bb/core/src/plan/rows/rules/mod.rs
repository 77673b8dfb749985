//! What each class of operations makes of rows: the one place that says so.
//!
//! A rule is given where rows are in the operands, and says where they are in the results, or how the operation mixes them. Whether
//! the results have the extents that this needs is compared by the caller (`Spread::fits`), for all rules alike.

mod layers;
mod moves;

use super::place::{Rows, Spread};
use crate::ext::{
    CreateOp, ImageOp, IndexOp, LlmOp, MlOp, NnOp, OpSet, QuantOp, every_operation, is_elementwise,
};
use crate::trace::SymbolicParams;
use bb_ir::op::{Family, OpSpec, Param, Primitive};
use smallvec::{SmallVec, smallvec};

/// How an operation mixes rows, or why that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mixes {
    /// It computes along the rows.
    Along,
    /// It selects or joins rows by their position.
    Position,
    /// It multiplies over the rows.
    Product,
    /// It combines values in which rows are in different places.
    Places,
    /// It takes the number of rows as a number.
    Number,
    /// Its result's extents do not follow the rows.
    Extents,
    /// It has no rule.
    Unknown,
}

impl Mixes {
    /// What the operation does, after its name.
    pub(super) fn text(self) -> &'static str {
        match self {
            Mixes::Along => "computes over the rows",
            Mixes::Position => "takes rows by their position",
            Mixes::Product => "multiplies over the rows",
            Mixes::Places => "combines values that have their rows in different places",
            Mixes::Number => "computes with the number of rows",
            Mixes::Extents => "makes extents that do not follow the rows",
            Mixes::Unknown => "is not known to keep rows apart",
        }
    }
}

/// Where rows are in each result; the last entry counts for all further results.
pub(super) type Found = Result<SmallVec<[Spread; 1]>, Mixes>;

/// An operand: where its rows are, and its extents.
pub(super) type Operand<'a> = (Spread, &'a [usize]);

/// A step, as rules see it.
pub(super) struct Call<'a> {
    pub(super) spec: &'static OpSpec,
    pub(super) params: &'a [Param<'static>],
    /// The parameters that follow the number of rows.
    pub(super) symbolic: Option<&'a SymbolicParams>,
    pub(super) operands: &'a [Option<Operand<'a>>],
    pub(super) results: &'a [&'a [usize]],
    /// The number of rows that the trace was made for.
    pub(super) rows: usize,
}

/// The classes of operations that keep rows apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Operands broadcast; each element of the results is made of those in its place. The last dimensions, as many as the number
    /// says, are computed over.
    Broadcast(usize),
    /// As `Broadcast`, and computes over the dimensions from the one that the parameter of this position names.
    Norm(usize),
    /// Computes over the dimension that the parameter of this position names; the results have all other dimensions of the operand.
    Over(usize),
    Reduce,
    MatMul,
    /// A product of integers with zero points behind the factors.
    MatMulInteger,
    Reshape,
    Transpose,
    Concat,
    Slice,
    Split,
    Squeeze,
    Unsqueeze,
    Gather,
    GatherElements,
    GatherNd,
    ScatterElements,
    ScatterNd,
    Pad,
    Expand,
    /// Makes a value of parameters alone, or of an operand's type.
    Made,
    /// Makes a value of equal elements; the extents are a parameter or an operand's.
    Filled,
    /// The first operand has its rows in the first dimension, as has the result; all others are shared.
    Images,
    /// The operand is computed channel by channel.
    Pool,
    /// A recurrent layer; the operands at these positions are states, `[n, …]`, and lengths.
    Recurrent(&'static [usize]),
    /// Scales belong to a dimension.
    Scaled,
    /// Images and the positions at which they are sampled.
    Sampled,
    Attention,
    /// Rows of the first operand with rows of the second, `[n, …]` and `[m, …]` to `[n, m]`.
    Pairs,
}

/// Returns the operations that have a rule; all others are replaced by their bodies.
pub(super) fn known() -> Vec<(Family, OpSet)> {
    let mut known = every_operation();
    for (family, set) in &mut known {
        for spec in crate::ext::rows(*family) {
            if class(spec).is_none() {
                *set = set.without(spec.index);
            }
        }
    }
    known
}

/// Returns where rows are in the results of a step.
pub(super) fn apply(call: &Call<'_>) -> Found {
    let class = class(call.spec).ok_or(Mixes::Unknown)?;
    // Expressions are of the number of rows, because nothing else is symbolic; extents may be, as the rows in them must be found.
    let shapes = matches!(class, Class::Reshape | Class::Expand | Class::Filled | Class::Slice);
    if call.symbolic.is_some() && !shapes {
        return Err(Mixes::Number);
    }
    let shared = call.operands.iter().flatten().all(|(spread, _)| *spread == Spread::Shared);
    if shared && !matches!(class, Class::Expand | Class::Filled) {
        // Another part of a shared value for each number of rows is not shared.
        let follows = call.symbolic.is_some() && class == Class::Slice;
        return if follows { Err(Mixes::Number) } else { Ok(smallvec![Spread::Shared]) };
    }
    match class {
        Class::Broadcast(last) => moves::broadcast(call, last),
        Class::Norm(param) => layers::norm(call, param),
        Class::Over(param) => layers::over(call, param),
        Class::Reduce => layers::reduce(call),
        Class::MatMul => layers::matmul(call),
        Class::MatMulInteger => layers::matmul_integer(call),
        Class::Reshape => moves::reshape(call),
        Class::Transpose => moves::transpose(call),
        Class::Concat => moves::concat(call),
        Class::Slice => moves::slice(call),
        Class::Split => moves::split(call),
        Class::Squeeze => moves::squeeze(call),
        Class::Unsqueeze => moves::unsqueeze(call),
        Class::Gather => moves::gather(call),
        Class::GatherElements => moves::gather_elements(call),
        Class::GatherNd => moves::gather_nd(call),
        Class::ScatterElements => moves::scatter_elements(call),
        Class::ScatterNd => moves::scatter_nd(call),
        Class::Pad => moves::pad(call),
        Class::Expand => moves::expand(call),
        Class::Made => Ok(smallvec![Spread::Shared]),
        Class::Filled => moves::filled(call),
        Class::Images => layers::images(call),
        Class::Pool => layers::pool(call),
        Class::Recurrent(states) => layers::recurrent(call, states),
        Class::Scaled => layers::scaled(call),
        Class::Sampled => layers::sampled(call),
        Class::Attention => layers::attention(call),
        Class::Pairs => layers::pairs(call),
    }
}

fn class(spec: &OpSpec) -> Option<Class> {
    if is_elementwise(spec) {
        return Some(Class::Broadcast(0));
    }
    match spec.family {
        Family::Primitive => primitive(Primitive::from_index(spec.index)?),
        Family::Create => create(CreateOp::from_index(spec.index)?),
        Family::Nn => nn(NnOp::from_index(spec.index)?),
        Family::Llm => llm(LlmOp::from_index(spec.index)?),
        Family::Index => index(IndexOp::from_index(spec.index)?),
        Family::Ml => Some(match MlOp::from_index(spec.index)? {
            MlOp::TreeEnsemble => Class::Images,
            MlOp::SquaredDistances => Class::Pairs,
        }),
        Family::Quant => quant(QuantOp::from_index(spec.index)?),
        Family::Image => (ImageOp::from_index(spec.index)? == ImageOp::GridSample).then_some(Class::Sampled),
        // Element-wise or without a rule.
        _ => None,
    }
}

fn primitive(op: Primitive) -> Option<Class> {
    Some(match op {
        Primitive::MatMul => Class::MatMul,
        Primitive::ReduceSum | Primitive::ReduceMean | Primitive::ReduceMax | Primitive::ReduceMin => {
            Class::Reduce
        }
        Primitive::Reshape => Class::Reshape,
        Primitive::Transpose => Class::Transpose,
        Primitive::Concat => Class::Concat,
        Primitive::Slice => Class::Slice,
        Primitive::Split => Class::Split,
        Primitive::Squeeze => Class::Squeeze,
        Primitive::Unsqueeze => Class::Unsqueeze,
        Primitive::Constant => Class::Made,
        Primitive::Gather => Class::Gather,
        // The others are element-wise.
        _ => return None,
    })
}

fn create(op: CreateOp) -> Option<Class> {
    Some(match op {
        CreateOp::ScalarLike => Class::Made,
        CreateOp::Full
        | CreateOp::Zeros
        | CreateOp::Ones
        | CreateOp::ZerosLike
        | CreateOp::OnesLike
        | CreateOp::FullLike => Class::Filled,
        CreateOp::Expand => Class::Expand,
        // What they make depends on positions, or on chance.
        CreateOp::Empty
        | CreateOp::Eye
        | CreateOp::Linspace
        | CreateOp::PadBatch
        | CreateOp::Stack
        | CreateOp::Unstack
        | CreateOp::Range
        | CreateOp::RandomUniform
        | CreateOp::RandomNormal => return None,
    })
}

fn nn(op: NnOp) -> Option<Class> {
    Some(match op {
        NnOp::ReduceProd => Class::Reduce,
        NnOp::Softmax | NnOp::LogSoftmax | NnOp::CumSum => Class::Over(0),
        NnOp::LayerNormalization => Class::Norm(0),
        NnOp::BatchNormalization | NnOp::Conv | NnOp::ConvTranspose => Class::Images,
        NnOp::MaxPool | NnOp::AveragePool => Class::Pool,
        NnOp::Rnn => Class::Recurrent(&[2, 3]),
        NnOp::Gru => Class::Recurrent(&[2, 4]),
        NnOp::Lstm => Class::Recurrent(&[2, 3, 6]),
        NnOp::Pad => Class::Pad,
        NnOp::GatherElements => Class::GatherElements,
        NnOp::GatherNd => Class::GatherNd,
        // Bodies that take extents as numbers, and what passes alone make; the others are element-wise.
        _ => return None,
    })
}

fn llm(op: LlmOp) -> Option<Class> {
    Some(match op {
        LlmOp::RmsNormalization => Class::Norm(0),
        // The angles are of the last dimension.
        LlmOp::Rotate => Class::Broadcast(1),
        LlmOp::Attention => Class::Attention,
        _ => return None,
    })
}

fn index(op: IndexOp) -> Option<Class> {
    Some(match op {
        IndexOp::ArgMax | IndexOp::ArgMin => Class::Over(0),
        // Behind how many, the dimension is the first option.
        IndexOp::TopK => Class::Over(1),
        IndexOp::ScatterElements => Class::ScatterElements,
        IndexOp::ScatterNd => Class::ScatterNd,
    })
}

fn quant(op: QuantOp) -> Option<Class> {
    Some(match op {
        QuantOp::MatMulInteger => Class::MatMulInteger,
        QuantOp::ConvInteger | QuantOp::QLinearConv => Class::Images,
        QuantOp::Quantize | QuantOp::Dequantize => Class::Scaled,
        // Dynamic quantisation computes over all elements; the others become what they are made of.
        _ => return None,
    })
}

impl<'a> Call<'a> {
    /// Returns an operand that is given.
    fn operand(&self, at: usize) -> Result<Operand<'a>, Mixes> {
        self.operands.get(at).copied().flatten().ok_or(Mixes::Unknown)
    }

    /// Returns an operand whose rows are apart, which is how rules are called for at least one.
    fn rows_of(&self, at: usize) -> Result<(Rows, &'a [usize]), Mixes> {
        match self.operand(at)? {
            (Spread::Rows(rows), shape) => Ok((rows, shape)),
            (Spread::Shared, _) => Err(Mixes::Places),
        }
    }

    /// Checks that all operands from a position on are shared.
    fn rest_is_shared(&self, from: usize) -> Result<(), Mixes> {
        let shared = self.operands.iter().skip(from).flatten().all(|(spread, _)| *spread == Spread::Shared);
        if shared { Ok(()) } else { Err(Mixes::Places) }
    }

    /// Returns the extents of the first result.
    fn result(&self) -> &'a [usize] {
        self.results.first().copied().unwrap_or_default()
    }

    fn ints(&self, at: usize) -> Result<&[i64], Mixes> {
        match self.params.get(at) {
            Some(Param::Ints(ints)) => Ok(ints),
            _ => Err(Mixes::Unknown),
        }
    }

    /// Returns a dimension that a parameter names, of so many.
    fn axis(&self, at: usize, rank: usize) -> Result<usize, Mixes> {
        match self.params.get(at) {
            Some(Param::Int(axis)) => dimension(*axis, rank).ok_or(Mixes::Unknown),
            _ => Err(Mixes::Unknown),
        }
    }
}

/// Returns a dimension of so many, which is counted from the end if it is negative.
fn dimension(axis: i64, rank: usize) -> Option<usize> {
    let rank_signed = i64::try_from(rank).ok()?;
    let axis = if axis < 0 { axis + rank_signed } else { axis };
    usize::try_from(axis).ok().filter(|axis| *axis < rank)
}

fn one(rows: Rows) -> Found {
    Ok(smallvec![Spread::Rows(rows)])
}
