//! Computes the extents of each primitive's results as expressions.

use super::log::{Log, When};
use super::traced::{TracedTensor, Type};
use super::{Extent, Extents};
use bb_ir::infer::{self, RuleParam};
use bb_ir::op::Primitive;
use bb_ir::{DataType, Shape};
use smallvec::SmallVec;
use std::sync::Arc;

/// Returns the types of a primitive's results. `numbers` contains the extents of the results for the traced inputs.
///
/// If the rule imposes conditions on the operands' extents, steps that use the results' extents inherit them. If the
/// rule cannot determine the results symbolically, the results have the numbers, on condition that the operands'
/// extents equal the traced ones.
pub(super) fn results(
    op: Primitive,
    inputs: &[&TracedTensor],
    params: &[RuleParam<'_, Extent>],
    numbers: impl IntoIterator<Item = (DataType, Shape)>,
    log: &Arc<Log>,
) -> SmallVec<[Type; 1]> {
    let numbers = numbers.into_iter();
    if inputs.iter().all(|x| x.is_fixed()) && listed(params).all(Extent::is_fixed) {
        return numbers.map(|(dtype, shape)| Type { dtype, shape, extents: None }).collect();
    }
    let operands: SmallVec<[Extents; 4]> = inputs.iter().map(|x| x.extents()).collect();
    let operands: SmallVec<[&[Extent]; 4]> = operands.iter().map(|x| x.as_slice()).collect();
    let (given, when) = log.asked(|| infer::primitive_extents(op, &operands, params));
    let mut given = given.unwrap_or_default().into_iter();
    let mut tied = None;
    let each = |(dtype, shape): (DataType, Shape)| {
        let agree = |of: &Extents| {
            of.len() == shape.len()
                && of.iter().zip(&shape).all(|(e, &n)| usize::try_from(e.present()) == Ok(n))
        };
        let (extents, when) = match given.next().filter(agree) {
            Some(extents) => (extents, &when),
            None => {
                let numbers = shape.iter().map(|&n| Extent::from(n)).collect();
                (numbers, &*tied.get_or_insert_with(|| all_tied(inputs, params)))
            }
        };
        Type::varying(dtype, shape, extents).under(when, log)
    };
    numbers.map(each).collect()
}

/// Returns the condition that the operands and parameters have the traced extents.
pub(super) fn all_tied(inputs: &[&TracedTensor], params: &[RuleParam<'_, Extent>]) -> When {
    let operands = inputs.iter().fold(When::ALWAYS, |all, x| all.and(&x.tied()));
    listed(params).fold(operands, |all, extent| all.and(&extent.tied()))
}

/// Lists the extents in parameters.
fn listed<'a>(params: &'a [RuleParam<'_, Extent>]) -> impl Iterator<Item = &'a Extent> {
    params.iter().flat_map(|param| match param {
        RuleParam::Fixed(_) => &[][..],
        RuleParam::Ints(list) | RuleParam::Extents(list) => list,
    })
}
