//! The element types of each primitive's operands and results.

use crate::op::{Arity, Param, Primitive, take};
use crate::{DataType, DataTypes as Types, Error};

use DataType::{BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};

const FLOATS: Types = Types::of(&[F16, BF16, F32, F64]);
const SIGNED: Types = Types::of(&[I8, I16, I32, I64]).and(FLOATS);
const NUMBERS: Types = Types::of(&[U8, U16, U32, U64]).and(SIGNED);
const WIDE: Types = Types::of(&[I32, I64, U32, U64]).and(FLOATS);
const ORDERED: Types = Types::of(&[I8, U8, Bool]).and(WIDE);
const BASES: Types = Types::of(&[I32, I64]).and(FLOATS);
const EQUATABLE: Types = Types::of(&[Bool, DataType::String]).and(NUMBERS);
const INDICES: &[DataType] = &[I32, I64];
const TRUTH: &[DataType] = &[Bool];
const ALL: Types = Types::ALL;

/// Returns the element types that operand `operand` of `op` may have.
///
/// Source: the type constraints of ONNX's newest schemas; data movement also takes storage types.
const fn taken(op: Primitive, operand: usize) -> Types {
    use Primitive as P;
    match (op, operand) {
        (P::Add | P::Sub | P::Mul | P::Div | P::Abs | P::Greater | P::Less, _) => NUMBERS,
        (P::Neg, _) => SIGNED,
        (P::Sqrt | P::Exp | P::Log, _) => FLOATS,
        (P::Pow, 0) => BASES,
        (P::Pow, _) => NUMBERS,
        (P::MatMul | P::ReduceSum | P::ReduceMean, _) => WIDE,
        (P::ReduceMax | P::ReduceMin, _) => ORDERED,
        (P::Equal, _) => EQUATABLE,
        (P::Where, 0) => Types::of(TRUTH),
        (P::Gather, 1) => Types::of(INDICES),
        (
            P::Reshape
            | P::Transpose
            | P::Concat
            | P::Slice
            | P::Split
            | P::Squeeze
            | P::Unsqueeze
            | P::Identity
            | P::Cast
            | P::Where
            | P::Constant
            | P::Gather,
            _,
        ) => ALL,
    }
}

/// Returns whether the operand at index `operand` of `op` may have elements of `dtype`.
///
/// # Examples
///
/// ```
/// use bb_ir::{DataType, infer, op::Primitive};
/// assert!(infer::accepts(Primitive::Gather, 1, DataType::I32));
/// assert!(!infer::accepts(Primitive::Sqrt, 0, DataType::I32));
/// ```
pub const fn accepts(op: Primitive, operand: usize, dtype: DataType) -> bool {
    taken(op, operand).has(dtype)
}

/// Checks the element type of the operand at index `operand` of `op`.
///
/// # Errors
///
/// [`Error::OperandType`] for the condition of `where` and the indices of `gather`; [`Error::Unsupported`] for any other operand.
#[inline]
pub fn check_operand(op: Primitive, operand: usize, dtype: DataType) -> Result<(), Error> {
    if accepts(op, operand, dtype) { Ok(()) } else { Err(refused(op, operand, dtype)) }
}

/// Returns the error for an element type that an operand may not have.
#[cold]
fn refused(op: Primitive, operand: usize, got: DataType) -> Error {
    let spec = op.spec();
    let expected = match (op, operand) {
        (Primitive::Where, 0) => TRUTH,
        (Primitive::Gather, 1) => INDICES,
        _ => return Error::Unsupported { op: spec.method, dtype: got },
    };
    let operand = spec.inputs.get(operand).map_or("", |(name, _)| *name);
    Error::OperandType { op: spec.method, operand, expected, got }
}

/// Returns the error for two operands whose types must agree, each with its index.
#[cold]
fn mixed(op: Primitive, first: (usize, DataType), other: (usize, DataType)) -> Error {
    let spec = op.spec();
    let named = |(index, dtype): (usize, DataType)| {
        let name = match spec.inputs {
            [(name, Arity::Tensors)] => format!("{name}[{index}]"),
            operands => operands.get(index).map_or("", |(name, _)| *name).to_owned(),
        };
        (name, dtype)
    };
    Error::mixed(spec.method, named(first), named(other))
}

