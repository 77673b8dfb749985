//! Replaces attention that a model spells out by one operation.
//!
//! ```text
//! scores = matmul(q, transpose(k)) * scale + mask      (the scale at q, at k or at both, or as a divisor; the mask may be missing)
//! y = matmul(softmax(scores), v)
//! ```
//!
//! All tensors have four dimensions: batches, heads, positions, elements. If the transpose of `k` was merged with another
//! transpose, `k` is transposed as the operation requires.
//!
//! The operation computes the same formula, but multiplies by the scale elsewhere, so the last digits may differ. A row whose
//! mask is minus infinity everywhere yields 0, whereas the steps yield NaN. So `m - m` is added to the mask, where `m` is the
//! greatest number of the row. The difference is NaN for a row of minus infinities, and for a row that contains infinity, where
//! softmax gives NaN too. It is 0 for all other rows. A constant mask without rows of minus infinities is used as it is.
//!
//! The operation does not broadcast batches and heads, as products do. Where extents may differ between runs, the pass checks
//! with [`Extents`] that they are equal in all runs.
//! [`PassSwitches::recognize`](crate::PassSwitches::recognize) switches the pass off.

use super::extents::{Extents, Known};
use super::permutation::{Permutation, Transpose};
use super::quantised::{calls, floats, insert, step};
use super::recognized::{is_closed, origins, replace, with_factor};
use super::{Pass, PassOptions};
use crate::ext::{LlmOp, NnOp};
use crate::plan::program::Engine;
use crate::trace::{NewValue, StepId, StepOrigins, Trace, TraceEdit, TraceValue, Uses};
use crate::{DataType, Error, Primitive};
use bb_ir::Shape;
use bb_ir::op::Param;
use std::collections::HashMap;

pub(super) const PASS: Pass = Pass { name: "recognize-attention", engines: &[Engine::Interpreter], run };

/// The rank of all operands.
const RANK: usize = 4;

fn run(trace: &mut Trace, options: PassOptions<'_>) -> Result<usize, Error> {
    let spec = LlmOp::Attention.spec();
    if !options.switches.recognize || !options.natives.has(spec) {
        return Ok(0);
    }
    let uses = trace.uses()?;
    let extents = Extents::of(trace)?;
    let mut found = Vec::new();
    for (id, _) in trace.steps.iter() {
        let matching = AttentionMatch { trace, uses: &uses, extents: &extents, options, steps: Vec::new() };
        found.extend(matching.attention(id)?);
    }
    // In this order, a later match can read the mask that an earlier one inserts.
    found.sort_by_key(|attention| attention.last);
    let mut count = 0;
    let mut masks = HashMap::new();
    let mut edit = trace.edit();
    for attention in found {
        count += attention.steps.len();
        attention.replace(&mut edit, &mut masks)?;
    }
    edit.finish()?;
    Ok(count)
}

/// The keys: a value, and the permutation that makes it `[b, h, t, d]`.
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
    /// The step whose result is replaced.
    last: StepId,
    result: TraceValue,
    /// The steps that the operation replaces, in order.
    steps: Vec<StepId>,
}

/// The state of a match.
struct AttentionMatch<'t> {
    trace: &'t Trace,
    uses: &'t Uses,
    extents: &'t Extents,
    options: PassOptions<'t>,
    steps: Vec<StepId>,
}

