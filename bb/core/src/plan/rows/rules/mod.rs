//! Rules for the location of rows in the results of operations. The tables of operations name them (`batch:`).
//!
//! The input of a rule is the location of rows in the operands. Its result is the location of rows in the results, or the
//! reason why the operation mixes rows. For all rules, the caller checks the extents of the results (`Spread::fits`).

mod layers;
mod moves;

use super::place::{Rows, Spread};
use crate::ext::{
    BitsOp, CreateOp, ImageOp, IndexOp, LlmOp, MlOp, NnOp, OpSet, QuantOp, ScalarOp, TrainOp, every_operation,
};
use crate::trace::SymbolicParams;
use bb_ir::op::{Family, OpSpec, Param, Primitive};
use smallvec::{SmallVec, smallvec};

/// The reason why an operation mixes rows, or may mix them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mixes {
    /// The operation computes along the rows.
    Along,
    /// The operation selects or joins rows by their index.
    Position,
    /// The operation computes dot products over the rows.
    Product,
    /// The operation combines values whose rows are at different locations.
    Places,
    /// The operation computes with the number of rows.
    Number,
    /// The extents of the result do not follow from the number of rows.
    Extents,
    /// The operation has no rule.
    Unknown,
}

impl Mixes {
    /// Returns a description of the reason, to follow the operation's name.
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

/// The location of rows in each result; the last entry applies to all further results.
pub(super) type Found = Result<SmallVec<[Spread; 1]>, Mixes>;

/// An operand: the location of its rows, and its shape.
pub(super) type Operand<'a> = (Spread, &'a [usize]);

/// The arguments of a rule: a step with the location of rows in its operands.
pub(super) struct Call<'a> {
    pub(super) spec: &'static OpSpec,
    pub(super) params: &'a [Param<'static>],
    /// The parameters that depend on the number of rows.
    pub(super) symbolic: Option<&'a SymbolicParams>,
    pub(super) operands: &'a [Option<Operand<'a>>],
    pub(super) results: &'a [&'a [usize]],
    /// The number of rows that was used for tracing.
    pub(super) rows: usize,
}

/// How an operation keeps rows separate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BatchRule {
    /// Operands broadcast, and each element of a result is computed from the elements at the same index. The operation computes
    /// along this number of last dimensions.
    Broadcast(usize),
    /// As `Broadcast`, and computes along all dimensions from the axis in the parameter at this index on.
    Norm(usize),
    /// Computes along the axis in the parameter at this index; the results have all other dimensions of the operand.
    Over(usize),
    Reduce,
    MatMul,
    /// An integer matrix product; the zero points come after the factors.
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
    /// A value that depends only on parameters, or on an operand's type.
    Made,
    /// A value of equal elements. Its shape is a parameter or the shape of an operand.
    Filled,
    /// The rows are the first dimension of the first operand and of the result; all other operands are shared.
    Images,
    /// Each channel of the operand is computed separately.
    Pool,
    /// A recurrent layer. The operands at these indices are states, `[n, …]`, and lengths.
    Recurrent(&'static [usize]),
    /// The scales belong to one dimension.
    Scaled,
    /// Images, and the positions where they are sampled.
    Sampled,
    Attention,
    /// Combines each row of the first operand, `[n, …]`, with each row of the second one, `[m, …]`, to a result `[n, m]`.
    Pairs,
}

/// Returns the operations that have a rule; all other operations are replaced by their bodies.
pub(super) fn known() -> Vec<(Family, OpSet)> {
    let mut known = every_operation();
    for (family, set) in &mut known {
        for spec in crate::ext::rows(*family) {
            if rule(spec).is_none() {
                *set = set.without(spec.index);
            }
        }
    }
    known
}

