//! The evaluator: primitives on small constants of the types that shape arithmetic uses.
//!
//! It computes in `i64`, `i32`, `bool` and `f32`, and moves and casts elements of every type. It is plain and
//! slow: tensors of a few thousand elements at most come here, once per plan.

mod arithmetic;
mod movement;
mod number;

use crate::Error;
use arithmetic::{compare, extremum_of_bools, numeric, select};
use bb_ir::convert::{Rounding, cast};
use bb_ir::infer;
use bb_ir::op::{Param, Primitive, take};
use bb_ir::{DataType, Shape, TensorData};
use movement::{concat, gather, moved, split, strides, walk};

/// Computes a primitive on the host; `None` if its element types are not the evaluator's.
///
/// `results` are what inference says of them.
///
/// # Errors
///
/// What the primitive's kernel would report of the elements: a division by zero, an index out of range.
pub(super) fn primitive(
    op: Primitive,
    inputs: &[&TensorData],
    results: &[(DataType, Shape)],
    params: &[Param<'_>],
) -> Result<Option<Vec<TensorData>>, Error> {
    use Primitive as P;
    let Some((_, shape)) = results.first() else { return Ok(None) };
    let one = match (op, inputs) {
        (P::Identity, [x]) => Some((*x).clone()),
        (P::Reshape | P::Squeeze | P::Unsqueeze, [x]) => Some(x.reshaped(shape)?),
        (P::Cast, [x]) => {
            let rounding = Rounding {
                saturate: take::Bool("cast", params.get(1))?,
                mode: take::Round("cast", params.get(2))?,
            };
            Some(cast(x, take::Type("cast", params.first())?, rounding)?)
        }
        (P::Transpose, [x]) => {
            let perm = infer::transpose(x.shape(), take::Ints("transpose", params.first())?)?.perm;
            let own = strides(x.shape());
            let strides: Vec<isize> = perm.iter().filter_map(|&p| own.get(p).copied()).collect();
            moved(x, shape, &walk(shape, &strides, 0))?
        }
        (P::Slice, [x]) => {
            let list = |i| take::Ints("slice", params.get(i));
            let dims = infer::slice(x.shape(), list(0)?, list(1)?, list(2)?, list(3)?)?.dims;
            let own = strides(x.shape());
            let start = dims.iter().zip(&own).map(|(d, s)| d.start as isize * s).sum();
            let strides: Vec<isize> = dims.iter().zip(&own).map(|(d, s)| d.step * s).collect();
            moved(x, shape, &walk(shape, &strides, start))?
        }
        (P::Split, [x]) => return split(x, results, params),
        (P::Concat, xs) => concat(xs, shape, take::Int("concat", params.first())?)?,
        (P::Gather, [data, indices]) => gather(data, indices, shape, take::Int("gather", params.first())?)?,
        (P::Where, [condition, x, y]) => select(condition, x, y, shape)?,
        (P::Equal | P::Greater | P::Less, [a, b]) => compare(op, a, b, shape)?,
        (P::ReduceMax | P::ReduceMin, [x]) if x.dtype() == DataType::Bool => {
            extremum_of_bools(op, x, shape, params)?
        }
        _ => match inputs.first().map(|x| x.dtype()) {
            Some(DataType::I64) => numeric::<i64>(op, inputs, shape, params)?,
            Some(DataType::I32) => numeric::<i32>(op, inputs, shape, params)?,
            Some(DataType::F32) => numeric::<f32>(op, inputs, shape, params)?,
            _ => None,
        },
    };
    Ok(one.map(|x| vec![x]))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use bb_ir::op::RoundMode;

    fn run(
        op: Primitive,
        inputs: &[&TensorData],
        params: &[Param<'_>],
    ) -> Result<Option<Vec<TensorData>>, Error> {
        let types: Vec<_> = inputs.iter().map(|x| (x.dtype(), x.shape())).collect();
        primitive(op, inputs, &infer::primitive(op, &types, params).unwrap(), params)
    }

    fn ints(shape: &[usize], v: &[i64]) -> TensorData {
        TensorData::new(shape, v).unwrap()
    }

    fn list(v: &[i64]) -> Param<'static> {
        Param::Ints(v.to_vec().into())
    }

    fn one(op: Primitive, inputs: &[&TensorData], params: &[Param<'_>]) -> TensorData {
        run(op, inputs, params).unwrap().unwrap().remove(0)
    }

    fn elements(x: &TensorData) -> Vec<i64> {
        x.as_slice::<i64>().unwrap().to_vec()
    }

    #[test]
    fn operands_broadcast() {
        let (a, b) = (ints(&[2, 1], &[10, 20]), ints(&[3], &[1, 2, 3]));
        let sum = one(Primitive::Add, &[&a, &b], &[]);
        assert_eq!((sum.shape(), elements(&sum)), (&[2, 3][..], vec![11, 12, 13, 21, 22, 23]));
        let (min, minus) = (ints(&[], &[i64::MIN]), ints(&[], &[-1]));
        assert_eq!(elements(&one(Primitive::Div, &[&min, &minus], &[])), [i64::MIN]);
        assert!(run(Primitive::Div, &[&a, &ints(&[], &[0])], &[]).is_err());
        assert_eq!(elements(&one(Primitive::Pow, &[&b, &ints(&[], &[3])], &[])), [1, 8, 27]);
    }

    #[test]
    fn nothing_is_walked_where_an_extent_is_zero() {
        let x = ints(&[1 << 14, 1 << 12, 0], &[]);
        assert_eq!(one(Primitive::Add, &[&x, &x], &[]).shape(), [1 << 14, 1 << 12, 0]);
        assert_eq!(one(Primitive::Transpose, &[&x], &[list(&[])]).shape(), [0, 1 << 12, 1 << 14]);
    }

    #[test]
    fn movement_visits_elements_in_order() {
        let x = ints(&[2, 3], &[0, 1, 2, 3, 4, 5]);
        assert_eq!(elements(&one(Primitive::Transpose, &[&x], &[list(&[])])), [0, 3, 1, 4, 2, 5]);
        let back = [list(&[-1]), list(&[i64::MIN]), list(&[1]), list(&[-2])];
        assert_eq!(elements(&one(Primitive::Slice, &[&x], &back)), [2, 0, 5, 3]);
        let parts = run(Primitive::Split, &[&x], &[Param::Int(1), Param::Extents(vec![1, 2].into())])
            .unwrap()
            .unwrap();
        assert_eq!(parts.iter().map(elements).collect::<Vec<_>>(), [vec![0, 3], vec![1, 2, 4, 5]]);
        let joined = one(Primitive::Concat, &[&parts[1], &parts[0]], &[Param::Int(1)]);
        assert_eq!(elements(&joined), [1, 2, 0, 4, 5, 3]);
        let picked = one(Primitive::Gather, &[&x, &ints(&[2], &[-1, 0])], &[Param::Int(1)]);
        assert_eq!(elements(&picked), [2, 0, 5, 3]);
        assert!(run(Primitive::Gather, &[&x, &ints(&[], &[3])], &[Param::Int(1)]).is_err());
    }

    #[test]
    fn reductions_start_from_their_identity() {
        let x = ints(&[2, 2], &[1, 2, 3, 5]);
        let over = |op, axes: &[i64]| elements(&one(op, &[&x], &[list(axes), Param::Bool(false)]));
        assert_eq!(over(Primitive::ReduceSum, &[0]), [4, 7]);
        assert_eq!(over(Primitive::ReduceMean, &[]), [2]);
        assert_eq!(over(Primitive::ReduceMax, &[-1]), [2, 5]);
        let none = TensorData::new::<f32>(&[0], &[]).unwrap();
        let least = one(Primitive::ReduceMax, &[&none], &[list(&[]), Param::Bool(false)]);
        assert_eq!(least.as_slice::<f32>().unwrap(), [f32::NEG_INFINITY]);
    }

    #[test]
    fn nan_wins_and_compares_with_nothing() {
        let x = TensorData::new(&[2], &[f32::NAN, 1.0]).unwrap();
        let max = one(Primitive::ReduceMax, &[&x], &[list(&[]), Param::Bool(false)]);
        assert!(max.as_slice::<f32>().unwrap()[0].is_nan());
        assert_eq!(one(Primitive::Equal, &[&x, &x], &[]).to_bools().unwrap(), [false, true]);
    }

    #[test]
    fn matrices_multiply_in_batches() {
        let a = ints(&[2, 1, 2], &[1, 2, 3, 4]);
        let b = ints(&[2, 2], &[1, 0, 0, 1]);
        assert_eq!(elements(&one(Primitive::MatMul, &[&a, &b], &[])), [1, 2, 3, 4]);
        let v = ints(&[2], &[5, 7]);
        assert_eq!(elements(&one(Primitive::MatMul, &[&a, &v], &[])), [19, 43]);
    }

    #[test]
    fn conditions_choose_and_casts_convert() {
        let c = TensorData::bools(&[2, 1], &[true, false]).unwrap();
        let chosen = one(Primitive::Where, &[&c, &ints(&[2], &[1, 2]), &ints(&[], &[9])], &[]);
        assert_eq!(elements(&chosen), [1, 2, 9, 9]);
        let half = TensorData::new(&[1], &[-1.75f32]).unwrap();
        let to = [Param::Type(DataType::I64), Param::Bool(true), Param::Round(RoundMode::Up)];
        assert_eq!(elements(&one(Primitive::Cast, &[&half], &to)), [-1]);
    }

    #[test]
    fn other_types_are_left_to_the_backend() {
        let x = TensorData::new(&[1], &[1.0f64]).unwrap();
        assert!(run(Primitive::Add, &[&x, &x], &[]).unwrap().is_none());
    }
}
