//! The cost of one call of an operation: arithmetic, and bytes read and written.
//!
//! Each operation has a formula, which follows from the operation's definition and from the extents of its
//! operands and results, never from how a backend computes. Where there is no formula, the cost is `None`:
//! nothing is guessed.
//!
//! **Arithmetic** counts operations on numbers. An addition, a subtraction, a multiplication, a division, a
//! comparison, a logical or bitwise operation, and a function of one number (a square root, an exponential, a
//! sigmoid, a rounding) count 1 each. Integers count like floats, so that a quantised model can be compared
//! with its original. Moving, selecting and converting elements counts 0. So an elementwise operation costs 1 for each element
//! of its result; a sum, maximum or minimum of `n` elements costs `n - 1`, and a mean `n`; a product of matrices `[m, k]` and
//! `[k, n]` costs `2mnk`, by convention; a convolution costs 2 for each pair of an element of its result and an element of its
//! filter, including padding. The costs of fused operations are in `formulas.rs` and follow from their definitions.
//!
//! **Bytes** are those that must be moved at least once: each operand and each result, at the size that its
//! elements have on the host. Operations that only select (`gather`, `slice`, `split`) read only the selected
//! elements. Operations that only change the shape (`reshape`, `squeeze`, `unsqueeze`) and `identity` move
//! nothing. Strings have no fixed size, so operations on them have no byte counts.

mod counts;
mod formulas;

pub use crate::measure::Cost;

use crate::family::{BitsOp, CreateOp, ImageOp, IndexOp, LlmOp, MlOp, NnOp, QuantOp, ScalarOp, TrainOp};
use bb_ir::op::{OpSpec, Param, Primitive};
use bb_ir::{DataType, element_count};

/// The element type and the shape of an operand or a result.
pub type TensorType<'a> = (DataType, &'a [usize]);

/// Returns the cost of a call of an operation.
///
/// `inputs` has the operands in the order of the operation's table entry, `None` for an omitted operand; `params` has its
/// parameters.
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
    let formulas = crate::family::of_family!(op.family, FORMULAS, &[]);
    let call = Call { params, inputs, outputs };
    formulas.get(usize::from(op.index)).map_or(Cost::UNKNOWN, |formula| formula(&call))
}

/// Returns the cost of a host kernel. Only the bytes of its operands and results are known; its arithmetic is not.
pub fn of_host(inputs: &[Option<TensorType<'_>>], outputs: &[TensorType<'_>]) -> Cost {
    Call { params: &[], inputs, outputs }.cost(None, Moves::All)
}

/// Computes the cost of a call.
type Formula = fn(&Call<'_>) -> Cost;

/// A family of operations whose table entries name formulas.
trait Priced {
    /// The formulas, in the order of the family's table.
    const FORMULAS: &'static [Formula];
}

/// Selects the formula of a table entry: the one that the entry names, or else the one of its class.
macro_rules! formula {
    (Elementwise) => {
        formulas::one
    };
    (Moves) => {
        formulas::moved
    };
    ($class:ident $cost:ident) => {
        formulas::$cost
    };
    ($class:ident) => {
        compile_error!(
            "a row of this class needs `cost:`, and `bb/core/src/cost/formulas.rs` a function of that name"
        )
    };
}

macro_rules! priced {
    ([$trait:ident, $enum:ident] $( $name:ident {
           $class:ident $(, cost: $cost:ident)? $(, export: $operator:ident = $form:ident)?
           $(, batch: $batch:ident $(($($at:expr),*))?)? $(, derivative: $derivative:ident)?
       } )*) => {
        impl Priced for $enum {
            const FORMULAS: &'static [Formula] = &[$( formula!($class $($cost)?) ),*];
        }
    };
}

bb_ir::for_each_table_of_facts!(priced);

/// A call whose cost is computed.
struct Call<'a> {
    params: &'a [Param<'a>],
    inputs: &'a [Option<TensorType<'a>>],
    outputs: &'a [TensorType<'a>],
}

/// The operands and results that a call must move.
enum Moves {
    /// All operands and all results.
    All,
    /// Only the results, because the operands only provide the element type.
    Results,
    /// All results, a part of the first operand that is as large as the results, and all other operands.
    Selected,
    /// Nothing, because the results are operands with other shapes.
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

    /// Returns the cost of an operation that moves elements and computes nothing.
    fn movement(&self, moves: Moves) -> Cost {
        self.cost(Some(0), moves)
    }

    /// Returns the cost of `each` operations for each element of the result.
    fn elementwise(&self, each: u128) -> Cost {
        self.cost(self.output().map(|y| each.saturating_mul(elements(y))), Moves::All)
    }

    /// Returns the cost of a computation with two parts, which moves all operands and results. The arguments are the counts of
    /// the parts.
    fn both(&self, one: Option<u128>, other: Option<u128>) -> Cost {
        self.cost(one.zip(other).map(|(a, b)| a.saturating_add(b)), Moves::All)
    }

    /// Returns the cost of `times` operations for each element of the first operand.
    fn for_each_of_first(&self, times: u128) -> Cost {
        self.cost(self.input(0).map(|x| elements(x).saturating_mul(times)), Moves::All)
    }

    /// Returns 1 if an operand is passed, and 0 if it is omitted.
    fn given(&self, position: usize) -> u128 {
        u128::from(self.input(position).is_some())
    }

    /// Returns the number of operands.
    fn inputs(&self) -> usize {
        self.inputs.len()
    }

    /// Returns the shape of an operand; `None` if it is omitted.
    fn input(&self, position: usize) -> Option<&[usize]> {
        self.inputs.get(position).copied().flatten().map(|(_, shape)| shape)
    }

    /// Returns the shape of the first result.
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

/// Returns the number of elements, at most `u128::MAX`. A count that exceeds 64 bits later becomes an unknown cost.
fn elements(shape: &[usize]) -> u128 {
    if shape.contains(&0) {
        return 0;
    }
    shape.iter().fold(1, |all: u128, &n| all.saturating_mul(n as u128))
}

/// Returns the total bytes of tensors. Returns `None` for strings, or if the sum exceeds 64 bits.
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
