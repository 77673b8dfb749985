//! The type of what a primitive returns, from its operands' types and its parameters.

use super::{
    broadcast, concat, dtypes::dtype_by, gather, matmul, reduce, reshape, slice, split, squeeze, transpose,
    unsqueeze,
};
use crate::op::{Arity, Param, Primitive, take};
use crate::{DataType, Error, Shape};
use smallvec::{SmallVec, smallvec};

/// The element type and the extents of each result; [`Primitive::Split`] alone has several.
pub type Outputs = SmallVec<[(DataType, Shape); 1]>;

/// Returns the element type and the extents of each result of `op`.
///
/// `params` are those of the op's row, all of them, in its order.
///
/// # Errors
///
/// [`Error::Arity`] if the number of operands is wrong, [`Error::ParamKind`] if a parameter is;
/// else what the op's own rule says.
///
/// # Examples
///
/// ```
/// use bb_ir::{DataType, infer, op::{Param, Primitive}};
/// # fn main() -> Result<(), bb_ir::Error> {
/// let x = (DataType::F32, &[2, 3][..]);
/// let params = [Param::Ints((&[1]).into()), Param::Bool(false)];
/// let out = infer::primitive(Primitive::ReduceSum, &[x], &params)?;
/// assert_eq!(out[0].1[..], [2]);
/// # Ok(())
/// # }
/// ```
pub fn primitive(
    op: Primitive,
    inputs: &[(DataType, &[usize])],
    params: &[Param<'_>],
) -> Result<Outputs, Error> {
    use Primitive as P;
    let dtype = dtype_by(op, inputs.iter().map(|i| i.0), params)?;
    let method = op.spec().method;
    let shape = match (op, inputs) {
        (P::Neg | P::Abs | P::Sqrt | P::Exp | P::Log | P::Identity | P::Cast, [(_, x)]) => {
            Shape::from_slice(x)
        }
        (P::Add | P::Sub | P::Mul | P::Div | P::Pow | P::Equal | P::Greater | P::Less, [(_, a), (_, b)]) => {
            broadcast(method, &[a, b])?
        }
        (P::Where, [(_, c), (_, x), (_, y)]) => broadcast(method, &[c, x, y])?,
        (P::MatMul, [(_, a), (_, b)]) => matmul(a, b)?.shape,
        (P::ReduceSum | P::ReduceMean | P::ReduceMax | P::ReduceMin, [(_, x)]) => {
            let axes = take::Ints(method, params.first())?;
            reduce(method, x, axes, take::Bool(method, params.get(1))?)?.shape
        }
        (P::Reshape, [(_, x)]) => reshape(x, take::Extents(method, params.first())?)?,
        (P::Transpose, [(_, x)]) => transpose(x, take::Ints(method, params.first())?)?.shape,
        (P::Concat, xs) => concat(xs.iter().map(|x| x.1), take::Int(method, params.first())?)?.shape,
        (P::Slice, [(_, x)]) => {
            let list = |i| take::Ints(method, params.get(i));
            slice(x, list(0)?, list(1)?, list(2)?, list(3)?)?.shape
        }
        (P::Split, [(_, x)]) => {
            let sizes = take::Extents(method, params.get(1))?;
            let axis = split(x, take::Int(method, params.first())?, sizes)?.get();
            let part = |&size: &usize| {
                let extents = x.iter().enumerate();
                (dtype, extents.map(|(i, &d)| if i == axis { size } else { d }).collect())
            };
            return Ok(sizes.iter().map(part).collect());
        }
        (P::Squeeze, [(_, x)]) => squeeze(x, take::Ints(method, params.first())?)?,
        (P::Unsqueeze, [(_, x)]) => unsqueeze(x, take::Ints(method, params.first())?)?,
        (P::Constant, []) => Shape::from_slice(take::Data(method, params.first())?.shape()),
        (P::Gather, [(_, data), (_, indices)]) => {
            gather(data, indices, take::Int(method, params.first())?)?.shape
        }
        (
            P::Add
            | P::Sub
            | P::Mul
            | P::Div
            | P::Neg
            | P::Abs
            | P::Sqrt
            | P::Pow
            | P::Exp
            | P::Log
            | P::MatMul
            | P::ReduceSum
            | P::ReduceMean
            | P::ReduceMax
            | P::ReduceMin
            | P::Reshape
            | P::Transpose
            | P::Slice
            | P::Split
            | P::Squeeze
            | P::Unsqueeze
            | P::Identity
            | P::Cast
            | P::Equal
            | P::Greater
            | P::Less
            | P::Where
            | P::Constant
            | P::Gather,
            _,
        ) => return Err(wrong_arity(op, inputs.len())),
    };
    Ok(smallvec![(dtype, shape)])
}

/// The error for `got` operands of `op`.
#[cold]
fn wrong_arity(op: Primitive, got: usize) -> Error {
    let spec = op.spec();
    let expected = match spec.inputs {
        [] => "no tensor",
        [(_, Arity::Tensors)] => "at least one tensor",
        [_] => "one tensor",
        [_, _] => "two tensors",
        _ => "three tensors",
    };
    Error::Arity { op: spec.method, expected, got }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TensorData;
    use std::borrow::Cow;

    fn ints(v: &[i64]) -> Param<'_> {
        Param::Ints(Cow::Borrowed(v))
    }

    /// One valid call per primitive: operands, parameters, and what ONNX says comes out.
    #[test]
    fn every_primitive_has_a_rule() {
        let f = |s: &'static [usize]| (DataType::F32, s);
        for &op in Primitive::ALL {
            use Primitive as P;
            let (inputs, params, want): (Vec<_>, Vec<Param<'_>>, &[usize]) = match op {
                P::Add | P::Sub | P::Mul | P::Div | P::Pow | P::Equal | P::Greater | P::Less => {
                    (vec![f(&[2, 1]), f(&[3])], vec![], &[2, 3])
                }
                P::Neg | P::Abs | P::Sqrt | P::Exp | P::Log | P::Identity => {
                    (vec![f(&[2, 3])], vec![], &[2, 3])
                }
                P::MatMul => (vec![f(&[2, 3]), f(&[3, 4])], vec![], &[2, 4]),
                P::ReduceSum | P::ReduceMean | P::ReduceMax | P::ReduceMin => {
                    (vec![f(&[2, 3])], vec![ints(&[0]), Param::Bool(true)], &[1, 3])
                }
                P::Reshape => (vec![f(&[2, 3])], vec![Param::Extents(Cow::Borrowed(&[3, 2]))], &[3, 2]),
                P::Transpose => (vec![f(&[2, 3])], vec![ints(&[])], &[3, 2]),
                P::Concat => (vec![f(&[2]), f(&[3]), f(&[1])], vec![Param::Int(0)], &[6]),
                P::Slice => {
                    let p = vec![ints(&[0]), ints(&[9]), ints(&[-1]), ints(&[2])];
                    (vec![f(&[2, 3])], p, &[2, 2])
                }
                P::Split => {
                    let p = vec![Param::Int(1), Param::Extents(Cow::Borrowed(&[1, 2]))];
                    (vec![f(&[2, 3])], p, &[2, 1])
                }
                P::Squeeze => (vec![f(&[1, 3])], vec![ints(&[])], &[3]),
                P::Unsqueeze => (vec![f(&[3])], vec![ints(&[0])], &[1, 3]),
                P::Cast => {
                    let p = vec![
                        Param::Type(DataType::I8),
                        Param::Bool(true),
                        Param::Round(crate::op::RoundMode::Up),
                    ];
                    (vec![f(&[2])], p, &[2])
                }
                P::Where => (vec![(DataType::Bool, &[2][..]), f(&[3, 1]), f(&[])], vec![], &[3, 2]),
                P::Constant => (vec![], vec![Param::Data(Cow::Owned(TensorData::scalar(1f32)))], &[]),
                P::Gather => (vec![f(&[4, 5]), (DataType::I64, &[3][..])], vec![Param::Int(1)], &[4, 3]),
            };
            let out = primitive(op, &inputs, &params).expect("a valid call");
            assert_eq!(out.first().map(|o| &o.1[..]), Some(want), "{op:?}");
            let extra: Vec<_> = inputs.iter().copied().chain([f(&[2]); 4]).collect();
            if op != P::Concat {
                assert!(primitive(op, &extra, &params).is_err(), "{op:?} takes too many");
            }
        }
    }

    #[test]
    fn a_parameter_of_another_kind_is_an_error() {
        let x = (DataType::F32, &[2usize][..]);
        assert!(matches!(
            primitive(Primitive::Transpose, &[x], &[Param::Float(1.5)]),
            Err(Error::ParamKind { .. })
        ));
        assert!(matches!(primitive(Primitive::Transpose, &[x], &[]), Err(Error::ParamKind { .. })));
    }
}
