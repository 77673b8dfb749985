//! Replaces steps that match a vendor's pattern by the vendor's operation.
//!
//! A pattern is a function. It is traced like a model, for the same backend, and the passes before this one rewrite both. So a
//! match depends neither on the names in a model, nor on the operators that the backend has natively.
//!
//! It is traced twice. The first trace has operands of the element type and the rank of a step's result, with all extents 2.
//! Its float parameters are marker numbers that no model has. This trace is matched loosely, to find the operands and the
//! numbers that the model has in their places. The second trace has these operands and numbers. The steps of the model are
//! replaced only if the second trace records the same steps, with the same parameters, constants, types and extents. Steps are
//! not replaced if their parameters differ between runs, or if the pattern queried an extent that does.

use super::quantised::{data, insert, step};
use super::recognized::{is_closed, origins, replace};
use super::{Pass, PassOptions, rewrite_to};
use crate::ext::OpSet;
use crate::ext::PatternOperand;
use crate::ext::vendor::{self, VendorOperation, VendorPattern};
use crate::plan::program::Engine;
use crate::plan::segment::Settings;
use crate::trace::{
    InputIndex, NewValue, Operation, Phase, Step, StepId, Table, TableIndex, Trace, TraceValue, TracedTensor,
    Tracer, Uses, ValueSource, Varies,
};
use crate::{DataType, Error, Primitive, TensorData};
use bb_ir::convert::{Rounding, cast};
use bb_ir::op::{Arity, Family, OpSpec, Param};
use std::collections::{HashMap, HashSet};

pub(super) const PASS: Pass = Pass { name: "fuse-vendor", engines: &[Engine::Interpreter], run };

/// The last pass before this one. Traces of patterns are rewritten up to it.
const BEFORE: &str = "merge-duplicates";

/// The extent of all operands when a pattern is traced for its form.
const EXTENT: usize = 2;

fn run(trace: &mut Trace, options: PassOptions<'_>) -> Result<usize, Error> {
    let Some(settings) = options.settings else { return Ok(0) };
    let mut patterns = Vec::new();
    for (family, set) in &settings.natives {
        let Family::Vendor(domain) = family else { continue };
        let operations = vendor::family(domain).into_iter().flat_map(|family| family.operations());
        for operation in operations.filter(|operation| set.contains(operation.spec().index)) {
            patterns.extend(operation.patterns().iter().map(|&pattern| Pattern { operation, pattern }));
        }
    }
    if patterns.is_empty() {
        return Ok(0);
    }
    let uses = trace.uses()?;
    let (mut found, mut taken) = (Vec::new(), HashSet::new());
    let mut forms: HashMap<(usize, DataType, usize), Option<PatternTrace>> = HashMap::new();
    // Starts at the last step, so that an outer pattern is tried before the patterns that it contains.
    for (id, last) in trace.steps.iter().collect::<Vec<_>>().into_iter().rev() {
        let &[result] = last.outputs.as_slice() else { continue };
        let info = trace.values.get(result)?;
        let mut best: Option<Match> = None;
        for (at, pattern) in patterns.iter().enumerate() {
            let key = (at, info.dtype, info.shape.len());
            let form = forms
                .entry(key)
                .or_insert_with(|| pattern.form(info.dtype, info.shape.len(), settings, options));
            let Some(form) = form else { continue };
            let Some(matched) = pattern.matched(trace, &uses, options, settings, form, id, result)? else {
                continue;
            };
            if best.as_ref().is_none_or(|best| best.steps.len() < matched.steps.len()) {
                best = Some(matched);
            }
        }
        if let Some(best) = best.filter(|best| best.steps.iter().all(|step| !taken.contains(step))) {
            taken.extend(best.steps.iter().copied());
            found.push(best);
        }
    }
    let mut count = 0;
    let mut edit = trace.edit();
    for Match { spec, operands, params, steps, last, result } in found {
        count += steps.len();
        let new = step(spec, params.into(), operands, origins(edit.trace(), &steps)?);
        let like = NewValue::like(edit.trace().values.get(result)?);
        let made = insert(&mut edit, last, new, like)?;
        replace(&mut edit, result, made, &steps)?;
    }
    edit.finish()?;
    Ok(count)
}

