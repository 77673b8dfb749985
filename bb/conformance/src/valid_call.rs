//! Creates valid calls of every primitive on any element type.

use crate::{Call, sample};
use bb_core::{DataType, RoundMode, TensorData};
use bb_ir::op::{Param, Primitive};
use std::borrow::Cow;

fn ints(values: &[i64]) -> Param<'static> {
    Param::Ints(Cow::Owned(values.to_vec()))
}

fn extents(values: &[usize]) -> Param<'static> {
    Param::Extents(Cow::Owned(values.to_vec()))
}

/// Creates a tensor whose values every operation accepts. They are small and never zero, because they may be
/// divisors.
fn operand(dtype: DataType, shape: &[usize]) -> TensorData {
    if !dtype.is_compute() {
        return sample(dtype, shape);
    }
    let n: usize = shape.iter().product();
    let values: Vec<f64> = (0..n).map(|i| (1 + i % 3) as f64).collect();
    crate::host_numbers(dtype, shape, &values)
}

/// Creates a valid call of `op` whose main operands have this element type and shape. If an operation needs an axis,
/// the call uses the last one.
pub(crate) fn valid_call(op: Primitive, dtype: DataType, shape: &[usize]) -> Call {
    use Primitive as P;
    let x = || operand(dtype, shape);
    let rank = shape.len();
    let last = shape.last().copied().unwrap_or(1);
    let whole = || {
        // The operation needs at least one axis, so a scalar is replaced by a vector.
        if rank == 0 { operand(dtype, &[1]) } else { x() }
    };
    let (inputs, params) = match op {
        P::Add | P::Sub | P::Mul | P::Div | P::Pow | P::Equal | P::Greater | P::Less => {
            (vec![x(), x()], vec![])
        }
        P::Neg | P::Abs | P::Sqrt | P::Exp | P::Log | P::Identity => (vec![x()], vec![]),
        P::MatMul => {
            let right = operand(dtype, &[last, 2]);
            (vec![whole(), right], vec![])
        }
        P::ReduceSum | P::ReduceMean | P::ReduceMax | P::ReduceMin => {
            // Reduce along an extent that is not zero, if there is one, because the mean of no integers is an error.
            let axis = shape.iter().position(|&d| d != 0);
            let axes: Vec<i64> = axis.into_iter().map(|axis| axis as i64).collect();
            (vec![x()], vec![ints(&axes), Param::Bool(true)])
        }
        P::Reshape => {
            let reversed: Vec<usize> = shape.iter().rev().copied().collect();
            (vec![x()], vec![extents(&reversed)])
        }
        P::Transpose => (vec![x()], vec![ints(&[])]),
        P::Concat => (vec![whole(), whole()], vec![Param::Int(-1)]),
        P::Slice if rank == 0 => (vec![x()], vec![ints(&[]), ints(&[]), ints(&[]), ints(&[])]),
        P::Slice => (vec![x()], vec![ints(&[-1]), ints(&[i64::MIN]), ints(&[-1]), ints(&[-1])]),
        P::Split => (vec![whole()], vec![Param::Int(-1), extents(&[last / 2, last - last / 2])]),
        P::Squeeze => (vec![x()], vec![ints(&[])]),
        P::Unsqueeze => (vec![x()], vec![ints(&[0])]),
        P::Cast => (vec![x()], vec![Param::Type(dtype), Param::Bool(true), Param::Round(RoundMode::Up)]),
        P::Where => (vec![operand(DataType::Bool, shape), x(), x()], vec![]),
        P::Constant => (vec![], vec![Param::Data(Cow::Owned(x()))]),
        P::Gather => {
            let indices = TensorData::new(&[0], &[0i64; 0]).expect("no elements");
            let index = TensorData::new(&[2], &[0i64, -1]).expect("two elements");
            (vec![whole(), if last == 0 { indices } else { index }], vec![Param::Int(-1)])
        }
    };
    Call { op, inputs, params }
}
