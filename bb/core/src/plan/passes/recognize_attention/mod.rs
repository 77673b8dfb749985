//! Replaces the steps of an attention by one operation.
//!
//! ```text
//! scores = matmul(q, transpose(k)) * scale + mask      (the scale at q, at k or at both, or as a divisor; the mask may be missing)
//! y = matmul(softmax(scores), v)
//! ```
//!
//! All tensors have four dimensions: batches, heads, positions, elements. If the transpose of `k` was merged with another
//! transpose, a new transpose brings `k` to the shape that the operation requires.
//!
//! The operation computes the same formula, but applies the scale at another point, so the last digits may differ. A row whose
//! mask is minus infinity everywhere yields 0, whereas the steps yield NaN. So `m - m` is added to the mask, where `m` is the
//! maximum of the row. The difference is NaN for a row of minus infinities, and for a row that contains infinity, where softmax
//! yields NaN too. It is 0 for all other rows. A constant mask without rows of minus infinities is used unchanged.
//!
//! Unlike matrix products, the operation does not broadcast batches and heads. If extents may differ between runs, the pass
//! checks with [`Extents`] that they are equal in all runs.
//! [`PassSwitches::recognize`](crate::PassSwitches::recognize) switches the pass off.

use super::extents::{Extents, Known};
use super::matching::Matching;
use super::pattern::Pattern;
use super::permutation::{Permutation, Transpose};
use super::quantised::{insert, step};
use super::recognized::{Call, find, has_call, replace_found};
use super::view::View;
use super::{Pass, PassOptions};
use crate::ext::{LlmOp, Nn, NnOp};
use crate::plan::engine::Engine;
use crate::trace::{NewValue, StepId, StepOrigins, Trace, TraceEdit, TraceValue};
use crate::{Backend, DataType, Error, Primitive};
use bb_ir::Shape;
use bb_ir::op::Param;
use std::collections::HashMap;

pub(super) const PASS: Pass = Pass { name: "recognize-attention", engines: &[Engine::Interpreter], run };

/// The rank of all operands.
const RANK: usize = 4;

/// The slot that collects all factors of the scores.
const SCALE: usize = 0;

fn run(trace: &mut Trace, options: PassOptions<'_>) -> Result<usize, Error> {
    let native = options.switches.recognize && options.natives.has(LlmOp::Attention.spec());
    if !native || !has_call(trace, &[NnOp::Softmax.spec()]) {
        return Ok(0);
    }
    let extents = Extents::of(trace)?;
    let found = find(trace, options, &[pattern()?], |matching, _| {
        AttentionMatch { matching, extents: &extents }.accepted()
    })?;
    let mut masks = HashMap::new();
    replace_found(trace, found, |edit, last, origins, attention| {
        attention.call(edit, last, origins, &mut masks)
    })
}

/// Returns the pattern of attention with or without a mask. Numbers may multiply the queries, the keys, the transposed keys and
/// the scores.
fn pattern() -> Result<Pattern, Error> {
    Pattern::of([DataType::F32; 5], |on, [q, k, transposed, mask, v]| {
        // The second choice matches already transposed keys: if another step reads them, the transpose stays for it.
        let keys = on.either([&on.transpose(&on.scaled(SCALE, &k), &[0, 1, 3, 2])?, &transposed]);
        let products = on.matmul(&on.scaled(SCALE, &q), &on.scaled(SCALE, &keys))?;
        let scores = on.scaled(SCALE, &products);
        let scores = on.either([&scores, &on.add(&scores, &mask)?]);
        on.matmul(&on.softmax(&scores, -1)?, &v)
    })
}

/// The keys: a value, and the permutation that brings it to `[b, h, t, d]`.
#[derive(Debug, Clone)]
struct Keys {
    of: TraceValue,
    perm: Permutation,
}

/// The scores: queries, keys, and the factor of their products.
struct Scores {
    q: TraceValue,
    keys: Keys,
    scale: f64,
}

/// A mask, which is added to the scores.
#[derive(Debug, Clone, Copy)]
struct Mask {
    value: TraceValue,
    /// Whether a row may be minus infinity everywhere.
    may_hide_all: bool,
}

