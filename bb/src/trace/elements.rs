//! The elements of small integer tensors as expressions: what exporters compute shapes with.

use super::extents::all_tied;
use super::log::When;
use super::params::ExtentParam;
use super::traced::{Elements, Follow, TracedTensor, Type};
use crate::Error;
use crate::ext::Extent;
use bb_ir::infer::eval;
use bb_ir::op::{Param, Primitive};
use bb_ir::{DataType, Shape, TensorData};
use smallvec::SmallVec;

/// The most elements that the evaluator computes; shape arithmetic needs a handful.
pub(super) const EVALUATED: usize = <TensorData as eval::Constant>::MOST;

/// The most elements that are followed one by one.
const FOLLOWED: usize = 256;

/// Tells whether a tensor is small enough to be evaluated.
pub(super) fn is_small(shape: &[usize]) -> bool {
    bb_ir::element_count(shape).is_some_and(|n| n <= EVALUATED)
}

/// Computes a primitive's results where all operands are known; `None` where one is not, or they are too large.
pub(super) fn evaluate(
    op: Primitive,
    inputs: &[&TracedTensor],
    results: &[Type],
    params: &[Param<'_>],
    given: &[ExtentParam<'_>],
) -> Result<Option<Vec<Elements>>, Error> {
    if !results.iter().all(|ty| is_small(&ty.shape)) {
        return Ok(None);
    }
    let mut data: SmallVec<[&TensorData; 4]> = SmallVec::new();
    let mut constant = results.iter().all(|ty| ty.extents.is_none());
    for x in inputs {
        match x.elements() {
            Elements::Constant(x) if is_small(x.shape()) => data.push(x),
            Elements::OfExtents(x, _) if is_small(x.shape()) => {
                constant = false;
                data.push(x);
            }
            _ => return Ok(None),
        }
    }
    let varies = all_tied(&[], given);
    constant &= varies.is_always();
    let types: SmallVec<[(DataType, Shape); 2]> =
        results.iter().map(|ty| (ty.dtype, ty.shape.clone())).collect();
    let Some(values) = eval::primitive(op, &data, &types, params, &|_| false)? else { return Ok(None) };
    if constant {
        return Ok(Some(values.into_iter().map(Elements::Constant).collect()));
    }
    let fixed = varies.is_always() && results.iter().all(|ty| ty.extents.is_none());
    if fixed && let Some(each) = each(op, inputs, &types, params)? {
        let follow = |(data, each): (TensorData, Vec<Extent>)| {
            // What was computed with expressions must be what was computed with numbers.
            let same = crate::ext::integers(&data)
                .is_ok_and(|data| data.into_iter().eq(each.iter().map(Extent::present)));
            same.then(|| match each.iter().all(Extent::is_fixed) {
                true => Elements::Constant(data),
                false => Elements::OfExtents(data, Follow::Each(each.into())),
            })
        };
        let all: Option<Vec<Elements>> = values.iter().cloned().zip(each).map(follow).collect();
        if let Some(all) = all {
            return Ok(Some(all));
        }
    }
    let follows = |x: &&TracedTensor| match x.elements() {
        Elements::OfExtents(_, follow) => follow.tied(),
        Elements::Constant(_) | Elements::Unknown => When::ALWAYS,
    };
    let when = inputs.iter().fold(all_tied(inputs, given), |all, x| all.and(&follows(x)));
    Ok(Some(values.into_iter().map(|data| Elements::OfExtents(data, Follow::When(when.clone()))).collect()))
}

/// The elements of an operand as extents, if they are integers or truth values and followed one by one.
fn operand(x: &TracedTensor) -> Option<Vec<Extent>> {
    match x.elements() {
        Elements::OfExtents(_, Follow::Each(each)) => Some(each.to_vec()),
        Elements::Constant(data) if data.shape().iter().product::<usize>() <= FOLLOWED => {
            let integers = matches!(data.dtype(), DataType::I64 | DataType::I32 | DataType::Bool);
            let integers = integers.then(|| crate::ext::integers(data).ok()).flatten()?;
            Some(integers.into_iter().map(Extent::from).collect())
        }
        _ => None,
    }
}

/// Computes each element of the results; `None` where that cannot be said.
fn each(
    op: Primitive,
    inputs: &[&TracedTensor],
    results: &[(DataType, Shape)],
    params: &[Param<'_>],
) -> Result<Option<Vec<Vec<Extent>>>, Error> {
    use Primitive as P;
    let integers = |dtype: DataType| matches!(dtype, DataType::I64 | DataType::I32 | DataType::Bool);
    let small = |(dtype, shape): &(DataType, Shape)| {
        integers(*dtype) && bb_ir::element_count(shape).is_some_and(|n| n <= FOLLOWED)
    };
    let operands: Option<Vec<Vec<Extent>>> = inputs.iter().map(|x| operand(x)).collect();
    let Some(operands) =
        operands.filter(|_| results.iter().all(small) && inputs.iter().all(|x| x.is_fixed()))
    else {
        return Ok(None);
    };
    let shapes: Vec<&[usize]> = inputs.iter().map(|x| x.present().as_slice()).collect();
    match op {
        P::Reshape
        | P::Squeeze
        | P::Unsqueeze
        | P::Identity
        | P::Transpose
        | P::Slice
        | P::Split
        | P::Concat => moved(op, &operands, &shapes, results, params, None),
        P::Gather => {
            let ([data, indices], [shape, _], [_, x]) = (operands.as_slice(), shapes.as_slice(), inputs)
            else {
                return Ok(None);
            };
            let (Elements::Constant(at) | Elements::OfExtents(at, _)) = x.elements() else { return Ok(None) };
            let mut picked = moved(op, std::slice::from_ref(data), &[shape], results, params, Some(at))?;
            // Which elements they are follows from the indices.
            let when = indices.iter().fold(When::ALWAYS, |all, extent| all.and(&extent.tied()));
            if let (Some(log), false) = (indices.iter().find_map(Extent::log), when.is_always()) {
                picked.iter_mut().flatten().flatten().for_each(|extent| *extent = extent.under(&when, log));
            }
            Ok(picked)
        }
        P::Cast => Ok(Some(operands.into_iter().map(|x| cast(x, results)).collect())),
        P::ReduceSum | P::ReduceMax | P::ReduceMin => {
            let [x] = operands.as_slice() else { return Ok(None) };
            let whole = results.iter().all(|(_, shape)| shape.iter().product::<usize>() == 1);
            let Some((first, rest)) = x.split_first().filter(|_| whole) else { return Ok(None) };
            let combine = match op {
                P::ReduceSum => Extent::plus,
                P::ReduceMax => Extent::greater,
                _ => Extent::lesser,
            };
            Ok(Some(vec![vec![rest.iter().fold(first.clone(), |all, x| combine(&all, x))]]))
        }
        _ => elementwise(op, &operands, &shapes, results),
    }
}

/// Casts between integers and truth values.
fn cast(x: Vec<Extent>, results: &[(DataType, Shape)]) -> Vec<Extent> {
    let to_bool = results.first().is_some_and(|(dtype, _)| *dtype == DataType::Bool);
    let truth = |x: Extent| {
        let (zero, when) = x.equals_when(&Extent::from(0i64));
        decided(!zero, &when, [&x])
    };
    if to_bool { x.into_iter().map(truth).collect() } else { x }
}

/// A truth value that holds under conditions.
fn decided<'a>(answer: bool, when: &When, of: impl IntoIterator<Item = &'a Extent>) -> Extent {
    let answer = Extent::from(i64::from(answer));
    match of.into_iter().find_map(Extent::log) {
        Some(log) => answer.under(when, log),
        None => answer,
    }
}

/// Moves elements as the primitive does, found out by moving their numbers.
fn moved(
    op: Primitive,
    operands: &[Vec<Extent>],
    shapes: &[&[usize]],
    results: &[(DataType, Shape)],
    params: &[Param<'_>],
    indices: Option<&TensorData>,
) -> Result<Option<Vec<Vec<Extent>>>, Error> {
    let mut ids = Vec::with_capacity(operands.len() + 1);
    let mut next = 0i64;
    for (x, shape) in operands.iter().zip(shapes) {
        let from = next;
        next += x.len() as i64;
        ids.push(TensorData::new(shape, &(from..next).collect::<Vec<_>>())?);
    }
    let all: Vec<&Extent> = operands.iter().flatten().collect();
    let refs: Vec<&TensorData> = ids.iter().chain(indices).collect();
    let types: Vec<(DataType, Shape)> =
        results.iter().map(|(_, shape)| (DataType::I64, shape.clone())).collect();
    let Some(placed) = eval::primitive(op, &refs, &types, params, &|_| false)? else { return Ok(None) };
    let find = |ids: &TensorData| -> Option<Vec<Extent>> {
        let id = |id: &i64| usize::try_from(*id).ok().and_then(|id| all.get(id)).map(|x| (*x).clone());
        ids.as_slice::<i64>().ok()?.iter().map(id).collect()
    };
    Ok(placed.iter().map(find).collect())
}

/// Computes element by element, with broadcasting.
fn elementwise(
    op: Primitive,
    operands: &[Vec<Extent>],
    shapes: &[&[usize]],
    results: &[(DataType, Shape)],
) -> Result<Option<Vec<Vec<Extent>>>, Error> {
    let Some((_, shape)) = results.first() else { return Ok(None) };
    let zeros = TensorData::zeros(DataType::I64, shape, usize::MAX)?;
    let mut wide: Vec<Vec<Extent>> = Vec::with_capacity(operands.len());
    for (x, own) in operands.iter().zip(shapes) {
        let ids = TensorData::new(own, &(0..x.len() as i64).collect::<Vec<_>>())?;
        let result = [(DataType::I64, shape.clone())];
        let placed = eval::primitive(Primitive::Add, &[&ids, &zeros], &result, &[], &|_| false)?;
        let Some(placed) = placed.as_ref().and_then(|p| p.first()) else { return Ok(None) };
        let find = |id: &i64| usize::try_from(*id).ok().and_then(|id| x.get(id)).cloned();
        let Some(found) = placed.as_slice::<i64>()?.iter().map(find).collect() else { return Ok(None) };
        wide.push(found);
    }
    let count = shape.iter().product();
    let element = |i: usize| -> Option<Extent> {
        let of: SmallVec<[&Extent; 3]> = wide.iter().filter_map(|x| x.get(i)).collect();
        scalar(op, &of)
    };
    Ok((0..count).map(element).collect::<Option<Vec<Extent>>>().map(|all| vec![all]))
}

/// Computes one element.
fn scalar(op: Primitive, of: &[&Extent]) -> Option<Extent> {
    use Primitive as P;
    let zero = Extent::from(0i64);
    match (op, of) {
        (P::Add, [a, b]) => Some(a.plus(b)),
        (P::Sub, [a, b]) => Some(a.minus(b)),
        (P::Mul, [a, b]) => Some(a.times(b)),
        (P::Neg, [a]) => Some(zero.minus(a)),
        (P::Div, [a, b]) => {
            // ONNX truncates, which is rounding down where nothing is negative.
            let (dividend, when) = a.at_least_when(&zero);
            let (divisor, and) = b.at_least_when(&Extent::from(1i64));
            let quotient = (dividend && divisor).then(|| a.quotient(b))?;
            Some(under(&quotient, &when.and(&and), [*a, *b]))
        }
        (P::Abs, [a]) => {
            let (positive, when) = a.at_least_when(&zero);
            let absolute = if positive { (*a).clone() } else { zero.minus(a) };
            Some(under(&absolute, &when, [*a]))
        }
        (P::Equal, [a, b]) => {
            let (equal, when) = a.equals_when(b);
            Some(decided(equal, &when, [*a, *b]))
        }
        (P::Less, [a, b]) => {
            let (not, when) = a.at_least_when(b);
            Some(decided(!not, &when, [*a, *b]))
        }
        (P::Greater, [a, b]) => {
            let (not, when) = b.at_least_when(a);
            Some(decided(!not, &when, [*a, *b]))
        }
        (P::Where, [condition, a, b]) => {
            let chosen = if condition.present() != 0 { a } else { b };
            Some(under(chosen, &condition.tied(), [*condition]))
        }
        _ => None,
    }
}

fn under<'a>(extent: &Extent, when: &When, of: impl IntoIterator<Item = &'a Extent>) -> Extent {
    match of.into_iter().find_map(Extent::log) {
        Some(log) => extent.under(when, log),
        None => extent.clone(),
    }
}
