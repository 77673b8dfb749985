//! The extents of each primitive's results as expressions.
//!
//! [`bb_ir::infer`] says what the numbers are, and refuses what does not fit. What is said here holds for all inputs that
//! the kernels accept; where it cannot be said, the result has the present numbers under the condition that the operands'
//! extents are the present ones.

use super::log::{Log, When};
use super::params::ExtentParam;
use super::traced::{TracedTensor, Type};
use crate::ext::{Extent, Extents};
use bb_ir::op::{Param, Primitive};
use bb_ir::{Axis, DataType, Shape};
use smallvec::SmallVec;
use std::sync::Arc;

/// Returns the types of a primitive's results, of which `numbers` are known.
pub(super) fn results(
    op: Primitive,
    inputs: &[&TracedTensor],
    params: &[ExtentParam<'_>],
    numbers: impl IntoIterator<Item = (DataType, Shape)>,
    log: &Arc<Log>,
) -> SmallVec<[Type; 1]> {
    let numbers = numbers.into_iter();
    if inputs.iter().all(|x| x.is_fixed()) && params.iter().all(ExtentParam::is_fixed) {
        return numbers.map(|(dtype, shape)| Type { dtype, shape, extents: None }).collect();
    }
    let mut given = extents(op, inputs, params).into_iter();
    let mut tied = None;
    let each = |(dtype, shape): (DataType, Shape)| {
        let agree = |of: &Extents| {
            of.len() == shape.len()
                && of.iter().zip(&shape).all(|(e, &n)| usize::try_from(e.present()) == Ok(n))
        };
        let extents = given.next().filter(agree).unwrap_or_else(|| {
            let when = tied.get_or_insert_with(|| all_tied(inputs, params));
            shape.iter().map(|&n| Extent::from(n).under(when, log)).collect()
        });
        Type::varying(dtype, shape, extents)
    };
    numbers.map(each).collect()
}

/// The operands and parameters have the present extents.
pub(super) fn all_tied(inputs: &[&TracedTensor], params: &[ExtentParam<'_>]) -> When {
    let operands = inputs.iter().fold(When::ALWAYS, |all, x| all.and(&x.tied()));
    let extents = params.iter().flat_map(ExtentParam::extents);
    extents.fold(operands, |all, extent| all.and(&extent.tied()))
}

impl ExtentParam<'_> {
    fn is_fixed(&self) -> bool {
        self.extents().iter().all(Extent::is_fixed)
    }

    fn extents(&self) -> &[Extent] {
        match self {
            ExtentParam::Fixed(_) => &[],
            ExtentParam::Ints(extents) | ExtentParam::Extents(extents) => extents,
        }
    }

    /// Returns a list of integers as extents.
    fn list(&self) -> Option<Vec<Extent>> {
        match self {
            ExtentParam::Fixed(Param::Ints(list)) => Some(list.iter().map(|&n| Extent::from(n)).collect()),
            ExtentParam::Fixed(Param::Extents(list)) => Some(list.iter().map(|&n| Extent::from(n)).collect()),
            ExtentParam::Ints(extents) | ExtentParam::Extents(extents) => Some(extents.to_vec()),
            ExtentParam::Fixed(_) => None,
        }
    }

    fn ints(&self) -> Option<&[i64]> {
        match self {
            ExtentParam::Fixed(Param::Ints(list)) => Some(list),
            _ => None,
        }
    }

    fn int(&self) -> Option<i64> {
        match self {
            ExtentParam::Fixed(Param::Int(n)) => Some(*n),
            _ => None,
        }
    }

    fn flag(&self) -> Option<bool> {
        match self {
            ExtentParam::Fixed(Param::Bool(flag)) => Some(*flag),
            _ => None,
        }
    }
}

/// Returns the extents of the results; nothing where they are not known.
fn extents(op: Primitive, inputs: &[&TracedTensor], params: &[ExtentParam<'_>]) -> Vec<Extents> {
    use Primitive as P;
    let param = |at: usize| params.get(at);
    let one = match (op, inputs) {
        (P::Neg | P::Abs | P::Sqrt | P::Exp | P::Log | P::Identity | P::Cast, [x]) => Some(x.extents()),
        (
            P::Add | P::Sub | P::Mul | P::Div | P::Pow | P::Equal | P::Greater | P::Less | P::Where,
            [first, rest @ ..],
        ) => Some(rest.iter().fold(first.extents(), |all, x| broadcast(&all, &x.extents()))),
        (P::MatMul, [a, b]) => matmul(&a.extents(), &b.extents()),
        (P::ReduceSum | P::ReduceMean | P::ReduceMax | P::ReduceMin, [x]) => {
            let axes = param(0).and_then(ExtentParam::ints);
            axes.zip(param(1).and_then(ExtentParam::flag))
                .and_then(|(axes, keep)| reduce(x.extents(), axes, keep))
        }
        (P::Reshape, [_]) => param(0).and_then(ExtentParam::list).map(Extents::from),
        (P::Transpose, [x]) => {
            param(0).and_then(ExtentParam::ints).and_then(|perm| transpose(x.extents(), perm))
        }
        (P::Concat, [..]) => param(0).and_then(ExtentParam::int).and_then(|axis| concat(inputs, axis)),
        (P::Slice, [x]) => slice(x.extents(), params),
        (P::Split, [x]) => return split(&x.extents(), params).unwrap_or_default(),
        (P::Squeeze, [x]) => param(0).and_then(ExtentParam::ints).and_then(|axes| squeeze(x.extents(), axes)),
        (P::Unsqueeze, [x]) => {
            param(0).and_then(ExtentParam::ints).and_then(|axes| unsqueeze(x.extents(), axes))
        }
        (P::Gather, [x, indices]) => {
            param(0).and_then(ExtentParam::int).and_then(|axis| gather(x.extents(), indices.extents(), axis))
        }
        _ => None,
    };
    one.into_iter().collect()
}

fn at(axis: i64, rank: usize) -> Option<usize> {
    Axis::new(axis, rank).ok().map(Axis::get)
}

fn broadcast(a: &[Extent], b: &[Extent]) -> Extents {
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let (leading, beside) = long.split_at(long.len() - short.len());
    let mut shape: Extents = leading.iter().cloned().collect();
    shape.extend(beside.iter().zip(short).map(|(x, y)| x.broadcast(y)));
    shape
}

fn matmul(a: &[Extent], b: &[Extent]) -> Option<Extents> {
    let (batch_a, m) = match a {
        [] => return None,
        [_] => (&[][..], None),
        [batch @ .., m, _] => (batch, Some(m)),
    };
    let (batch_b, n) = match b {
        [] => return None,
        [_] => (&[][..], None),
        [batch @ .., _, n] => (batch, Some(n)),
    };
    let mut shape = broadcast(batch_a, batch_b);
    shape.extend(m.into_iter().chain(n).cloned());
    Some(shape)
}

fn reduce(mut x: Extents, axes: &[i64], keepdims: bool) -> Option<Extents> {
    let mut reduced: SmallVec<[bool; 6]> = SmallVec::from_elem(axes.is_empty(), x.len());
    for &axis in axes {
        *reduced.get_mut(at(axis, x.len())?)? = true;
    }
    if keepdims {
        x.iter_mut()
            .zip(reduced)
            .filter(|(_, reduced)| *reduced)
            .for_each(|(extent, _)| *extent = 1i64.into());
        return Some(x);
    }
    Some(x.into_iter().zip(reduced).filter(|(_, reduced)| !reduced).map(|(extent, _)| extent).collect())
}

fn transpose(mut x: Extents, perm: &[i64]) -> Option<Extents> {
    if perm.is_empty() {
        x.reverse();
        return Some(x);
    }
    perm.iter().map(|&axis| x.get(at(axis, x.len())?).cloned()).collect()
}

fn concat(inputs: &[&TracedTensor], axis: i64) -> Option<Extents> {
    let mut shape = inputs.first()?.extents();
    let axis = at(axis, shape.len())?;
    for x in inputs.get(1..)? {
        for (i, (all, extent)) in shape.iter_mut().zip(x.extents()).enumerate() {
            if i == axis {
                *all = all.plus(&extent);
            } else if extent.is_fixed() {
                // The kernels check that the others are equal, so one that is fixed says all.
                *all = extent;
            }
        }
    }
    Some(shape)
}

fn split(x: &[Extent], params: &[ExtentParam<'_>]) -> Option<Vec<Extents>> {
    let axis = at(params.first()?.int()?, x.len())?;
    let sizes = params.get(1)?.list()?;
    let part = |size: Extent| {
        let mut shape: Extents = x.iter().cloned().collect();
        if let Some(extent) = shape.get_mut(axis) {
            *extent = size;
        }
        shape
    };
    Some(sizes.into_iter().map(part).collect())
}

fn gather(x: Extents, indices: Extents, axis: i64) -> Option<Extents> {
    let axis = at(axis, x.len())?;
    let mut shape = x;
    let behind = shape.split_off_at(axis + 1);
    shape.pop();
    shape.extend(indices);
    shape.extend(behind);
    Some(shape)
}

/// Cuts a list in two.
trait SplitOff: Sized {
    fn split_off_at(&mut self, at: usize) -> Self;
}

impl SplitOff for Extents {
    fn split_off_at(&mut self, at: usize) -> Extents {
        self.drain(at.min(self.len())..).collect()
    }
}

fn squeeze(x: Extents, axes: &[i64]) -> Option<Extents> {
    let rank = x.len();
    let mut gone: SmallVec<[bool; 6]> = SmallVec::from_elem(false, rank);
    for &axis in axes {
        *gone.get_mut(at(axis, rank)?)? = true;
    }
    if axes.is_empty() {
        // How many dimensions are left depends on the extents, so that the answer is the trace's condition at once.
        x.iter().zip(&mut gone).for_each(|(extent, gone)| *gone = extent.is(1));
    }
    Some(x.into_iter().zip(gone).filter(|(_, gone)| !gone).map(|(extent, _)| extent).collect())
}

fn unsqueeze(x: Extents, axes: &[i64]) -> Option<Extents> {
    let rank = x.len() + axes.len();
    let mut new: SmallVec<[bool; 6]> = SmallVec::from_elem(false, rank);
    for &axis in axes {
        *new.get_mut(at(axis, rank)?)? = true;
    }
    let mut from = x.into_iter();
    new.into_iter().map(|new| if new { Some(Extent::from(1i64)) } else { from.next() }).collect()
}

fn slice(mut x: Extents, params: &[ExtentParam<'_>]) -> Option<Extents> {
    let (starts, ends) = (params.first()?.list()?, params.get(1)?.list()?);
    let (axes, steps) = (params.get(2)?.ints()?, params.get(3)?.ints()?);
    for (i, (start, end)) in starts.iter().zip(&ends).enumerate() {
        let axis = match axes.get(i) {
            Some(&axis) => at(axis, x.len())?,
            None => i,
        };
        let extent = x.get_mut(axis)?;
        *extent = taken(extent, start, end, steps.get(i).copied().unwrap_or(1))?;
    }
    Some(x)
}

/// Counts what a slice takes of one dimension.
fn taken(extent: &Extent, start: &Extent, end: &Extent, step: i64) -> Option<Extent> {
    if step < 0 {
        // From the last element back to the first; other bounds are seldom, and left out.
        let far = i64::from(i32::MAX);
        let is = |bound: &Extent, test: fn(i64, i64) -> bool| bound.is_fixed() && test(bound.present(), far);
        if !is(start, |start, _| start == -1) || !is(end, |end, far| end <= -far) {
            return None;
        }
        let (inside, when) = Extent::from(far).at_least_when(extent);
        let by = Extent::from(step.checked_neg()?);
        return inside.then(|| under(extent, extent, &when).ceil_div(&by));
    }
    let (start, end) = (bound(extent, start)?, bound(extent, end)?);
    let (ascending, when) = end.at_least_when(&start);
    let distance = if ascending { end.minus(&start) } else { Extent::from(0i64) };
    let distance = under(&distance, extent, &when);
    Some(if step == 1 { distance } else { distance.ceil_div(&Extent::from(step)) })
}

/// Puts conditions on an extent, if some extent varies.
fn under(extent: &Extent, of: &Extent, when: &When) -> Extent {
    match extent.log().or(of.log()) {
        Some(log) => extent.under(when, log),
        None => extent.clone(),
    }
}

/// Clamps a bound of a slice; a negative one counts from the end.
fn bound(extent: &Extent, bound: &Extent) -> Option<Extent> {
    if bound.is_fixed() && bound.present() == i64::MAX {
        return Some(extent.clone());
    }
    let zero = Extent::from(0i64);
    let (positive, when) = bound.at_least_when(&zero);
    let from_start = if positive { bound.clone() } else { bound.plus(extent) };
    // Which of the bounds it is, is told by the numbers, because a lesser or greater of two grows expressions.
    let (inside, and) = extent.at_least_when(&from_start);
    let when = when.and(&and);
    if !inside {
        return Some(under(extent, bound, &when));
    }
    let (positive, and) = from_start.at_least_when(&zero);
    Some(under(if positive { &from_start } else { &zero }, extent, &when.and(&and)))
}
