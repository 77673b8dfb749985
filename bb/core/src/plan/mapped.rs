//! Computes all iterations of a `Scan` at once if no iteration depends on an earlier one.
//!
//! If the body returns its states unchanged, its other results are a function of one part of each scanned operand. The steps of
//! the body are recorded once, for placeholders of the parts, and then repeated for many parts: the iterations become the first
//! dimension of each value. There are rules for element-wise steps and for reductions, which compute the distances between
//! rows in models of nearest neighbours and of Gaussian processes.

use super::repetition::ScanParts;
use crate::trace::{Operation, Step, TraceStop, TraceValue, TracedTensor, Tracer};
use crate::{Backend, Error, Tensor};
use bb_ir::op::{Class, OpSpec, Param, Primitive};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::collections::HashMap;

/// The maximum size in bytes of a result of a repeated step. Larger results would leave the processor's caches.
const MOST_BYTES: usize = 1 << 20;

/// A body, recorded for placeholders of the parts.
pub(super) struct Recorded {
    pub(super) steps: Vec<Step>,
    /// The placeholders, in the order of the scanned operands.
    pub(super) parts: Vec<TraceValue>,
    /// The values of states and captured values, which are the same in each iteration.
    pub(super) same: HashMap<TraceValue, TracedTensor>,
    /// The results that are collected, in order.
    pub(super) collected: Vec<TraceValue>,
    /// The size in bytes of the largest result of a step.
    pub(super) bytes: usize,
}

/// A value of a repeated step.
#[derive(Clone)]
struct Repeated {
    x: TracedTensor,
    /// Whether the first dimension is the iteration. Otherwise the value is the same in each iteration.
    each: bool,
}

impl Repeated {
    /// The rank in one iteration.
    fn rank(&self) -> usize {
        self.x.rank() - usize::from(self.each)
    }
}

impl Recorded {
    /// Repeats the steps for all iterations. Returns the collected results with the iteration as the first dimension; `None` if a
    /// step has no rule.
    ///
    /// # Errors
    ///
    /// Those of the steps.
    pub(super) fn results(
        &self,
        on: &Tracer,
        scan: &ScanParts<TracedTensor>,
        most_steps: usize,
    ) -> Result<Option<Vec<TracedTensor>>, TraceStop> {
        let together = (MOST_BYTES / self.bytes.max(1)).min(scan.trips);
        if together < 2 || scan.trips.div_ceil(together).saturating_mul(self.steps.len()) > most_steps {
            return Ok(None);
        }
        let mut pieces: Vec<Vec<TracedTensor>> = self.collected.iter().map(|_| Vec::new()).collect();
        for from in (0..scan.trips).step_by(together) {
            let ends =
                [from, scan.trips.min(from + together)].map(|end| i64::try_from(end).unwrap_or(i64::MAX));
            let mut parts = Vec::with_capacity(scan.operands.len());
            for x in &scan.operands {
                parts.push(match together == scan.trips {
                    true => x.clone(),
                    false => on.slice(x, &ends[..1], &ends[1..], &[0], &[])?,
                });
            }
            let Some(results) = self.repeated(on, &parts)? else { return Ok(None) };
            pieces.iter_mut().zip(results).for_each(|(pieces, piece)| pieces.push(piece));
        }
        let mut results = Vec::with_capacity(pieces.len());
        for pieces in pieces {
            results.push(match pieces.as_slice() {
                [only] => only.clone(),
                pieces => on.concat(&pieces.iter().collect::<Vec<_>>(), 0)?,
            });
        }
        Ok(Some(results))
    }

    /// Repeats the steps for the iterations whose parts are given.
    fn repeated(&self, on: &Tracer, parts: &[TracedTensor]) -> Result<Option<Vec<TracedTensor>>, TraceStop> {
        let same = self.same.iter().map(|(&value, x)| (value, Repeated { x: x.clone(), each: false }));
        let mut values: HashMap<TraceValue, Repeated> = same.collect();
        for (&value, x) in self.parts.iter().zip(parts) {
            values.insert(value, Repeated { x: x.clone(), each: true });
        }
        for step in &self.steps {
            let mut inputs: SmallVec<[Option<Repeated>; 4]> = SmallVec::new();
            for &input in &step.inputs {
                let Some(value) = input else {
                    inputs.push(None);
                    continue;
                };
                let known = values.get(&value).cloned();
                let constant = || on.constant_value(value).map(|x| Repeated { x, each: false });
                match known.or_else(constant) {
                    Some(input) => inputs.push(Some(input)),
                    None => return Ok(None),
                }
            }
            on.set_origin(step.origins.first().copied());
            let each = inputs.iter().flatten().any(|input| input.each);
            let (Operation::Row(spec), None) = (step.operation, &step.symbolic) else { return Ok(None) };
            if let (Some(Primitive::Identity), [Some(x)], [result]) =
                (step.operation.primitive(), inputs.as_slice(), step.outputs.as_slice())
            {
                values.insert(*result, x.clone());
                continue;
            }
            let Some(results) = call(on, spec, &mut inputs, &step.params)? else { return Ok(None) };
            for (&value, x) in step.outputs.iter().zip(results) {
                values.insert(value, Repeated { x, each });
            }
        }
        let collected = self.collected.iter().map(|value| values.get(value).filter(|x| x.each));
        Ok(collected.map(|x| x.map(|x| x.x.clone())).collect())
    }
}

/// Calls an operation for all iterations; `None` if there is no rule for it.
fn call(
    on: &Tracer,
    spec: &'static OpSpec,
    inputs: &mut [Option<Repeated>],
    params: &[Param<'static>],
) -> Result<Option<SmallVec<[TracedTensor; 1]>>, TraceStop> {
    let mut params = Cow::Borrowed(params);
    if inputs.iter().flatten().any(|input| input.each) {
        match spec.class {
            Class::Elementwise => {
                // Dimensions are aligned at the last one, so the iteration moves in front of the longest shape.
                let rank = inputs.iter().flatten().map(Repeated::rank).max().unwrap_or(0);
                for input in inputs.iter_mut().flatten().filter(|input| input.each && input.rank() < rank) {
                    let axes: Vec<i64> = (1..).take(rank - input.rank()).collect();
                    input.x = on.unsqueeze(&input.x, &axes)?;
                }
            }
            Class::Reduces => {
                let ([Param::Ints(axes), Param::Bool(_)], [Some(x)]) = (&*params, &*inputs) else {
                    return Ok(None);
                };
                let all: Vec<i64> = (1..).take(x.rank()).collect();
                let moved = match axes.is_empty() {
                    true => all,
                    false => axes.iter().map(|&axis| if axis < 0 { axis } else { axis + 1 }).collect(),
                };
                if moved.is_empty() {
                    return Ok(None);
                }
                if let Some(axes) = params.to_mut().first_mut() {
                    *axes = Param::Ints(moved.into());
                }
            }
            _ => return Ok(None),
        }
    }
    let inputs: SmallVec<[Option<&TracedTensor>; 4]> =
        inputs.iter().map(|x| x.as_ref().map(|x| &x.x)).collect();
    Ok(Some(crate::ext::call(on, spec, &inputs, &params).map_err(Error::from)?))
}