/// Returns the location of rows in the results of a step.
pub(super) fn apply(call: &Call<'_>) -> Found {
    let rule = rule(call.spec).ok_or(Mixes::Unknown)?;
    // Symbolic parameters depend only on the number of rows, because no other dimension is symbolic. They are allowed only as
    // extents, because there the rows can be located.
    let shapes =
        matches!(rule, BatchRule::Reshape | BatchRule::Expand | BatchRule::Filled | BatchRule::Slice);
    if call.symbolic.is_some() && !shapes {
        return Err(Mixes::Number);
    }
    let shared = call.operands.iter().flatten().all(|(spread, _)| *spread == Spread::Shared);
    if shared && !matches!(rule, BatchRule::Expand | BatchRule::Filled) {
        // If the number of rows determines which part of a shared value is selected, the result is not shared.
        let follows = call.symbolic.is_some() && rule == BatchRule::Slice;
        return if follows { Err(Mixes::Number) } else { Ok(smallvec![Spread::Shared]) };
    }
    match rule {
        BatchRule::Broadcast(last) => moves::broadcast(call, last),
        BatchRule::Norm(param) => layers::norm(call, param),
        BatchRule::Over(param) => layers::over(call, param),
        BatchRule::Reduce => layers::reduce(call),
        BatchRule::MatMul => layers::matmul(call),
        BatchRule::MatMulInteger => layers::matmul_integer(call),
        BatchRule::Reshape => moves::reshape(call),
        BatchRule::Transpose => moves::transpose(call),
        BatchRule::Concat => moves::concat(call),
        BatchRule::Slice => moves::slice(call),
        BatchRule::Split => moves::split(call),
        BatchRule::Squeeze => moves::squeeze(call),
        BatchRule::Unsqueeze => moves::unsqueeze(call),
        BatchRule::Gather => moves::gather(call),
        BatchRule::GatherElements => moves::gather_elements(call),
        BatchRule::GatherNd => moves::gather_nd(call),
        BatchRule::ScatterElements => moves::scatter_elements(call),
        BatchRule::ScatterNd => moves::scatter_nd(call),
        BatchRule::Pad => moves::pad(call),
        BatchRule::Expand => moves::expand(call),
        BatchRule::Made => Ok(smallvec![Spread::Shared]),
        BatchRule::Filled => moves::filled(call),
        BatchRule::Images => layers::images(call),
        BatchRule::Pool => layers::pool(call),
        BatchRule::Recurrent(states) => layers::recurrent(call, states),
        BatchRule::Scaled => layers::scaled(call),
        BatchRule::Sampled => layers::sampled(call),
        BatchRule::Attention => layers::attention(call),
        BatchRule::Pairs => layers::pairs(call),
    }
}

/// A family whose operations name rules.
trait Batched {
    /// The rules, in the order of the family's table.
    const RULES: &'static [Option<BatchRule>];
}

/// Selects the rule of an operation: its `batch:` entry, or else the rule of its class.
macro_rules! batch_rule {
    (Elementwise) => {
        Some(BatchRule::Broadcast(0))
    };
    ($class:ident) => {
        None
    };
    ($class:ident $batch:ident $($at:tt)?) => {
        Some(BatchRule::$batch $($at)?)
    };
}

macro_rules! batched {
    ([$trait:ident, $enum:ident] $( $name:ident {
           $class:ident $(, cost: $cost:ident)? $(, export: $operator:ident = $form:ident)?
           $(, batch: $batch:ident $(($($at:expr),*))?)? $(, derivative: $derivative:ident)?
       } )*) => {
        impl Batched for $enum {
            const RULES: &'static [Option<BatchRule>] = &[$( batch_rule!($class $($batch $(($($at),*))?)?) ),*];
        }
    };
}

bb_ir::for_each_table_of_facts!(batched);

fn rule(spec: &OpSpec) -> Option<BatchRule> {
    let rules = crate::family::of_family!(spec.family, RULES, &[]);
    rules.get(usize::from(spec.index)).copied().flatten()
}

impl<'a> Call<'a> {
    /// Returns an operand that must be present.
    fn operand(&self, at: usize) -> Result<Operand<'a>, Mixes> {
        self.operands.get(at).copied().flatten().ok_or(Mixes::Unknown)
    }

    /// Returns an operand that must have separate rows. Rules are called only if at least one operand has rows.
    fn rows_of(&self, at: usize) -> Result<(Rows, &'a [usize]), Mixes> {
        match self.operand(at)? {
            (Spread::Rows(rows), shape) => Ok((rows, shape)),
            (Spread::Shared, _) => Err(Mixes::Places),
        }
    }

    /// Checks that all operands from an index on are shared.
    fn rest_is_shared(&self, from: usize) -> Result<(), Mixes> {
        let shared = self.operands.iter().skip(from).flatten().all(|(spread, _)| *spread == Spread::Shared);
        if shared { Ok(()) } else { Err(Mixes::Places) }
    }

    /// Returns the shape of the first result.
    fn result(&self) -> &'a [usize] {
        self.results.first().copied().unwrap_or_default()
    }

    fn ints(&self, at: usize) -> Result<&[i64], Mixes> {
        match self.params.get(at) {
            Some(Param::Ints(ints)) => Ok(ints),
            _ => Err(Mixes::Unknown),
        }
    }

    /// Returns the axis in a parameter, in `0..rank`.
    fn axis(&self, at: usize, rank: usize) -> Result<usize, Mixes> {
        match self.params.get(at) {
            Some(Param::Int(axis)) => dimension(*axis, rank).ok_or(Mixes::Unknown),
            _ => Err(Mixes::Unknown),
        }
    }
}

/// Converts an axis to a dimension in `0..rank`; a negative axis counts from the end.
fn dimension(axis: i64, rank: usize) -> Option<usize> {
    let rank_signed = i64::try_from(rank).ok()?;
    let axis = if axis < 0 { axis + rank_signed } else { axis };
    usize::try_from(axis).ok().filter(|axis| *axis < rank)
}

fn one(rows: Rows) -> Found {
    Ok(smallvec![Spread::Rows(rows)])
}