/// A pattern, and the operation that replaces its steps.
struct Pattern {
    operation: &'static VendorOperation,
    pattern: VendorPattern,
}

/// The recorded trace of a pattern.
struct PatternTrace {
    recorded: Trace,
    result: TraceValue,
    /// For each float parameter, its marker number; `None` for other parameters.
    markers: Vec<Option<f64>>,
}

/// Steps that an operation replaces.
struct Match {
    spec: &'static OpSpec,
    operands: Vec<Option<TraceValue>>,
    params: Vec<Param<'static>>,
    /// In order.
    steps: Vec<StepId>,
    last: StepId,
    result: TraceValue,
}

impl Pattern {
    /// Traces the pattern for its form; `None` if the pattern does not accept operands of the type.
    fn form(
        &self,
        dtype: DataType,
        rank: usize,
        settings: &Settings,
        options: PassOptions<'_>,
    ) -> Option<PatternTrace> {
        let spec = self.operation.spec();
        let shape = vec![EXTENT; rank];
        let operands: Vec<Option<OperandType<'_>>> = spec
            .inputs
            .iter()
            .map(|(_, arity)| (*arity == Arity::Tensor).then_some(OperandType { dtype, shape: &shape, varies: false }))
            .collect();
        let mut markers = Vec::with_capacity(spec.params.len());
        let mut params = Vec::with_capacity(spec.params.len());
        for (at, param) in spec.params.iter().enumerate() {
            let default = param.default.map(|default| default());
            let is_float = param.kind == bb_ir::op::ParamKind::Float;
            // No model has these numbers by chance, and they are distinct in each float type.
            let marker = is_float.then(|| f64::from(1.2109375f32 + 0.0546875 * at as f32));
            params.push(marker.map(Param::Float).or(default)?);
            markers.push(marker);
        }
        let (recorded, result) = self.traced(&operands, &params, settings, options)?;
        // A body without steps would match everywhere.
        let has_steps = matches!(recorded.values.get(result).ok()?.source, ValueSource::Step);
        has_steps.then_some(PatternTrace { recorded, result, markers })
    }

