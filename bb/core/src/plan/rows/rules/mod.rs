//! The location of rows in the results of operations: the rules that the tables of operations name (`batch:`).
//!
//! The input of a rule is the location of rows in the operands. Its result is their location in the results, or the reason why the
//! operation mixes them. The caller checks the extents of the results (`Spread::fits`) for all rules.

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
    /// It computes along the rows.
    Along,
    /// It selects or joins rows by their position.
    Position,
    /// It multiplies over the rows.
    Product,
    /// It combines values with rows in different places.
    Places,
    /// It uses the number of rows as a number.
    Number,
    /// The extents of its result do not follow the rows.
    Extents,
    /// It has no rule.
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

/// An operand: the location of its rows, and its extents.
pub(super) type Operand<'a> = (Spread, &'a [usize]);

/// The arguments of a rule: a step with the location of rows in its operands.
pub(super) struct Call<'a> {
    pub(super) spec: &'static OpSpec,
    pub(super) params: &'a [Param<'static>],
    /// The parameters that depend on the number of rows.
    pub(super) symbolic: Option<&'a SymbolicParams>,
    pub(super) operands: &'a [Option<Operand<'a>>],
    pub(super) results: &'a [&'a [usize]],
    /// The number of rows that the trace was made for.
    pub(super) rows: usize,
}

/// How an operation keeps rows separate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BatchRule {
    /// Operands broadcast, and each element of a result is computed from the elements at its position. The operation computes over
    /// this number of last dimensions.
    Broadcast(usize),
    /// As `Broadcast`, and computes over all dimensions from the one that the parameter at this position names.
    Norm(usize),
    /// Computes over the dimension that the parameter at this position names; the results have all other dimensions of the operand.
    Over(usize),
    Reduce,
    MatMul,
    /// A product of integers; the zero points follow the factors.
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
    /// A value of equal elements; the extents are a parameter or the extents of an operand.
    Filled,
    /// The first operand and the result have their rows in the first dimension; all other operands are shared.
    Images,
    /// Each channel of the operand is computed separately.
    Pool,
    /// A recurrent layer; the operands at these positions are states, `[n, …]`, and lengths.
    Recurrent(&'static [usize]),
    /// The scales belong to a dimension.
    Scaled,
    /// Images, and the positions where they are sampled.
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
    // Expressions depend only on the number of rows, because nothing else is symbolic. They are allowed in extents, where the rows
    // can be found.
    let shapes =
        matches!(rule, BatchRule::Reshape | BatchRule::Expand | BatchRule::Filled | BatchRule::Slice);
    if call.symbolic.is_some() && !shapes {
        return Err(Mixes::Number);
    }
    let shared = call.operands.iter().flatten().all(|(spread, _)| *spread == Spread::Shared);
    if shared && !matches!(rule, BatchRule::Expand | BatchRule::Filled) {
        // If each number of rows selects another part of a shared value, the result is not shared.
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

/// The rule of an operation, by its `batch:` entry or by its class.
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

    /// Returns an operand whose rows must be separate. Rules are called only if at least one operand has rows.
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

    /// Returns the dimension that a parameter names, in `0..rank`.
    fn axis(&self, at: usize, rank: usize) -> Result<usize, Mixes> {
        match self.params.get(at) {
            Some(Param::Int(axis)) => dimension(*axis, rank).ok_or(Mixes::Unknown),
            _ => Err(Mixes::Unknown),
        }
    }
}

/// Returns a dimension in `0..rank`; a negative axis counts from the end.
fn dimension(axis: i64, rank: usize) -> Option<usize> {
    let rank_signed = i64::try_from(rank).ok()?;
    let axis = if axis < 0 { axis + rank_signed } else { axis };
    usize::try_from(axis).ok().filter(|axis| *axis < rank)
}

fn one(rows: Rows) -> Found {
    Ok(smallvec![Spread::Rows(rows)])
}
