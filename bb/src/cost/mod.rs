//! What one call of an operation costs: arithmetic, and bytes read and written, by a formula per operation.
//!
//! The formulas follow from the definition of each operation and from the extents of its operands and results, never
//! from how a backend computes. Where no formula says the cost, it is `None`: nothing is guessed.
//!
//! **Arithmetic** counts the operations on numbers. An addition, a subtraction, a multiplication, a division, a comparison,
//! a logical or bitwise operation, and a function of one number (a square root, an exponential, a sigmoid, a rounding) are
//! 1 each. Integers count like floats, so that a quantised model can be compared with the one it was made of.
//! Moving, selecting and converting elements is 0. So an elementwise operation costs 1 for each element of its result; a
//! sum, maximum or minimum of `n` elements `n - 1`, a mean `n`; a product of matrices `[m, k]` and `[k, n]`, by custom,
//! `2mnk`; a convolution 2 for each element of its result and of its filter, elements of the padding included. What
//! a fused operation costs is in `families.rs`, by the formula of its definition.
//!
//! **Bytes** are those that must be moved at least once: each operand once, each result once, at the size that its
//! elements have on the host. What only selects (`gather`, `slice`, `split`) reads what it selects. What only renames
//! extents (`reshape`, `squeeze`, `unsqueeze`) and `identity` move nothing. Strings have no size of their own, so that
//! operations on them have none.

mod families;
mod primitives;

use bb_ir::op::{Family, OpSpec, Param, Primitive};
use bb_ir::{DataType, element_count};

/// The element type and the extents of an operand or a result.
pub type TensorType<'a> = (DataType, &'a [usize]);

/// What a call costs; `None` where no formula says it, or where the number is beyond 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// The operations on numbers.
    pub flops: Option<u64>,
    /// The bytes of what must be read.
    pub bytes_read: Option<u64>,
    /// The bytes of what must be written.
    pub bytes_written: Option<u64>,
}

impl Cost {
    /// What costs nothing.
    pub const ZERO: Cost = Cost { flops: Some(0), bytes_read: Some(0), bytes_written: Some(0) };

    /// What nothing is known of.
    pub const UNKNOWN: Cost = Cost { flops: None, bytes_read: None, bytes_written: None };

    /// Returns the bytes read and written.
    pub fn bytes(&self) -> Option<u64> {
        self.bytes_read?.checked_add(self.bytes_written?)
    }

    /// Adds what comes after; what is unknown of either is unknown of both.
    #[must_use]
    pub fn and(self, next: Cost) -> Cost {
        let sum = |a: Option<u64>, b: Option<u64>| a?.checked_add(b?);
        Cost {
            flops: sum(self.flops, next.flops),
            bytes_read: sum(self.bytes_read, next.bytes_read),
            bytes_written: sum(self.bytes_written, next.bytes_written),
        }
    }
}

/// Returns what a call of an operation costs.
///
/// `inputs` has the operands in the order of the operation's row, `None` where one is left out; `params` its parameters.
///
/// # Examples
///
/// ```
/// use bb::cost::{Cost, of};
/// use bb::{DataType::F32, Primitive};
///
/// let cost = of(Primitive::MatMul.spec(), &[], &[Some((F32, &[2, 3])), Some((F32, &[3, 4]))], &[(F32, &[2, 4])]);
/// assert_eq!(cost.flops, Some(2 * 2 * 3 * 4));
/// assert_eq!((cost.bytes_read, cost.bytes_written), (Some(4 * (6 + 12)), Some(4 * 8)));
/// ```
pub fn of(
    op: &OpSpec,
    params: &[Param<'_>],
    inputs: &[Option<TensorType<'_>>],
    outputs: &[TensorType<'_>],
) -> Cost {
    let call = Call { params, inputs, outputs };
    match (op.family, Primitive::from_index(op.index)) {
        (Family::Primitive, Some(primitive)) => primitives::cost(primitive, &call),
        (family, _) => families::cost(family, op.index, &call),
    }
}

/// Returns what is known of a computation on host tensors: the bytes of its operands and results.
pub fn of_host(inputs: &[Option<TensorType<'_>>], outputs: &[TensorType<'_>]) -> Cost {
    Call { params: &[], inputs, outputs }.cost(None, Moves::All)
}

/// A call whose cost is asked for.
struct Call<'a> {
    params: &'a [Param<'a>],
    inputs: &'a [Option<TensorType<'a>>],
    outputs: &'a [TensorType<'a>],
}

/// Which bytes a call must move.
enum Moves {
    /// Every operand and every result.
    All,
    /// Results alone: operands give nothing but their element type.
    Results,
    /// As many bytes as the results have, out of the first operand, and all of the operands after it.
    Selected,
    /// None: results are operands under other extents.
    Nothing,
}

impl Call<'_> {
    fn cost(&self, flops: Option<u128>, moves: Moves) -> Cost {
        let written = || sum(self.outputs.iter().copied());
        let operands = |from: usize| sum(self.inputs.iter().skip(from).flatten().copied());
        let (bytes_read, bytes_written) = match moves {
            Moves::All => (operands(0), written()),
            Moves::Results => (Some(0), written()),
            Moves::Selected => (written().zip(operands(1)).and_then(|(a, b)| a.checked_add(b)), written()),
            Moves::Nothing => (Some(0), Some(0)),
        };
        Cost { flops: flops.and_then(|n| u64::try_from(n).ok()), bytes_read, bytes_written }
    }

    /// The cost of what moves elements and computes nothing.
    fn movement(&self, moves: Moves) -> Cost {
        self.cost(Some(0), moves)
    }

    /// The cost of `each` operations for each element of the result.
    fn elementwise(&self, each: u128) -> Cost {
        self.cost(self.output().map(|y| each.saturating_mul(elements(y))), Moves::All)
    }

    /// Returns the extents of an operand; `None` if it is left out.
    fn input(&self, position: usize) -> Option<&[usize]> {
        self.inputs.get(position).copied().flatten().map(|(_, shape)| shape)
    }

    /// Returns the extents of the first result.
    fn output(&self) -> Option<&[usize]> {
        self.outputs.first().map(|(_, shape)| *shape)
    }

    fn int(&self, position: usize) -> Option<i64> {
        match self.params.get(position)? {
            Param::Int(n) => Some(*n),
            _ => None,
        }
    }

    fn ints(&self, position: usize) -> Option<&[i64]> {
        match self.params.get(position)? {
            Param::Ints(n) => Some(n),
            _ => None,
        }
    }
}

/// Counts elements; beyond 128 bits it is the greatest number, which is then no cost.
fn elements(shape: &[usize]) -> u128 {
    if shape.contains(&0) {
        return 0;
    }
    shape.iter().fold(1, |all: u128, &n| all.saturating_mul(n as u128))
}

/// Sums the bytes of tensors.
fn sum<'a>(tensors: impl Iterator<Item = TensorType<'a>>) -> Option<u64> {
    let mut all = 0u64;
    for (dtype, shape) in tensors {
        if dtype == DataType::String {
            return None;
        }
        all = all.checked_add(dtype.bytes_for(element_count(shape)?)? as u64)?;
    }
    Some(all)
}

#[cfg(test)]
mod tests;
