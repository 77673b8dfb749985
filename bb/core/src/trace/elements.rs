//! Tracks the elements of small integer tensors as expressions. Exporters compute shapes with these tensors.

use super::Extent;
use super::extents::all_tied;
use super::log::{Log, When};
use super::traced::{Follow, TracedElements, TracedTensor, Type};
use crate::Error;
use bb_ir::infer::RuleParam;
use bb_ir::infer::eval::{self, Contents, Entry};
use bb_ir::op::{Param, Primitive};
use bb_ir::{DataType, Shape, TensorData};
use smallvec::SmallVec;
use std::sync::Arc;

/// The maximum number of elements that the evaluator computes. Shape arithmetic needs only a few.
pub(super) const EVALUATED: usize = <TensorData as eval::Constant>::MOST;

/// Returns whether a tensor is small enough to be evaluated.
pub(super) fn is_small(shape: &[usize]) -> bool {
    bb_ir::element_count(shape).is_some_and(|n| n <= EVALUATED)
}

/// Computes a primitive's results if all operands are known. Returns `None` if an operand is unknown, or if an operand
/// or a result is too large.
pub(super) fn evaluate(
    op: Primitive,
    inputs: &[&TracedTensor],
    results: &[Type],
    params: &[Param<'_>],
    given: &[RuleParam<'_, Extent>],
    log: &Arc<Log>,
) -> Result<Option<Vec<TracedElements>>, Error> {
    if !results.iter().all(|ty| is_small(&ty.shape)) {
        return Ok(None);
    }
    let mut data: SmallVec<[&TensorData; 4]> = SmallVec::new();
    let mut constant = results.iter().all(|ty| ty.extents.is_none());
    for x in inputs {
        match x.elements() {
            TracedElements::Constant(x) if is_small(x.shape()) => data.push(x),
            TracedElements::OfExtents(x, _) if is_small(x.shape()) => {
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
        return Ok(Some(values.into_iter().map(TracedElements::Constant).collect()));
    }
    let fixed = varies.is_always() && results.iter().all(|ty| ty.extents.is_none());
    if fixed {
        let (each, when) = log.asked(|| each(op, inputs, &types, params));
        let follow = |(data, each): (&TensorData, &Vec<Extent>)| {
            // The values of the expressions must equal the numbers that were computed.
            let numbers = integers(data).ok()?;
            numbers.into_iter().eq(each.iter().map(Extent::present)).then(|| {
                let each: Vec<Extent> = each.iter().map(|extent| extent.under(&when, log)).collect();
                match each.iter().all(Extent::is_fixed) {
                    true => TracedElements::Constant(data.clone()),
                    false => TracedElements::OfExtents(data.clone(), Follow::Each(each.into())),
                }
            })
        };
        let all: Option<Vec<TracedElements>> =
            each.and_then(|each| values.iter().zip(&each).map(follow).collect());
        if let Some(all) = all {
            return Ok(Some(all));
        }
    }
    let follows = |x: &&TracedTensor| match x.elements() {
        TracedElements::OfExtents(_, follow) => follow.tied(),
        TracedElements::Constant(_) | TracedElements::Unknown => When::ALWAYS,
    };
    let when = inputs.iter().fold(all_tied(inputs, given), |all, x| all.and(&follows(x)));
    Ok(Some(
        values.into_iter().map(|data| TracedElements::OfExtents(data, Follow::When(when.clone()))).collect(),
    ))
}

/// Returns the elements of an operand as extents, if they are integers or booleans that tracing tracks
/// individually.
fn contents(x: &TracedTensor) -> Option<Contents<Extent>> {
    match x.elements() {
        TracedElements::OfExtents(data, Follow::Each(each)) => {
            let entries = each.iter().cloned().map(Entry::Whole).collect();
            Contents::new(data.dtype(), x.present().clone(), entries)
        }
        TracedElements::Constant(data) => Contents::of(data),
        _ => None,
    }
}

/// Computes each element of the results as an expression; returns `None` if there is no expression for one.
fn each(
    op: Primitive,
    inputs: &[&TracedTensor],
    results: &[(DataType, Shape)],
    params: &[Param<'_>],
) -> Option<Vec<Vec<Extent>>> {
    if !inputs.iter().all(|x| x.is_fixed()) {
        return None;
    }
    let operands: Vec<Contents<Extent>> = inputs.iter().map(|x| contents(x)).collect::<Option<_>>()?;
    let operands: SmallVec<[&Contents<Extent>; 4]> = operands.iter().collect();
    // The same evaluation on numbers has already reported errors.
    let values = eval::primitive(op, &operands, results, params, &|_| false).ok()??;
    let whole = |entry: Entry<Extent>| match entry {
        Entry::Whole(extent) => Some(extent),
        Entry::Real(_) | Entry::Unknown => None,
    };
    values.into_iter().map(|x| x.entries.into_iter().map(whole).collect()).collect()
}

/// Reads integers or booleans of any width.
pub fn integers(x: &TensorData) -> Result<Vec<i64>, bb_ir::Error> {
    fn widen<T: bb_ir::Element + Into<i64>>(x: &TensorData) -> Result<Vec<i64>, bb_ir::Error> {
        bb_ir::memory::collected("integers", x.as_slice::<T>()?.iter().map(|&v| v.into()))
    }
    match x.dtype() {
        DataType::I64 => widen::<i64>(x),
        DataType::I32 => widen::<i32>(x),
        DataType::I16 => widen::<i16>(x),
        DataType::I8 => widen::<i8>(x),
        DataType::U8 => widen::<u8>(x),
        DataType::U16 => widen::<u16>(x),
        DataType::U32 => widen::<u32>(x),
        DataType::Bool => bb_ir::memory::collected("integers", x.bytes()?.iter().map(|&b| i64::from(b))),
        got => Err(bb_ir::Error::DataType { expected: DataType::I64, got }),
    }
}
