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

use super::matching::{Compare, Matching};
use super::pattern::Pattern;
use super::recognized::{Call, Found, replace_by_calls};
use super::view::View;
use super::{Pass, PassOptions, rewrite_to};
use crate::ext::OpSet;
use crate::ext::PatternOperand;
use crate::ext::vendor::{self, VendorOperation, VendorPattern};
use crate::plan::engine::Engine;
use crate::plan::segment::Settings;
use crate::trace::{InputIndex, StepId, TableIndex, Trace, TraceValue, TracedTensor, Tracer, Varies};
use crate::{DataType, Error};
use bb_ir::op::{Arity, Family, Param};
use std::collections::{HashMap, HashSet};

pub(super) const PASS: Pass = Pass { name: "fuse-vendor", engines: &[Engine::Interpreter], run };

/// The last pass before this one. Traces of patterns are rewritten up to and including this pass.
const BEFORE: &str = "merge-duplicates";

/// The extent of all dimensions in the first trace of a pattern.
const EXTENT: usize = 2;

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
    let mut forms: HashMap<(usize, DataType, usize), Option<Form>> = HashMap::new();
    // Starts at the last step, so that an outer pattern is tried before the patterns that it contains.
    for (id, last) in trace.steps.iter().rev() {
        let &[result] = last.outputs.as_slice() else { continue };
        let info = trace.values.get(result)?;
        let mut best: Option<Found<Call>> = None;
        for (at, pattern) in patterns.iter().enumerate() {
            let key = (at, info.dtype, info.shape.len());
            let form = forms
                .entry(key)
                .or_insert_with(|| pattern.form(info.dtype, info.shape.len(), settings, options));
            let Some(form) = form else { continue };
            let Some(matched) = pattern.matched(view, settings, form, id, result)? else { continue };
            if best.as_ref().is_none_or(|best| best.steps.len() < matched.steps.len()) {
                best = Some(matched);
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
struct Candidate {
    operation: &'static VendorOperation,
    pattern: VendorPattern,
}

/// The first trace of a pattern, for loose matching.
struct Form {
    pattern: Pattern,
    /// For each parameter, its marker number if it is a float; otherwise `None`.
    markers: Vec<Option<f64>>,
}

impl Candidate {
    /// Traces the pattern for loose matching; `None` if the pattern does not accept operands of this type.
    fn form(
        &self,
        dtype: DataType,
        rank: usize,
        settings: &Settings,
        options: PassOptions<'_>,
    ) -> Option<Form> {
        let spec = self.operation.spec();
        let shape = vec![EXTENT; rank];
        let operands: Vec<Option<OperandType<'_>>> = spec
            .inputs
            .iter()
            .map(|(_, arity)| {
                (*arity == Arity::Tensor).then_some(OperandType { dtype, shape: &shape, varies: false })
            })
            .collect();
        let mut markers = Vec::with_capacity(spec.params.len());
        let mut params = Vec::with_capacity(spec.params.len());
        for (at, param) in spec.params.iter().enumerate() {
            let default = param.default.map(|default| default());
            let is_float = param.kind == bb_ir::op::ParamKind::Float;
            // These numbers do not occur in models by chance, and are distinct in each float type.
            let marker = is_float.then(|| f64::from(1.2109375f32 + 0.0546875 * at as f32));
            params.push(marker.map(Param::Float).or(default)?);
            markers.push(marker);
        }
        let pattern = self.traced(&operands, &params, settings, options)?;
        // A body without steps would match everywhere.
        pattern.has_steps().then_some(Form { pattern, markers })
    }

    /// Traces the pattern, and rewrites the trace with the passes that have already rewritten the model.
    fn traced(
        &self,
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
        let results = (self.pattern.traced)(&on, &inputs, params).ok()?;
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
        let spec = self.operation.spec();
        let compare = Compare::Form(&form.markers);
        let Some(loose) = Matching::new(view, &form.pattern, compare, result).first()? else {
            return Ok(None);
        };
        let bound = |found: &Matching<'_>| -> Vec<_> {
            (0..spec.inputs.len()).map(|index| found.operand(index)).collect()
        };
        let inputs = bound(&loose);
        let mut operands = Vec::with_capacity(spec.inputs.len());
        for (bound, (_, arity)) in inputs.iter().zip(spec.inputs) {
            let Some(value) = bound else {
                if *arity == Arity::Tensor {
                    return Ok(None);
                }
                operands.push(None);
                continue;
            };
            let info = view.trace.values.get(*value)?;
            let varies = (0..info.shape.len()).any(|axis| info.varying.has(axis));
            operands.push(Some(OperandType { dtype: info.dtype, shape: &info.shape, varies }));
        }
        let mut params = Vec::with_capacity(spec.params.len());
        for (slot, param) in spec.params.iter().enumerate() {
            let default = param.default.map(|default| default());
            let Some(param) = loose.number(slot).map(Param::Float).or(default) else { return Ok(None) };
            params.push(param);
        }
        if !self.accepted(view.trace, &inputs, &params)? {
            return Ok(None);
        }
        let Some(exact) = self.traced(&operands, &params, settings, view.options) else { return Ok(None) };
        let mut strict = Matching::new(view, &exact, Compare::Exact, result);
        if !strict.find(&mut |strict| Ok(bound(strict) == inputs))? {
            return Ok(None);
        }
        let mut steps = strict.steps;
        steps.sort_unstable();
        steps.dedup();
        let replacement = Call { spec, params: params.into(), inputs };
        let found = Found { replacement, steps, last, result };
        Ok(view.is_closed(&found.steps, last)?.then_some(found))
    }
}

impl Candidate {
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

/// An operand of a pattern.
struct OperandType<'a> {
    dtype: DataType,
    shape: &'a [usize],
    /// Whether its extents may differ between runs.
    varies: bool,
}
