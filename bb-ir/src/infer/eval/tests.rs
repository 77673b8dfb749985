//! Tests of the evaluator. Expected: the results that ONNX defines.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use super::*;
use crate::TensorData;
use crate::graph::DimExpr;
use crate::op::RoundMode;

fn run(
    op: Primitive,
    inputs: &[&TensorData],
    params: &[Param<'_>],
) -> Result<Option<Vec<TensorData>>, Error> {
    let types: Vec<_> = inputs.iter().map(|x| (x.dtype(), x.shape())).collect();
    primitive(op, inputs, &infer::primitive(op, &types, params).unwrap(), params, &|_| false)
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
    let parts =
        run(Primitive::Split, &[&x], &[Param::Int(1), Param::Extents(vec![1, 2].into())]).unwrap().unwrap();
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

/// Returns a vector of integers, which may be symbolic.
fn named(entries: &[Entry<DimExpr>]) -> Contents<DimExpr> {
    Contents::list(DataType::I64, entries.to_vec()).unwrap()
}

fn followed(op: Primitive, inputs: &[&Contents<DimExpr>], params: &[Param<'_>]) -> Vec<Entry<DimExpr>> {
    let types: Vec<_> = inputs.iter().map(|x| (x.dtype, &x.shape[..])).collect();
    let results = infer::primitive(op, &types, params).unwrap();
    primitive(op, inputs, &results, params, &|_| false).unwrap().unwrap().remove(0).entries
}

#[test]
fn expressions_are_moved_and_computed_with() {
    let n = || Entry::Whole(DimExpr::name("n"));
    let expr = |e: Option<DimExpr>| Entry::Whole(e.unwrap());
    let (x, y) = (named(&[n(), 3.into(), Entry::Unknown]), named(&[2.into()]));
    let doubled = expr(DimExpr::name("n").scaled(2));
    assert_eq!(followed(Primitive::Mul, &[&x, &y], &[]), [doubled, 6.into(), Entry::Unknown]);
    let back = [list(&[-1]), list(&[i64::MIN]), list(&[]), list(&[-1])];
    assert_eq!(followed(Primitive::Slice, &[&x], &back), [Entry::Unknown, 3.into(), n()]);
    let sum = expr(DimExpr::name("n").plus(&3.into()));
    let two = named(&[n(), 3.into()]);
    assert_eq!(followed(Primitive::ReduceSum, &[&two], &[list(&[]), Param::Bool(false)]), [sum]);
    let half = expr(DimExpr::name("n").floor_div(2));
    assert_eq!(followed(Primitive::Div, &[&two, &y], &[]), [half, 1.into()]);
    assert_eq!(followed(Primitive::Equal, &[&x, &x], &[]), [1.into(), 1.into(), Entry::Unknown]);
    let open = followed(Primitive::Greater, &[&two, &y], &[]);
    assert_eq!(open, [Entry::Unknown, 1.into()]);
    let chosen = Contents::list(DataType::Bool, vec![Entry::Unknown, Entry::Unknown]).unwrap();
    let other = named(&[n(), 4.into()]);
    assert_eq!(followed(Primitive::Where, &[&chosen, &two, &other], &[]), [n(), Entry::Unknown]);
}

#[test]
fn both_kinds_of_constants_agree() {
    let (a, b) = (ints(&[2, 2], &[7, -3, 5, 12]), ints(&[2], &[2, 5]));
    let known = [&a, &b].map(|x| Contents::<i64>::of(x).unwrap());
    use Primitive as P;
    for op in [P::Add, P::Sub, P::Mul, P::Div, P::Pow, P::MatMul, P::Equal, P::Greater, P::Less] {
        let types = [(DataType::I64, a.shape()), (DataType::I64, b.shape())];
        let results = infer::primitive(op, &types, &[]).unwrap();
        let one = primitive(op, &[&a, &b], &results, &[], &|_| false).unwrap().unwrap().remove(0);
        let [x, y] = &known;
        let other = primitive(op, &[x, y], &results, &[], &|_| false).unwrap().unwrap().remove(0);
        let want: Vec<Option<i64>> = Constant::ints(&one).unwrap();
        assert_eq!(Constant::ints(&other), Some(want), "{op:?}");
    }
}
