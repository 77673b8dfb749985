//! Replaces steps that match a vendor's pattern by the vendor's operation.
//!
//! A pattern is a function. It is traced like a model, for the same backend, and rewritten by the passes before this one, like
//! the model. So a match depends neither on the names in a model, nor on the operators that are native to the backend.
//!
//! A pattern is traced twice. The first trace has operands of the element type and the rank of a step's result, with all
//! extents 2. Its float parameters are marker numbers that do not occur in models. This trace is matched loosely, to find the
//! actual operands and the actual numbers at the markers. The second trace uses these operands and numbers. The steps of the
//! model are replaced only if the second trace records the same steps, with the same parameters, constants, types and extents.
//! Steps are not replaced if their parameters differ between runs, or if the pattern queried an extent that differs between
//! runs.
//!
//! The operands of commutative operations match in either order, so there may be several candidates for the operands. They are
//! tried until the vendor's condition and the second trace agree, first those whose first operand has the shape of the result.
//!
//! Each value of a `Bool` parameter has a first trace of its own (`vendor_forms.rs`).

use super::matching::{Compare, Matching};
use super::pattern::Pattern;
use super::recognized::{Call, Found, replace_by_calls};
use super::vendor_forms::Form;
use super::view::View;
use super::{Pass, PassOptions, rewrite_to};
use crate::ext::OpSet;
use crate::ext::PatternOperand;
use crate::ext::vendor::{self, TracedBody, VendorOperation, VendorPattern};
use crate::plan::engine::Engine;
use crate::plan::segment::Settings;
use crate::trace::{InputIndex, StepId, TableIndex, Trace, TraceValue, TracedTensor, Tracer, Varies};
use crate::{DataType, Error};
use bb_ir::op::{Arity, Family, Param};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

pub(super) const PASS: Pass = Pass { name: "fuse-vendor", engines: &[Engine::Interpreter], run };

/// The last pass before this one. Traces of patterns are rewritten up to and including this pass.
const BEFORE: &str = "merge-duplicates";

/// The maximum number of orders of operands that are collected for a pattern and a result.
const MOST_ORDERS: usize = 256;

/// The maximum number of these orders that are traced, because a trace costs much more than a condition.
const MOST_TRACES: usize = 16;

fn run(trace: &mut Trace, options: PassOptions<'_>) -> Result<usize, Error> {
    let Some(settings) = options.settings else { return Ok(0) };
    let mut patterns = Vec::new();
    for (family, set) in &settings.natives {
        let Family::Vendor(domain) = family else { continue };
        let operations = vendor::family(domain).into_iter().flat_map(|family| family.operations());
        for operation in operations.filter(|operation| set.contains(operation.spec().index)) {
            patterns.extend(operation.patterns().iter().map(|&pattern| Candidate { operation, pattern }));
        }
    }
    if patterns.is_empty() {
        return Ok(0);
    }
    let uses = trace.uses()?;
    let view = View { trace, uses: &uses, options };
    let (mut found, mut taken) = (Vec::new(), HashSet::new());
    let mut forms: HashMap<(usize, DataType, usize), Vec<Form>> = HashMap::new();
    // Starts at the last step, so that an outer pattern is tried before the patterns that it contains.
    for (id, last) in trace.steps.iter().rev() {
        let &[result] = last.outputs.as_slice() else { continue };
        let info = trace.values.get(result)?;
        let mut best: Option<Found<Call>> = None;
        for (at, pattern) in patterns.iter().enumerate() {
            let key = (at, info.dtype, info.shape.len());
            let forms = match forms.entry(key) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => {
                    place.insert(pattern.forms(info.dtype, info.shape.len(), settings, options)?)
                }
            };
            for form in forms.iter() {
                let Some(matched) = pattern.matched(view, settings, form, id, result)? else { continue };
                if best.as_ref().is_none_or(|best| best.steps.len() < matched.steps.len()) {
                    best = Some(matched);
                }
            }
        }
        if let Some(best) = best.filter(|best| best.steps.iter().all(|step| !taken.contains(step))) {
            taken.extend(best.steps.iter().copied());
            found.push(best);
        }
    }
    found.reverse();
    replace_by_calls(trace, found)
}

/// A pattern of a vendor, and the operation that replaces its steps.
pub(super) struct Candidate {
    pub(super) operation: &'static VendorOperation,
    pub(super) pattern: VendorPattern,
}

/// Operands and parameters that an operation may have at a step.
#[derive(PartialEq)]
struct Binding {
    inputs: Vec<Option<TraceValue>>,
    params: Vec<Param<'static>>,
}