/// A matched attention.
struct Attention {
    scores: Scores,
    mask: Option<Mask>,
    v: TraceValue,
}

/// A match of the pattern.
struct AttentionMatch<'m> {
    matching: &'m Matching<'m>,
    extents: &'m Extents,
}

impl AttentionMatch<'_> {
    fn accepted(&self) -> Result<Option<Attention>, Error> {
        let [Some(q), k, transposed, mask, Some(v)] = self.matching.operands() else { return Ok(None) };
        let Some(softmax) = self.matching.calling(NnOp::Softmax.spec()).next() else { return Ok(None) };
        let (&[Some(sum)], [Param::Int(-1 | 3)]) = (softmax.inputs.as_slice(), &softmax.params[..]) else {
            return Ok(None);
        };
        let Some(keys) = self.keys(k, transposed)? else { return Ok(None) };
        let scale = self.matching.factor(SCALE);
        let scores = Scores { q, keys, scale };
        if !(scale.is_finite() && scale > 0.0 && self.fits(&scores, v)?) {
            return Ok(None);
        }
        let Some(mask) = mask else { return Ok(Some(Attention { scores, mask: None, v })) };
        let Some(mask) = self.mask(mask, sum)? else { return Ok(None) };
        Ok(Some(Attention { scores, mask: Some(mask), v }))
    }

    fn shape(&self, value: TraceValue) -> Result<&[usize], Error> {
        Ok(&self.matching.view.trace.values.get(value)?.shape)
    }

    /// Returns the keys: `k`, which a matched step transposes, or the operand of the transpose that computes `transposed`.
    fn keys(&self, k: Option<TraceValue>, transposed: Option<TraceValue>) -> Result<Option<Keys>, Error> {
        let step = match transposed {
            Some(value) => self.matching.view.maker(value)?.map(|(_, step)| step),
            None => self.matching.calling(Primitive::Transpose.spec()).next(),
        };
        let transpose = step.map(|step| Transpose::of(self.matching.view.trace, step)).transpose()?.flatten();
        let Some(Transpose { operand, perm, .. }) = transpose else { return Ok(None) };
        if perm.entries().len() != RANK {
            return Ok(None);
        }
        let turned: Permutation = [0, 1, 3, 2].into_iter().collect();
        Ok(Some(Keys { of: k.unwrap_or(operand), perm: perm.then(&turned)? }))
    }

    /// Reads a mask, if the operation accepts its shape: each extent is 1, or equals the extent of the scores.
    fn mask(&self, mask: TraceValue, sum: TraceValue) -> Result<Option<Mask>, Error> {
        let View { trace, .. } = self.matching.view;
        let Some(adding) = self.matching.calling(Primitive::Add.spec()).next() else { return Ok(None) };
        let Some(scores) = adding.reads().find(|&value| value != mask) else { return Ok(None) };
        let [own, of, sum] = [mask, scores, sum].map(|value| trace.values.get(value));
        let (own, of, sum) = (own?, of?, sum?);
        let float = own.dtype == DataType::F32;
        if !float || own.shape.is_empty() || own.shape.len() > RANK || sum.shape != of.shape {
            return Ok(None);
        }
        // The scores must not be broadcast to the mask in another run, which would give more elements.
        let counted = sum.elements.is_some() && sum.elements == of.elements;
        let [known, scores] = [mask, scores].map(|value| self.extents.get(trace, value));
        let fits = |(own, of): (&Option<_>, &Option<_>)| {
            own.as_ref().is_some_and(|own| *own == bb_ir::graph::DimExpr::from(1) || Some(own) == of.as_ref())
        };
        if !counted && !known?.iter().rev().zip(scores?.iter().rev()).all(fits) {
            return Ok(None);
        }
        let hides = |row: &[f32]| row.iter().all(|&x| x == f32::NEG_INFINITY);
        let may_hide_all = match (self.matching.view.floats(mask)?, own.shape.last()) {
            (Some((_, numbers)), Some(&row)) => numbers.chunks(row.max(1)).any(hides),
            _ => true,
        };
        Ok(Some(Mask { value: mask, may_hide_all }))
    }

    /// Returns whether the operation accepts the operands and returns the same results as the steps, in all runs.
    fn fits(&self, scores: &Scores, v: TraceValue) -> Result<bool, Error> {
        let Scores { q, keys, .. } = scores;
        let (trace, result) = (self.matching.view.trace, self.matching.result);
        for value in [*q, keys.of, v, result] {
            let info = trace.values.get(value)?;
            if info.dtype != DataType::F32 || info.shape.len() != RANK {
                return Ok(false);
            }
        }
        let k: Shape = keys.perm.permuted(self.shape(keys.of)?)?;
        let (&[b, h, s, d], &[.., t, size], &[.., count, e]) = (self.shape(*q)?, &k[..], self.shape(v)?)
        else {
            return Ok(false);
        };
        let front = |shape: &[usize]| shape.starts_with(&[b, h]);
        if !front(&k)
            || !front(self.shape(v)?)
            || (d, t) != (size, count)
            || self.shape(result)? != [b, h, s, e]
        {
            return Ok(false);
        }
        let known = |value| self.extents.get(trace, value);
        let keys: Known = keys.perm.permuted(&known(keys.of)?)?;
        let [q, v] = [known(*q)?, known(v)?];
        let alike = |axis: usize| {
            let own = q.get(axis);
            own.is_some_and(Option::is_some) && keys.get(axis) == own && v.get(axis) == own
        };
        Ok(alike(0) && alike(1))
    }
}