/// Returns the element type of the results of `op` on operands of the element types `inputs`.
///
/// # Errors
///
/// The errors of [`check_operand`]; [`Error::MixedTypes`] if two operands that must have the same type differ;
/// [`Error::ParamKind`] if `params` do not match the row of `op`.
pub fn dtype(op: Primitive, inputs: &[DataType], params: &[Param<'_>]) -> Result<DataType, Error> {
    dtype_by(op, inputs.iter().copied(), params)
}

/// Like [`dtype`], but takes an iterator, so that [`primitive`](super::primitive) need not build a list.
#[inline]
pub(super) fn dtype_by(
    op: Primitive,
    inputs: impl Iterator<Item = DataType>,
    params: &[Param<'_>],
) -> Result<DataType, Error> {
    use Primitive as P;
    let mut common: Option<(usize, DataType)> = None;
    for (i, dtype) in inputs.enumerate() {
        check_operand(op, i, dtype)?;
        // The types of these operands may differ from the common type.
        if matches!((op, i), (P::Where, 0) | (P::Pow | P::Gather, 1)) {
            continue;
        }
        match common {
            None => common = Some((i, dtype)),
            Some((_, expected)) if expected == dtype => {}
            Some(first) => return Err(mixed(op, first, (i, dtype))),
        }
    }
    match op {
        P::Equal | P::Greater | P::Less => Ok(Bool),
        P::Cast => take::Type("cast", params.first()),
        P::Constant => Ok(take::Data("constant", params.first())?.dtype()),
        _ => common.map(|(_, dtype)| dtype).ok_or(Error::Arity {
            op: op.spec().method,
            expected: "a tensor",
            got: 0,
        }),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// Source: ONNX 1.23: the number of tensor types that the newest schema allows for the first operand.
    #[test]
    fn counts_are_those_of_the_schemas() {
        use Primitive as P;
        let counts = [
            (P::Add, 12),
            (P::Neg, 8),
            (P::Abs, 12),
            (P::Sqrt, 4),
            (P::Pow, 6),
            (P::Exp, 4),
            (P::MatMul, 8),
            (P::ReduceSum, 8),
            (P::ReduceMean, 8),
            (P::ReduceMax, 11),
            (P::Equal, 14),
            (P::Less, 12),
            (P::Where, 1),
            (P::Reshape, DataType::ALL.len()),
        ];
        for (op, want) in counts {
            let got = DataType::ALL.iter().filter(|&&t| accepts(op, 0, t)).count();
            assert_eq!(got, want, "{op:?}");
        }
        assert_eq!(DataType::ALL.iter().filter(|&&t| accepts(P::Pow, 1, t)).count(), 12);
    }

    #[test]
    fn the_condition_and_the_indices_are_named() {
        use Primitive as P;
        let said = |op, types: &[DataType]| dtype(op, types, &[]).unwrap_err().to_string();
        let condition = "`where`: `condition` has elements of f32, expected bool";
        assert_eq!(said(P::Where, &[F32, F32, F32]), condition);
        assert_eq!(
            said(P::Gather, &[F32, U8]),
            "`gather`: `indices` has elements of u8, expected i32 or i64"
        );
        assert_eq!(said(P::Pow, &[U8, F32]), "`pow` does not take element type u8");
    }

    #[test]
    fn operands_agree_but_for_exponents_indices_and_conditions() {
        use Primitive as P;
        let said = |op, types: &[DataType]| dtype(op, types, &[]).unwrap_err().to_string();
        let add = "`add`: `b` has elements of i64, expected f32 like `a`; cast one of them";
        assert_eq!(said(P::Add, &[F32, I64]), add);
        let selected = "`where`: `y` has elements of i64, expected f32 like `x`; cast one of them";
        assert_eq!(said(P::Where, &[Bool, F32, I64]), selected);
        let joined = "`concat`: `xs[2]` has elements of u8, expected f32 like `xs[0]`; cast one of them";
        assert_eq!(said(P::Concat, &[F32, F32, U8]), joined);
        assert_eq!(dtype(P::Pow, &[F32, I64], &[]).ok(), Some(F32));
        assert_eq!(dtype(P::Gather, &[DataType::String, I32], &[]).ok(), Some(DataType::String));
        assert_eq!(dtype(P::Where, &[Bool, U8, U8], &[]).ok(), Some(U8));
        assert_eq!(dtype(P::Less, &[U8, U8], &[]).ok(), Some(Bool));
        assert_eq!(dtype(P::Cast, &[U8], &[Param::Type(F16)]).ok(), Some(F16));
    }
}