impl Candidate {
    /// Traces the pattern or the body, and rewrites the trace with the passes that have already rewritten the model.
    pub(super) fn traced(
        &self,
        function: TracedBody,
        operands: &[Option<OperandType<'_>>],
        params: &[Param<'_>],
        settings: &Settings,
        options: PassOptions<'_>,
    ) -> Option<Pattern> {
        let own = self.operation.spec();
        let natives = settings.natives.iter().map(|&(family, set)| {
            (family, if family == own.family { OpSet::without(set, own.index) } else { set })
        });
        let on = Tracer::new(natives.collect(), settings.value_bytes)
            .folding(settings.fold_bytes)
            .with_types(settings.types);
        let input = |(at, operand): (usize, &Option<OperandType<'_>>)| {
            operand.as_ref().map(|OperandType { dtype, shape, varies }| {
                let varies = if *varies { Varies::Everything } else { Varies::Nothing };
                on.input(InputIndex::at(at), "", *dtype, shape, &varies, None)
            })
        };
        let inputs: Vec<Option<TracedTensor>> = operands.iter().enumerate().map(input).collect();
        let inputs: Vec<Option<&TracedTensor>> = inputs.iter().map(Option::as_ref).collect();
        let results = function(&on, &inputs, params).ok()?;
        let [result] = results.as_slice() else { return None };
        let result = result.read();
        drop(results);
        let mut recorded = on.finish(vec![result]);
        if !recorded.events.is_empty() {
            return None;
        }
        rewrite_to(&mut recorded, options.of_constants(), BEFORE).ok()?;
        let &[result] = recorded.outputs.as_slice() else { return None };
        Pattern::recorded(recorded, result).ok()
    }

    /// Matches the steps that compute a result against the pattern.
    fn matched(
        &self,
        view: View<'_>,
        settings: &Settings,
        form: &Form,
        last: StepId,
        result: TraceValue,
    ) -> Result<Option<Found<Call>>, Error> {
        let mut traces = 0;
        for binding in self.bindings(view, form, result)? {
            if !self.accepted(view.trace, &binding.inputs, &binding.params)? {
                continue;
            }
            traces += 1;
            if traces > MOST_TRACES {
                break;
            }
            if let Some(steps) = self.exact(view, settings, &binding, last, result)? {
                let Binding { inputs, params } = binding;
                let replacement = Call { spec: self.operation.spec(), params: params.into(), inputs };
                return Ok(Some(Found { replacement, steps, last, result }));
            }
        }
        Ok(None)
    }

    /// Returns the operands and parameters of all loose matches. Those whose first operand has the shape of the result come
    /// first, then those whose first operand has its rank.
    fn bindings(&self, view: View<'_>, form: &Form, result: TraceValue) -> Result<Vec<Binding>, Error> {
        let spec = self.operation.spec();
        let mut all: Vec<Binding> = Vec::new();
        let mut loose = Matching::new(view, &form.pattern, Compare::Form(&form.markers), result);
        loose.find(&mut |found| {
            let inputs = bound(found, spec.inputs.len());
            let complete = inputs
                .iter()
                .zip(spec.inputs)
                .all(|(value, (_, arity))| value.is_some() || *arity != Arity::Tensor);
            let number = |(slot, param): (usize, &Option<Param<'static>>)| {
                found.number(slot).map(Param::Float).or_else(|| param.clone())
            };
            let params: Option<Vec<_>> = form.params.iter().enumerate().map(number).collect();
            let binding = params.filter(|_| complete).map(|params| Binding { inputs, params });
            if let Some(binding) = binding.filter(|binding| !all.contains(binding)) {
                all.push(binding);
            }
            Ok(all.len() == MOST_ORDERS)
        })?;
        let shape = &view.trace.values.get(result)?.shape;
        let mut keyed = Vec::with_capacity(all.len());
        for binding in all {
            let first = match binding.inputs.first().copied().flatten() {
                Some(value) => Some(&view.trace.values.get(value)?.shape),
                None => None,
            };
            let key = (first != Some(shape), first.map(|first| first.len()) != Some(shape.len()));
            keyed.push((key, binding));
        }
        // A stable sort keeps the order of the pattern among equals.
        keyed.sort_by_key(|(key, _)| *key);
        Ok(keyed.into_iter().map(|(_, binding)| binding).collect())
    }

    /// Returns the steps that the pattern records with these operands and parameters; `None` if the model has other steps, or
    /// uses their intermediate results elsewhere.
    fn exact(
        &self,
        view: View<'_>,
        settings: &Settings,
        binding: &Binding,
        last: StepId,
        result: TraceValue,
    ) -> Result<Option<Vec<StepId>>, Error> {
        let mut operands = Vec::with_capacity(binding.inputs.len());
        for value in &binding.inputs {
            operands.push(match value {
                None => None,
                Some(value) => {
                    let info = view.trace.values.get(*value)?;
                    let varies = (0..info.shape.len()).any(|axis| info.varying.has(axis));
                    Some(OperandType { dtype: info.dtype, shape: &info.shape, varies })
                }
            });
        }
        let exact = self.traced(self.pattern.traced, &operands, &binding.params, settings, view.options);
        let Some(exact) = exact else { return Ok(None) };
        let mut strict = Matching::new(view, &exact, Compare::Exact, result);
        if !strict.find(&mut |strict| Ok(bound(strict, binding.inputs.len()) == binding.inputs))? {
            return Ok(None);
        }
        let mut steps = strict.steps;
        steps.sort_unstable();
        steps.dedup();
        Ok(view.is_closed(&steps, last)?.then_some(steps))
    }

    /// Returns whether the vendor's own conditions accept the operands and parameters.
    fn accepted(
        &self,
        trace: &Trace,
        operands: &[Option<TraceValue>],
        params: &[Param<'_>],
    ) -> Result<bool, Error> {
        let mut described = Vec::with_capacity(operands.len());
        for operand in operands {
            described.push(match operand {
                None => None,
                Some(value) => {
                    let info = trace.values.get(*value)?;
                    let extent = |(axis, &extent)| (!info.varying.has(axis)).then_some(extent);
                    let extents = info.shape.iter().enumerate().map(extent).collect();
                    Some(PatternOperand { dtype: info.dtype, extents })
                }
            });
        }
        Ok(self.pattern.accepts.iter().all(|accepts| accepts(&described, params)))
    }
}

/// Returns the values that the operands match.
fn bound(found: &Matching<'_>, operands: usize) -> Vec<Option<TraceValue>> {
    (0..operands).map(|index| found.operand(index)).collect()
}

/// An operand of a pattern.
pub(super) struct OperandType<'a> {
    pub(super) dtype: DataType,
    pub(super) shape: &'a [usize],
    /// Whether its extents may differ between runs.
    pub(super) varies: bool,
}