    /// Traces the pattern, and rewrites the trace with the passes that have rewritten the model.
    fn traced(
        &self,
        operands: &[Option<OperandType<'_>>],
        params: &[Param<'_>],
        settings: &Settings,
        options: PassOptions<'_>,
    ) -> Option<(Trace, TraceValue)> {
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
        Some((recorded, result))
    }

    /// Matches the steps that make a result against the pattern.
    #[expect(clippy::too_many_arguments, reason = "what the comparison looks at")]
    fn matched(
        &self,
        trace: &Trace,
        uses: &Uses,
        options: PassOptions<'_>,
        settings: &Settings,
        form: &PatternTrace,
        last: StepId,
        result: TraceValue,
    ) -> Result<Option<Match>, Error> {
        let spec = self.operation.spec();
        let mut loose = PatternMatch::new(trace, uses, options, &form.recorded, spec, Some(&form.markers))?;
        if !loose.value(form.result, result)? {
            return Ok(None);
        }
        let mut operands = Vec::with_capacity(spec.inputs.len());
        for (bound, (_, arity)) in loose.operands.iter().zip(spec.inputs) {
            let Some(value) = bound else {
                if *arity == Arity::Tensor {
                    return Ok(None);
                }
                operands.push(None);
                continue;
            };
            let info = trace.values.get(*value)?;
            let varies = (0..info.shape.len()).any(|axis| info.varying.has(axis));
            operands.push(Some(OperandType { dtype: info.dtype, shape: &info.shape, varies }));
        }
        let mut params = Vec::with_capacity(spec.params.len());
        for ((param, marker), number) in spec.params.iter().zip(&form.markers).zip(&loose.numbers) {
            let default = param.default.map(|default| default());
            params.push(match (marker, number, default) {
                (Some(_), Some(number), _) => Param::Float(*number),
                (_, _, Some(default)) => default,
                (_, _, None) => return Ok(None),
            });
        }
        if !self.accepted(trace, &loose.operands, &params)? {
            return Ok(None);
        }
        let Some((exact, made)) = self.traced(&operands, &params, settings, options) else { return Ok(None) };
        let mut strict = PatternMatch::new(trace, uses, options, &exact, spec, None)?;
        if !strict.value(made, result)? || strict.operands != loose.operands {
            return Ok(None);
        }
        let mut steps = strict.steps;
        steps.sort_unstable();
        steps.dedup();
        if !is_closed(trace, uses, &steps, last)? {
            return Ok(None);
        }
        Ok(Some(Match { spec, operands: strict.operands, params, steps, last, result }))
    }
}

impl Pattern {
    /// Returns whether the author's conditions accept the operands and parameters.
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

/// The state of a comparison between a pattern and a trace.
#[derive(Clone)]
struct PatternMatch<'t> {
    trace: &'t Trace,
    uses: &'t Uses,
    options: PassOptions<'t>,
    form: &'t Trace,
    /// For each value of the pattern, the step that makes it.
    makers: Table<TraceValue, Option<StepId>>,
    /// The marker numbers of parameters; if `None`, everything is compared exactly.
    markers: Option<&'t [Option<f64>]>,
    /// For each value of the pattern, the matching value of the trace.
    values: Table<TraceValue, Option<TraceValue>>,
    operands: Vec<Option<TraceValue>>,
    numbers: Vec<Option<f64>>,
    steps: Vec<StepId>,
}

impl<'t> PatternMatch<'t> {
    fn new(
        trace: &'t Trace,
        uses: &'t Uses,
        options: PassOptions<'t>,
        form: &'t Trace,
        spec: &OpSpec,
        markers: Option<&'t [Option<f64>]>,
    ) -> Result<PatternMatch<'t>, Error> {
        let mut makers = Table::with(form.values.len(), || None);
        for (id, step) in form.steps.iter() {
            for &value in &step.outputs {
                makers.set(value, Some(id))?;
            }
        }
        Ok(PatternMatch {
            trace,
            uses,
            options,
            form,
            makers,
            markers,
            values: Table::with(form.values.len(), || None),
            operands: vec![None; spec.inputs.len()],
            numbers: vec![None; spec.params.len()],
            steps: Vec::new(),
        })
    }

    /// Compares a value of the pattern with one of the trace.
    fn value(&mut self, own: TraceValue, other: TraceValue) -> Result<bool, Error> {
        if let Some(before) = *self.values.get(own)? {
            return Ok(before == other);
        }
        let (own_info, other_info) = (self.form.values.get(own)?, self.trace.values.get(other)?);
        if self.markers.is_none() && own_info.dtype != other_info.dtype {
            return Ok(false);
        }
        let same = match own_info.source {
            ValueSource::Input(index) => match self.operands.get_mut(index.position()) {
                Some(bound) => {
                    let free = bound.is_none_or(|bound| bound == other);
                    *bound = Some(other);
                    free
                }
                None => false,
            },
            ValueSource::Constant(index) => {
                let constant = self.form.constants.get(index)?;
                match data(self.trace, self.options, other)? {
                    Some(found) => self.constant(constant, found)?,
                    None => false,
                }
            }
            ValueSource::Weight(_) => false,
            ValueSource::Step => {
                let (Some(own_step), Some(other_step)) = (*self.makers.get(own)?, self.uses.maker(other)?)
                else {
                    return Ok(false);
                };
                // The result of a step has the extents that the pattern gives it.
                if self.markers.is_none() && own_info.shape != other_info.shape {
                    return Ok(false);
                }
                let (form, trace) = (self.form, self.trace);
                let (own_step, step) = (form.steps.get(own_step)?, trace.steps.get(other_step)?);
                let position = |step: &Step, value| step.outputs.iter().position(|v| *v == value);
                position(own_step, own) == position(step, other) && self.step(own_step, other_step, step)?
            }
        };
        if same {
            self.values.set(own, Some(other))?;
        }
        Ok(same)
    }

    /// Compares constants by type, shape and elements. The ranks of two single elements may differ. A marker matches any float,
    /// and binds it to the parameter.
    fn constant(&mut self, own: &TensorData, other: &TensorData) -> Result<bool, Error> {
        if own.len() != 1 || other.len() != 1 {
            return Ok(own.dtype() == other.dtype() && own.shape() == other.shape() && own.bytes()? == other.bytes()?);
        }
        if own.dtype() == other.dtype() && own.bytes()? == other.bytes()? {
            return Ok(true);
        }
        let Some(markers) = self.markers else { return Ok(false) };
        for (marker, number) in markers.iter().zip(&mut self.numbers) {
            let Some(marker) = marker else { continue };
            let stands = TensorData::new(&[], &[*marker])?;
            let Ok(stands) = cast(&stands, own.dtype(), Rounding::default()) else { continue };
            if stands.bytes()? != own.bytes()? {
                continue;
            }
            let Some(found) = float(other) else { return Ok(false) };
            let agrees = number.is_none_or(|before| before.to_bits() == found.to_bits());
            *number = Some(found);
            return Ok(agrees);
        }
        Ok(false)
    }

    /// Compares steps and their operands.
    fn step(&mut self, own: &Step, id: StepId, other: &Step) -> Result<bool, Error> {
        let (Operation::Row(own_spec), Operation::Row(spec)) = (own.operation, other.operation) else {
            return Ok(false);
        };
        let alike = own_spec == spec
            && own.inputs.len() == other.inputs.len()
            && other.phase == Phase::EachRun
            && own.symbolic.is_none()
            && other.symbolic.is_none()
            && (self.markers.is_some() || own.params == other.params);
        if !alike {
            return Ok(false);
        }
        let before = self.clone();
        let straight = own.inputs.iter().copied().zip(other.inputs.iter().copied());
        let mut same = self.inputs(straight)?;
        if !same && is_commutative(spec) {
            *self = before;
            let crossed = own.inputs.iter().copied().zip(other.inputs.iter().rev().copied());
            same = self.inputs(crossed)?;
        }
        self.steps.push(id);
        Ok(same)
    }

    fn inputs(
        &mut self,
        pairs: impl Iterator<Item = (Option<TraceValue>, Option<TraceValue>)>,
    ) -> Result<bool, Error> {
        for pair in pairs {
            let same = match pair {
                (None, None) => true,
                (Some(own), Some(other)) => self.value(own, other)?,
                (None, Some(_)) | (Some(_), None) => false,
            };
            if !same {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Returns the only element of a tensor of floats.
fn float(x: &TensorData) -> Option<f64> {
    let wide = x.dtype().is_float().then(|| cast(x, DataType::F64, Rounding::default()).ok())??;
    wide.as_slice::<f64>().ok()?.first().copied()
}

/// Returns whether an operation of two operands gives the same bits for either order.
fn is_commutative(spec: &OpSpec) -> bool {
    use crate::ext::ScalarOp;
    let primitives = [Primitive::Add, Primitive::Mul, Primitive::Equal].map(Primitive::spec);
    let scalars = [ScalarOp::And, ScalarOp::Or, ScalarOp::Xor].map(ScalarOp::spec);
    primitives.into_iter().chain(scalars).any(|own| own == spec)
}