impl AttentionMatch<'_> {
    /// Matches the steps around a softmax.
    fn attention(mut self, softmax: StepId) -> Result<Option<Attention>, Error> {
        let step = self.trace.steps.get(softmax)?;
        let (&[Some(scores)], &[shares]) = (step.inputs.as_slice(), step.outputs.as_slice()) else {
            return Ok(None);
        };
        let last_axis = matches!(step.params[..], [Param::Int(-1 | 3)]);
        if !calls(step, NnOp::Softmax.spec()) || !last_axis || self.shape(scores)?.len() != RANK {
            return Ok(None);
        }
        let Some(last) = self.uses.only_reader(shares)? else { return Ok(None) };
        let product = self.trace.steps.get(last)?;
        let (&[Some(left), Some(v)], &[result]) = (product.inputs.as_slice(), product.outputs.as_slice())
        else {
            return Ok(None);
        };
        if !calls(product, Primitive::MatMul.spec()) || left != shares || v == shares {
            return Ok(None);
        }
        self.steps.extend([softmax, last]);
        let (scores, mask) = match self.scores(scores, softmax)? {
            Some(plain) => (plain, None),
            None => match self.masked(scores, softmax)? {
                Some((scores, mask)) => (scores, Some(mask)),
                None => return Ok(None),
            },
        };
        self.steps.sort_unstable();
        self.steps.dedup();
        let plain = scores.scale.is_finite() && scores.scale > 0.0;
        if !plain
            || !self.fits(&scores, v, result)?
            || !is_closed(self.trace, self.uses, &self.steps, last)?
        {
            return Ok(None);
        }
        Ok(Some(Attention { scores, mask, v, last, result, steps: self.steps }))
    }

    fn shape(&self, value: TraceValue) -> Result<&[usize], Error> {
        Ok(&self.trace.values.get(value)?.shape)
    }

    /// Matches a sum of scores and a mask, which only `reader` reads.
    fn masked(&mut self, sum: TraceValue, reader: StepId) -> Result<Option<(Scores, Mask)>, Error> {
        let Some(id) = self.swallowed(sum, reader)? else { return Ok(None) };
        let step = self.trace.steps.get(id)?;
        let &[Some(a), Some(b)] = step.inputs.as_slice() else { return Ok(None) };
        if !calls(step, Primitive::Add.spec()) || a == b {
            return Ok(None);
        }
        let known = self.steps.len();
        for (products, mask) in [(a, b), (b, a)] {
            if let Some(scores) = self.scores(products, id)?
                && let Some(mask) = self.mask(mask, products, sum)?
            {
                self.steps.push(id);
                return Ok(Some((scores, mask)));
            }
            self.steps.truncate(known);
        }
        Ok(None)
    }

    /// Reads a mask, if the operation accepts its extents: each is 1, or equals the extent of the scores.
    fn mask(
        &self,
        mask: TraceValue,
        scores: TraceValue,
        sum: TraceValue,
    ) -> Result<Option<Mask>, Error> {
        let [own, of, sum] = [mask, scores, sum].map(|value| self.trace.values.get(value));
        let (own, of, sum) = (own?, of?, sum?);
        let float = own.dtype == DataType::F32;
        if !float || own.shape.is_empty() || own.shape.len() > RANK || sum.shape != of.shape {
            return Ok(None);
        }
        // A mask that broadcasts the scores in another run would give more elements.
        let counted = sum.elements.is_some() && sum.elements == of.elements;
        let [known, scores] = [mask, scores].map(|value| self.extents.get(self.trace, value));
        let fits = |(own, of): (&Option<_>, &Option<_>)| {
            own.as_ref().is_some_and(|own| *own == bb_ir::graph::DimExpr::from(1) || Some(own) == of.as_ref())
        };
        if !counted && !known?.iter().rev().zip(scores?.iter().rev()).all(fits) {
            return Ok(None);
        }
        let hides = |row: &[f32]| row.iter().all(|&x| x == f32::NEG_INFINITY);
        let may_hide_all = match (floats(self.trace, self.options, mask)?, own.shape.last()) {
            (Some((_, numbers)), Some(&row)) => numbers.chunks(row.max(1)).any(hides),
            _ => true,
        };
        Ok(Some(Mask { value: mask, may_hide_all }))
    }

    /// Returns the step that makes a value, if only `reader` reads the value.
    fn swallowed(&self, value: TraceValue, reader: StepId) -> Result<Option<StepId>, Error> {
        let only = self.uses.only_reader(value)? == Some(reader);
        Ok(self.uses.maker(value)?.filter(|_| only))
    }

    /// Matches the steps that multiply a value by numbers. Returns the value before them, the reader of that value, and the
    /// product of the numbers.
    fn unscaled(
        &mut self,
        mut value: TraceValue,
        mut reader: StepId,
    ) -> Result<(TraceValue, StepId, f64), Error> {
        let mut scale = 1.0;
        while let Some(id) = self.swallowed(value, reader)?
            && let Some((of, factor)) = with_factor(self.trace, self.options, id)?
            && self.shape(of)? == self.shape(value)?
        {
            self.steps.push(id);
            scale *= factor;
            (value, reader) = (of, id);
        }
        Ok((value, reader, scale))
    }

    /// Matches a scaled product of queries and transposed keys.
    fn scores(&mut self, value: TraceValue, reader: StepId) -> Result<Option<Scores>, Error> {
        let known = self.steps.len();
        let found = self.product(value, reader)?;
        if found.is_none() {
            self.steps.truncate(known);
        }
        Ok(found)
    }

    fn product(&mut self, value: TraceValue, reader: StepId) -> Result<Option<Scores>, Error> {
        let (product, reader, scale) = self.unscaled(value, reader)?;
        let Some(id) = self.swallowed(product, reader)? else { return Ok(None) };
        let step = self.trace.steps.get(id)?;
        let &[Some(q), Some(k)] = step.inputs.as_slice() else { return Ok(None) };
        if !calls(step, Primitive::MatMul.spec()) || q == k {
            return Ok(None);
        }
        self.steps.push(id);
        let (q, _, of_q) = self.unscaled(q, id)?;
        let (k, reader, of_k) = self.unscaled(k, id)?;
        let Some(maker) = self.uses.maker(k)? else { return Ok(None) };
        let Some(Transpose { operand, perm, .. }) =
            Transpose::of(self.trace, self.trace.steps.get(maker)?)?
        else {
            return Ok(None);
        };
        let turned: Permutation = [0, 1, 3, 2].into_iter().collect();
        if perm.entries().len() != RANK {
            return Ok(None);
        }
        let perm = perm.then(&turned)?;
        // If another step reads the transposed keys, the transpose stays for it.
        let (of, of_keys) = if self.uses.only_reader(k)? == Some(reader) {
            self.steps.push(maker);
            let (of, _, scale) = self.unscaled(operand, maker)?;
            (of, scale)
        } else {
            (operand, 1.0)
        };
        Ok(Some(Scores { q, keys: Keys { of, perm }, scale: scale * of_q * of_k * of_keys }))
    }

    /// Returns whether the operation takes the operands and returns the same results as the steps, in all runs.
    fn fits(&self, scores: &Scores, v: TraceValue, result: TraceValue) -> Result<bool, Error> {
        let Scores { q, keys, .. } = scores;
        for value in [*q, keys.of, v, result] {
            let info = self.trace.values.get(value)?;
            if info.dtype != DataType::F32 || info.shape.len() != RANK {
                return Ok(false);
            }
        }
        let k: Shape = keys.perm.permuted(self.shape(keys.of)?)?;
        let (&[b, h, s, d], &[.., t, size], &[.., count, e]) = (self.shape(*q)?, &k[..], self.shape(v)?) else {
            return Ok(false);
        };
        let front = |shape: &[usize]| shape.starts_with(&[b, h]);
        if !front(&k) || !front(self.shape(v)?) || (d, t) != (size, count) || self.shape(result)? != [b, h, s, e] {
            return Ok(false);
        }
        let known = |value| self.extents.get(self.trace, value);
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
    fn replace(
        self,
        edit: &mut TraceEdit<'_>,
        masks: &mut HashMap<TraceValue, TraceValue>,
    ) -> Result<(), Error> {
        let Attention { scores: Scores { q, keys, scale }, mask, v, last, result, steps } = self;
        let origins = origins(edit.trace(), &steps)?;
        let k = if keys.perm.is_identity() {
            keys.of
        } else {
            let info = edit.trace().values.get(keys.of)?;
            let like = NewValue::shaped(info, keys.perm.permuted(&info.shape)?);
            let new =
                step(Primitive::Transpose.spec(), keys.perm.params(), [Some(keys.of)], origins.clone());
            insert(edit, last, new, like)?
        };
        let bias = match mask {
            Some(Mask { value, may_hide_all: true }) => match masks.get(&value) {
                Some(known) => Some(*known),
                None => {
                    let made = honest(edit, last, value, &origins)?;
                    masks.insert(value, made);
                    Some(made)
                }
            },
            other => other.map(|mask| mask.value),
        };
        // The model spells the addition out, so minus infinity is an ordinary addend and excludes nothing.
        let params =
            Box::new([Param::OptFloat(Some(scale)), Param::Float(0.0), Param::OptType(None), Param::Bool(false)]);
        let new = step(LlmOp::Attention.spec(), params, [Some(q), Some(k), Some(v), bias], origins);
        let like = NewValue::like(edit.trace().values.get(result)?);
        let made = insert(edit, last, new, like)?;
        replace(edit, result, made, &steps)
    }
}

/// Returns a mask that is NaN in the rows whose softmax is NaN because of the mask.
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