impl Attention {
    /// Inserts the steps that prepare the operands, and returns the call of the operation.
    fn call(
        self,
        edit: &mut TraceEdit<'_>,
        last: StepId,
        origins: &StepOrigins,
        masks: &mut HashMap<TraceValue, TraceValue>,
    ) -> Result<Call, Error> {
        let Attention { scores: Scores { q, keys, scale }, mask, v } = self;
        let k = if keys.perm.is_identity() {
            keys.of
        } else {
            let info = edit.trace().values.get(keys.of)?;
            let like = NewValue::shaped(info, keys.perm.permuted(&info.shape)?);
            let new = step(Primitive::Transpose.spec(), keys.perm.params(), [Some(keys.of)], origins.clone());
            insert(edit, last, new, like)?
        };
        let bias = match mask {
            Some(Mask { value, may_hide_all: true }) => match masks.get(&value) {
                Some(known) => Some(*known),
                None => {
                    let made = honest(edit, last, value, origins)?;
                    masks.insert(value, made);
                    Some(made)
                }
            },
            other => other.map(|mask| mask.value),
        };
        // The parameter `excludes` is false: in the steps, minus infinity is an ordinary addend and excludes no position.
        let params = Box::new([
            Param::OptFloat(Some(scale)),
            Param::Float(0.0),
            Param::OptType(None),
            Param::Bool(false),
        ]);
        Ok(Call { spec: LlmOp::Attention.spec(), params, inputs: vec![Some(q), Some(k), Some(v), bias] })
    }
}

/// Returns a mask that is NaN in the rows where it causes a softmax of NaN.
fn honest(
    edit: &mut TraceEdit<'_>,
    before: StepId,
    mask: TraceValue,
    origins: &StepOrigins,
) -> Result<TraceValue, Error> {
    let info = edit.trace().values.get(mask)?;
    let mut rows = info.shape.clone();
    let axis = rows.len() as i64 - 1;
    rows.iter_mut().next_back().into_iter().for_each(|extent| *extent = 1);
    let rows = NewValue { elements: None, ..NewValue::shaped(info, rows) };
    let own = NewValue::like(info);
    let params = Box::new([Param::Ints(vec![axis].into()), Param::Bool(true)]);
    let most = step(Primitive::ReduceMax.spec(), params, [Some(mask)], origins.clone());
    let most = insert(edit, before, most, rows.clone())?;
    let twice = step(Primitive::Sub.spec(), Box::default(), [Some(most), Some(most)], origins.clone());
    let none = insert(edit, before, twice, rows)?;
    let sum = step(Primitive::Add.spec(), Box::default(), [Some(mask), Some(none)], origins.clone());
    insert(edit, before, sum, own)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests;
