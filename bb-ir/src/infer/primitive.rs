//! Infers the types of a primitive's results from the types of its operands and from its
//! parameters.

use super::extent::{Extent, Extents};
use super::slice::{Bound, slice_by};
use super::{
    broadcast, concat, dtypes::dtype_by, gather, matmul, reduce, reshape, split, squeeze, transpose,
    unsqueeze,
};
use crate::op::{Arity, Param, Primitive, take};
use crate::{DataType, Error, Shape};
use smallvec::SmallVec;

/// The element type and the shape of each result. Only [`Primitive::Split`] has several results.
pub type Outputs = SmallVec<[(DataType, Shape); 1]>;

/// Returns the element type and the shape of each result of `op`.
///
/// `params` contains all parameters of the row of `op`, in the order of the row.
///
/// # Errors
///
/// [`Error::Arity`] if the number of operands is wrong; [`Error::ParamKind`] if a parameter is
/// missing or has another kind; otherwise the errors of the rule of `op`.
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
    let dtype = dtype_by(op, inputs.iter().map(|i| i.0), params)?;
    let shapes: SmallVec<[&[usize]; 4]> = inputs.iter().map(|i| i.1).collect();
    let params: SmallVec<[RuleParam<'_, usize>; 4]> = params.iter().map(RuleParam::Fixed).collect();
    Ok(primitive_extents(op, &shapes, &params)?.into_iter().map(|shape| (dtype, shape)).collect())
}

/// A parameter of a primitive, as an argument of the primitive's shape rule.
#[derive(Debug, Clone, Copy)]
pub enum RuleParam<'a, E> {
    /// A parameter that is the same for all inputs.
    Fixed(&'a Param<'a>),
    /// A list of integers that are computed from extents.
    Ints(&'a [E]),
    /// A list of extents.
    Extents(&'a [E]),
}

/// Converts a parameter to a list of extents.
fn extents<E: Extent>(op: &'static str, param: Option<&RuleParam<'_, E>>) -> Result<Extents<E>, Error> {
    match param {
        Some(RuleParam::Ints(list) | RuleParam::Extents(list)) => Ok(Extents::from(*list)),
        Some(RuleParam::Fixed(param)) => of(op, take::Extents(op, Some(param))?),
        None => of(op, take::Extents(op, None)?),
    }
}

/// Converts numbers to extents.
fn of<E: Extent>(op: &'static str, numbers: &[usize]) -> Result<Extents<E>, Error> {
    let extent = |&n: &usize| i64::try_from(n).ok().and_then(E::of);
    let extents: Option<Extents<E>> = numbers.iter().map(extent).collect();
    extents.ok_or_else(|| Error::Overflow { op, shape: numbers.into() })
}

/// Converts a parameter to the bounds of a slice. Unknown bounds are `None`.
fn bounds<E: Extent>(
    op: &'static str,
    param: Option<&RuleParam<'_, E>>,
) -> Result<SmallVec<[Option<Bound<E>>; 4]>, Error> {
    let read = |list: &[i64]| list.iter().map(|&n| Some(Bound::of(n))).collect();
    match param {
        Some(RuleParam::Ints(list) | RuleParam::Extents(list)) => Ok(list.iter().map(Bound::read).collect()),
        Some(RuleParam::Fixed(param)) => take::Ints(op, Some(param)).map(read),
        None => take::Ints(op, None).map(read),
    }
}

/// Returns the shape of each result of `op`, from its parameters and the shapes of its operands.
///
/// # Errors
///
/// As [`primitive`], except errors of element types, which are not checked.
pub fn primitive_extents<E: Extent>(
    op: Primitive,
    inputs: &[&[E]],
    params: &[RuleParam<'_, E>],
) -> Result<SmallVec<[Extents<E>; 1]>, Error> {
    use Primitive as P;
    let method = op.spec().method;
    let fixed = |at: usize| match params.get(at) {
        Some(RuleParam::Fixed(param)) => Some(*param),
        _ => None,
    };
    let ints = |at| take::Ints(method, fixed(at));
    let int = |at| take::Int(method, fixed(at));
    let bounds = |at| bounds(method, params.get(at));
    let shape = match (op, inputs) {
        (P::Neg | P::Abs | P::Sqrt | P::Exp | P::Log | P::Identity | P::Cast, [x]) => Extents::from(*x),
        (P::Add | P::Sub | P::Mul | P::Div | P::Pow | P::Equal | P::Greater | P::Less, [_, _])
        | (P::Where, [_, _, _]) => broadcast(method, inputs)?,
        (P::MatMul, [a, b]) => matmul(a, b)?.shape,
        (P::ReduceSum | P::ReduceMean | P::ReduceMax | P::ReduceMin, [x]) => {
            reduce(method, x, ints(0)?, take::Bool(method, fixed(1))?)?.shape
        }
        (P::Reshape, [x]) => reshape(x, &extents(method, params.first())?)?,
        (P::Transpose, [x]) => transpose(x, ints(0)?)?.shape,
        (P::Concat, xs) => concat(xs.iter().copied(), int(0)?)?.shape,
        (P::Slice, [x]) => slice_by(x, &bounds(0)?, &bounds(1)?, ints(2)?, ints(3)?)?,
        (P::Split, [x]) => {
            let sizes = extents(method, params.get(1))?;
            let axis = split(x, int(0)?, &sizes)?.get();
            let part = |size: &E| {
                let extents = x.iter().enumerate();
                extents.map(|(i, own)| if i == axis { size } else { own }.clone()).collect()
            };
            return Ok(sizes.iter().map(part).collect());
        }
        (P::Squeeze, [x]) => squeeze(x, ints(0)?)?,
        (P::Unsqueeze, [x]) => unsqueeze(x, ints(0)?)?,
        (P::Constant, []) => of(method, take::Data(method, fixed(0))?.shape())?,
        (P::Gather, [data, indices]) => gather(data, indices, int(0)?)?.shape,
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
    Ok(SmallVec::from_elem(shape, 1))
}

/// Returns the error for `got` operands of `op`.
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

    /// A valid call of each primitive: operands, parameters, and the result that ONNX defines.
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
