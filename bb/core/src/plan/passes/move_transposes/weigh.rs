//! Counts the elements that transposes at the border of a region move, with the original and with permuted dimensions.
//!
//! The weight of a transpose is the number of its elements in the trace. A transpose of a constant has no weight, because the
//! constant is permuted once for all runs.

use super::regions::{Facts, Region, made};
use crate::Error;
use crate::plan::passes::permutation::{Permutation, Transpose};
use crate::trace::{StepId, Trace, TraceValue};
use bb_ir::element_count;
use std::collections::HashMap;

/// The permutation of the dimensions of a region's values.
///
/// Instead of a value `v`, the region computes a value `w`, where `v` is the transpose of `w` by `forth`.
pub(super) struct Turn {
    /// The permutation of the transposed values that the region reads.
    pub(super) forth: Permutation,
    /// Its inverse.
    pub(super) back: Permutation,
}

/// The value that a permuted region reads instead of an operand.
pub(super) enum Entry {
    /// Another value, or the operand itself.
    Value(TraceValue),
    /// A transpose of a value by a permutation.
    Permuted(TraceValue, Permutation),
    /// A transpose of an operand of lower rank by a permutation, with dimensions of extent 1 inserted at these axes.
    Raised(Permutation, Vec<i64>),
}

/// The role of a step that reads a result of a region, if the region runs with permuted dimensions.
pub(super) enum Exit<'f> {
    /// A step of the region.
    Inside,
    /// A transpose whose result equals the permuted result of the region, so that it is not needed.
    Back(&'f Transpose),
    /// A transpose that becomes a transpose of the permuted result by this permutation.
    Permuted(&'f Transpose, Permutation),
    /// A step that reads the result with the original dimensions.
    Reader,
}

impl Turn {
    pub(super) fn new(forth: Permutation) -> Turn {
        Turn { back: forth.inverse(), forth }
    }

    /// Returns the value that a permuted region reads instead of an operand.
    pub(super) fn entry(
        &self,
        trace: &Trace,
        facts: &Facts,
        region: &Region,
        operand: TraceValue,
    ) -> Result<Entry, Error> {
        if let Some((_, transpose)) = facts.transposed(trace, region, operand)? {
            let perm = transpose.perm.then(&self.back)?;
            return Ok(match perm.is_identity() {
                true => Entry::Value(transpose.operand),
                false => Entry::Permuted(transpose.operand, perm),
            });
        }
        let shape = &trace.values.get(operand)?.shape;
        // The extents of a constant are the same in all runs.
        let single = facts.is_constant(operand)? && shape.iter().all(|&extent| extent == 1);
        Ok(match region.rank.checked_sub(shape.len()) {
            _ if single || shape.is_empty() => Entry::Value(operand),
            None | Some(0) => Entry::Permuted(operand, self.back.clone()),
            Some(missing) => self.raised(missing),
        })
    }

    /// Returns the entry of an operand that lacks the first `missing` dimensions of the region.
    fn raised(&self, missing: usize) -> Entry {
        let own = self.back.entries().iter().filter_map(|from| from.checked_sub(missing));
        let new = self.back.entries().iter().enumerate().filter(|(_, from)| **from < missing);
        Entry::Raised(own.collect(), new.map(|(to, _)| to as i64).collect())
    }

    /// Returns the role of a step that reads a result of a region.
    pub(super) fn exit<'f>(
        &self,
        facts: &'f Facts,
        region: &Region,
        reader: StepId,
    ) -> Result<Exit<'f>, Error> {
        if facts.is_in(region, reader)? {
            return Ok(Exit::Inside);
        }
        let Some(transpose) = facts.transpose(reader)? else { return Ok(Exit::Reader) };
        let perm = self.forth.then(&transpose.perm)?;
        Ok(if perm.is_identity() { Exit::Back(transpose) } else { Exit::Permuted(transpose, perm) })
    }
}

/// Returns the permutation of a region, if transposes move fewer elements with it.
pub(super) fn better(trace: &Trace, facts: &Facts, region: &Region) -> Result<Option<Turn>, Error> {
    let Some(forth) = most_moved(trace, facts, region)? else { return Ok(None) };
    let turn = Turn::new(forth);
    let (mut before, mut after) = (0u128, 0u128);
    for &operand in &region.operands {
        let elements = elements(trace, facts, operand)?;
        if facts.transposed(trace, region, operand)?.is_some() && facts.is_only_for(region, operand)? {
            before += elements;
        }
        after += match turn.entry(trace, facts, region, operand)? {
            Entry::Permuted(..) => elements,
            Entry::Raised(order, _) if !order.is_identity() => elements,
            Entry::Value(_) | Entry::Raised(..) => 0,
        };
    }
    for &id in &region.steps {
        let result = made(trace, id)?;
        let elements = elements(trace, facts, result)?;
        let mut is_read = facts.uses.is_returned(result)?;
        for &reader in facts.uses.readers(result)? {
            match turn.exit(facts, region, reader)? {
                Exit::Back(_) => before += elements,
                Exit::Reader => is_read = true,
                // There is no transpose, or there is one both with the original and with permuted dimensions.
                Exit::Inside | Exit::Permuted(..) => {}
            }
        }
        after += if is_read { elements } else { 0 };
    }
    Ok((after < before).then_some(turn))
}

/// Returns the permutation whose transposes move the most elements, among the transposes of the region's operands. Transposes
/// by its inverse count too.
fn most_moved(trace: &Trace, facts: &Facts, region: &Region) -> Result<Option<Permutation>, Error> {
    let mut moved: HashMap<&Permutation, u128> = HashMap::new();
    for &operand in &region.operands {
        if let Some((_, transpose)) = facts.transposed(trace, region, operand)? {
            *moved.entry(&transpose.perm).or_default() += elements(trace, facts, operand)?;
        }
    }
    for &id in &region.steps {
        let result = made(trace, id)?;
        for &reader in facts.uses.readers(result)? {
            let Some(transpose) = facts.transpose(reader)? else { continue };
            if let Some(moved) = moved.get_mut(&transpose.perm.inverse()) {
                *moved += elements(trace, facts, result)?;
            }
        }
    }
    // If several permutations move equally many elements, the one that the region reads first is selected.
    let mut most: Option<(&Permutation, u128)> = None;
    for &operand in &region.operands {
        let Some((_, transpose)) = facts.transposed(trace, region, operand)? else { continue };
        let elements = moved.get(&transpose.perm).copied().unwrap_or_default();
        if most.is_none_or(|(_, most)| elements > most) {
            most = Some((&transpose.perm, elements));
        }
    }
    Ok(most.map(|(perm, _)| perm.clone()))
}

/// Returns the number of elements of a value that a transpose moves in each run; 0 for constants.
fn elements(trace: &Trace, facts: &Facts, value: TraceValue) -> Result<u128, Error> {
    if facts.is_constant(value)? {
        return Ok(0);
    }
    Ok(element_count(&trace.values.get(value)?.shape).unwrap_or(usize::MAX) as u128)
}
