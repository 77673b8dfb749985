//! The backend that records operations instead of computing them.

use super::elements::{evaluate, is_small};
use super::elementwise::ElementwiseTypes;
use super::extents;
use super::keep::{Kept, Policy};
use super::log::{Log, Place, When};
use super::params::{Recipe, SymbolicParam, SymbolicParams, SymbolicValue, split};
use super::steps::{
    InputIndex, Operation, OriginId, Phase, Step, StepOrigins, Trace, TraceValue, TraceValueInfo,
    ValueSource, WeightId,
};
use super::stop::{NeededValue, TraceStop};
use super::traced::{Follow, TracedElements, TracedTensor, Type};
use super::{Extent, Extents, HostKernel};
use crate::contract::OpSet;
use crate::contract::{check_value, too_large};
use crate::family::QuantOp;
use crate::{Backend, Error, Outputs, Tensor};
use bb_ir::graph::Dim;
use bb_ir::infer::{self, RuleParam};
use bb_ir::op::{Family, OpSpec, Param, Primitive};
use bb_ir::{DataType, DataTypes, Shape, TensorData};
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The state of tracing: the recorded steps and some counters.
#[derive(Debug, Default)]
struct TracerState {
    recorded: Trace,
    /// The origin of the steps that are recorded next.
    origin: Option<OriginId>,
    /// The number of nested bodies of native operations that are being traced only for the types of their results.
    bodies: usize,
    /// The bytes of the constants that the host computed while tracing.
    folded: usize,
    elementwise: ElementwiseTypes,
}

/// A backend that records the operations that are called on it.
///
/// During tracing, extents are known as numbers and as expressions of the inputs' extents. Elements are known only if
/// they are constant or depend only on extents. An operation of an extension family is recorded as one step if it is
/// declared native; otherwise the primitives of its body are recorded.
#[derive(Debug)]
pub struct Tracer {
    state: Mutex<TracerState>,
    pub(crate) log: Arc<Log>,
    recording: Recording,
    /// Whether parameters may be expressions. If not, extents are numbers.
    pub(crate) symbolic: bool,
    /// The maximum size of one value in bytes.
    limit: usize,
    /// The maximum total size in bytes of the constants that the host computes while tracing.
    fold_bytes: usize,
    /// The element types of the backend that the trace is for.
    types: DataTypes,
}

/// The maximum number of elements of a dequantized constant that functions may read while tracing. For example,
/// `Resize` reads its scales.
const READ: usize = 16;

/// The operations of extension families that are recorded as one step instead of their bodies.
#[derive(Debug)]
enum Recording {
    /// The operations that a backend has kernels for.
    Natives(Vec<(Family, OpSet)>),
    /// The operations that ONNX has an operator for, according to an export's policy.
    Kept(Policy),
}

/// The state of the trace before the body of a native operation, to return to after tracing the body for its results'
/// types.
#[derive(Debug)]
pub(crate) struct Mark<'t> {
    tracer: &'t Tracer,
    steps: usize,
    values: usize,
    constants: usize,
    events: usize,
}

impl Drop for Mark<'_> {
    /// Marks the end of the body, also if tracing it failed.
    fn drop(&mut self) {
        self.tracer.lock().bodies -= 1;
    }
}

/// The extents of an input that may differ in other runs.
#[derive(Debug, Clone, Default)]
pub enum Varies {
    /// No extent varies.
    #[default]
    Nothing,
    /// All extents vary.
    Everything,
    /// The dimensions that are not declared as numbers vary. Equal names mean equal extents.
    Declared(Vec<Dim>),
}

impl Default for Tracer {
    fn default() -> Self {
        Tracer::new(Vec::new(), bb_ir::Limits::default().value_bytes)
    }
}

impl Tracer {
    /// Creates a tracer that records the operations in `natives` as single steps, and all other operations as
    /// primitives.
    ///
    /// Units: `limit` is the maximum number of bytes of one value.
    pub(crate) fn new(natives: Vec<(Family, OpSet)>, limit: usize) -> Tracer {
        Tracer::recording(Recording::Natives(natives), limit)
    }

    /// Creates a tracer for an export, which records the kept operations as ONNX operators.
    pub(crate) fn of_export(policy: Policy) -> Tracer {
        Tracer::recording(Recording::Kept(policy), bb_ir::Limits::default().value_bytes)
    }

    fn recording(recording: Recording, limit: usize) -> Tracer {
        let fold_bytes = bb_ir::Limits::default().fold_bytes;
        Tracer {
            state: Mutex::default(),
            log: Arc::default(),
            recording,
            symbolic: false,
            limit,
            fold_bytes,
            types: DataTypes::ALL,
        }
    }

    /// Limits the total size in bytes of the constants that the host computes while tracing.
    pub(crate) fn folding(mut self, fold_bytes: usize) -> Tracer {
        self.fold_bytes = fold_bytes;
        self
    }

    /// Sets whether parameters may be expressions, which each run of the trace evaluates.
    pub(crate) fn symbolic(mut self, symbolic: bool) -> Tracer {
        self.symbolic = symbolic;
        self
    }

    /// Sets whether conditions on extents become conditions of the trace immediately. If they do, all extents are known
    /// without conditions.
    pub(crate) fn strict(self, strict: bool) -> Tracer {
        self.log.set_strict(strict);
        self
    }

    /// Returns whether extents of inputs differ although they have the same name in the model.
    pub(crate) fn contradicts_names(&self) -> bool {
        self.log.contradicts_names()
    }

    /// Sets the element types of the backend that the trace is for.
    pub(crate) fn with_types(mut self, types: DataTypes) -> Tracer {
        self.types = types;
        self
    }

    fn lock(&self) -> MutexGuard<'_, TracerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an input with the caller's `name`. `varies` specifies the extents that may differ in other runs.
    pub(crate) fn input(
        &self,
        index: InputIndex,
        name: &str,
        dtype: DataType,
        shape: &[usize],
        varies: &Varies,
        known: Option<TensorData>,
    ) -> TracedTensor {
        let extent = |(axis, &number): (usize, &usize)| {
            let (varies, shared) = match varies {
                Varies::Nothing => (false, None),
                Varies::Declared(dims) if dims.len() == shape.len() => match dims.get(axis) {
                    Some(Dim::Known(_)) => (false, None),
                    Some(Dim::Symbol(name)) => (true, Some(name.as_str())),
                    _ => (true, None),
                },
                Varies::Declared(_) | Varies::Everything => (true, None),
            };
            // A plan for known elements is valid only for their extents.
            if !varies || known.is_some() {
                return Extent::from(number);
            }
            let place = Place { input: index, axis: axis as u32 };
            match self.log.symbol(place, number, shared, &format!("{name}.{axis}")) {
                Some(expr) => Extent::symbolic(number as i64, expr, When::ALWAYS, &self.log),
                None => Extent::from(number),
            }
        };
        let extents: Extents = shape.iter().enumerate().map(extent).collect();
        let ty = Type::varying(dtype, Shape::from_slice(shape), extents);
        self.register(
            ValueSource::Input(index),
            ty,
            known.map_or(TracedElements::Unknown, TracedElements::Constant),
        )
    }

    /// Adds a weight that the caller stores.
    pub(crate) fn weight(&self, id: WeightId, value: &TensorData) -> TracedTensor {
        let ty = Type::fixed(value.dtype(), value.shape());
        self.register(ValueSource::Weight(id), ty, TracedElements::Constant(value.clone()))
    }

    /// Adds an existing constant of any size.
    pub(crate) fn known(&self, value: &TensorData) -> TracedTensor {
        self.push_constant(&mut self.lock().recorded, value.clone())
    }

    fn register(&self, source: ValueSource, ty: Type, elements: TracedElements) -> TracedTensor {
        self.push(&mut self.lock().recorded, source, ty, elements)
    }

    fn push(
        &self,
        recorded: &mut Trace,
        source: ValueSource,
        ty: Type,
        elements: TracedElements,
    ) -> TracedTensor {
        self.push_if(recorded, source, ty, elements, When::ALWAYS)
    }

    /// Adds a value that is valid only under conditions.
    fn push_if(
        &self,
        recorded: &mut Trace,
        source: ValueSource,
        ty: Type,
        elements: TracedElements,
        requires: When,
    ) -> TracedTensor {
        let count = ty.element_count();
        let (dtype, shape, varying) = (ty.dtype, ty.shape.clone(), ty.varies());
        let info = TraceValueInfo { source, dtype, shape, elements: count, varying };
        let value = recorded.values.push(info);
        TracedTensor::new(value, ty, elements, requires, self.log.clone())
    }

    fn push_constant(&self, recorded: &mut Trace, value: TensorData) -> TracedTensor {
        self.push_constant_if(recorded, value.clone(), TracedElements::Constant(value), When::ALWAYS)
    }

    fn push_constant_if(
        &self,
        recorded: &mut Trace,
        value: TensorData,
        elements: TracedElements,
        requires: When,
    ) -> TracedTensor {
        let ty = Type::fixed(value.dtype(), value.shape());
        let index = recorded.constants.push(value);
        self.push_if(recorded, ValueSource::Constant(index), ty, elements, requires)
    }

    /// Adds a tensor of integers that runs compute from extents.
    pub(crate) fn push_recipe(
        &self,
        ty: Type,
        data: TensorData,
        recipe: Recipe,
        follow: Follow,
        requires: When,
    ) -> TracedTensor {
        let mut state = self.lock();
        let param = SymbolicParam { param: 0, value: SymbolicValue::Data(ty.dtype, recipe) };
        let elements = if is_small(&ty.shape) {
            TracedElements::OfExtents(data.clone(), follow)
        } else {
            TracedElements::Unknown
        };
        let result = self.push_if(&mut state.recorded, ValueSource::Step, ty, elements, requires);
        let step = Step {
            operation: Operation::Row(Primitive::Constant.spec()),
            params: Box::new([Param::Data(std::borrow::Cow::Owned(data))]),
            symbolic: Some(Box::new(SymbolicParams(vec![param]))),
            inputs: SmallVec::new(),
            outputs: SmallVec::from_elem(result.value(), 1),
            origins: state.origin.into_iter().collect(),
            phase: Phase::EachRun,
        };
        state.recorded.steps.push(step);
        result
    }

    /// Adds a tensor of integers whose elements are extents.
    pub(crate) fn push_each(&self, data: TensorData, each: Arc<[Extent]>) -> TracedTensor {
        if each.iter().all(Extent::is_fixed) {
            return self.push_constant(&mut self.lock().recorded, data);
        }
        let requires = each.iter().fold(When::ALWAYS, |all, extent| all.and(&extent.when()));
        let exprs: Vec<_> = each.iter().map(Extent::expr).collect();
        if exprs.iter().all(|expr| expr.constant().is_some()) {
            let elements = TracedElements::OfExtents(data.clone(), Follow::Each(each));
            return self.push_constant_if(&mut self.lock().recorded, data, elements, requires);
        }
        let recipe = Recipe::Elements(Shape::from_slice(data.shape()), exprs);
        let ty = Type::fixed(data.dtype(), data.shape());
        self.push_recipe(ty, data, recipe, Follow::Each(each), requires)
    }

    /// Returns whether an operation of a family is recorded as one step.
    pub(crate) fn keeps(
        &self,
        spec: &OpSpec,
        inputs: &[Option<&TracedTensor>],
        params: &[Param<'_>],
    ) -> Kept {
        match &self.recording {
            Recording::Natives(natives) => {
                let native =
                    |(family, set): &(Family, OpSet)| *family == spec.family && set.contains(spec.index);
                if natives.iter().any(native) { Kept::Always } else { Kept::Never }
            }
            Recording::Kept(policy) => {
                // Only ranks are read, not extents, so this check does not tie the trace to extents.
                let operands: SmallVec<[_; 4]> =
                    inputs.iter().map(|x| x.map(|x| (x.dtype(), x.rank()))).collect();
                policy.keeps(spec, &operands, params)
            }
        }
    }

    /// Begins tracing the body of a native operation for the types of its results. Returns the point to return to.
    pub(crate) fn enter_native(&self) -> Mark<'_> {
        let mut state = self.lock();
        state.bodies += 1;
        Mark {
            tracer: self,
            steps: state.recorded.steps.len(),
            values: state.recorded.values.len(),
            constants: state.recorded.constants.len(),
            events: self.log.len(),
        }
    }

    /// Returns whether the body of a native operation is being traced only for the types of its results.
    ///
    /// If the operation may be replaced by its body, the body is needed.
    pub(crate) fn in_body(&self) -> bool {
        self.lock().bodies > 0 && matches!(self.recording, Recording::Natives(_))
    }

    /// Returns the element type of the result of an element-wise operation, if a call like it was traced.
    pub(crate) fn elementwise_type(
        &self,
        spec: &'static OpSpec,
        inputs: &[Option<&TracedTensor>],
        params: &[Param<'_>],
    ) -> Option<DataType> {
        self.lock().elementwise.find(spec, inputs, params)
    }

    /// Stores the element type of the result of an element-wise operation for later calls like it.
    pub(crate) fn add_elementwise_type(
        &self,
        spec: &'static OpSpec,
        inputs: &[Option<&TracedTensor>],
        params: &[Param<'_>],
        result: DataType,
    ) {
        self.lock().elementwise.add(spec, inputs, params, result);
    }

    /// Adds a placeholder value of a type. No step computes it.
    pub(crate) fn stand_in(&self, dtype: DataType, extents: &[Extent]) -> TracedTensor {
        let present = |extent: &Extent| usize::try_from(extent.present()).unwrap_or(0);
        let shape: Shape = extents.iter().map(present).collect();
        let requires = extents.iter().fold(When::ALWAYS, |all, extent| all.and(&extent.when()));
        let ty = Type::varying(dtype, shape, extents.iter().cloned().collect());
        self.push_if(&mut self.lock().recorded, ValueSource::Step, ty, TracedElements::Unknown, requires)
    }

    /// Replaces the traced body of a native operation by one step. `body` are the results of the body.
    ///
    /// If the operation is kept only to avoid host kernels and its body needs none, the body stays.
    ///
    /// # Errors
    ///
    /// [`bb_ir::Error::TooLarge`] for a result that exceeds the limit on the bytes of one value. Intermediate results
    /// of the body may exceed it, because the backend does not run the body.
    pub(crate) fn record_native(
        &self,
        mark: Mark<'_>,
        kept: Kept,
        spec: &'static OpSpec,
        inputs: &[Option<&TracedTensor>],
        params: &[Param<'_>],
        body: Outputs<TracedTensor>,
    ) -> Result<Outputs<TracedTensor>, Error> {
        self.record_symbolic(mark, kept, spec, inputs, params, None, body)
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one step")]
    fn record_symbolic(
        &self,
        mark: Mark<'_>,
        kept: Kept,
        spec: &'static OpSpec,
        inputs: &[Option<&TracedTensor>],
        params: &[Param<'_>],
        symbolic: Option<Box<SymbolicParams>>,
        body: Outputs<TracedTensor>,
    ) -> Result<Outputs<TracedTensor>, Error> {
        let mut state = self.lock();
        // A native operation inside the body of another one does not run, so its results are not limited.
        if state.bodies == 1 {
            body.iter().try_for_each(|x| self.bound_one(x.dtype(), x.present()))?;
        }
        let recorded = &mut state.recorded;
        // If all elements of the results are known, the body was folded, so no operation has to be called.
        let folded = |x: &TracedTensor| {
            matches!(
                x.elements(),
                TracedElements::Constant(_) | TracedElements::OfExtents(_, Follow::Each(_))
            )
        };
        // Passes search for the integers that dequantized weights come from. So the dequantization step stays, and its
        // results are not used to compute other constants.
        let dequantises = spec.family == Family::Quant && spec.index == QuantOp::DequantizeLinear as u16;
        let stays = dequantises && matches!(self.recording, Recording::Natives(_));
        if !body.is_empty() && !stays && body.iter().all(folded) {
            return Ok(body);
        }
        let mut since = recorded.steps.entries().skip(mark.steps);
        if kept == Kept::ForHost && !since.any(|step| matches!(step.operation, Operation::Host(_))) {
            return Ok(body);
        }
        recorded.steps.truncate(mark.steps);
        recorded.values.truncate(mark.values);
        recorded.constants.truncate(mark.constants);
        // The native operation accepts any extents. So the conditions of the body apply only to the known facts about
        // the results.
        let when = When::since(&self.log, mark.events);
        self.log.truncate(mark.events);
        let results: Outputs<TracedTensor> = body
            .into_iter()
            .map(|x| {
                let (ty, elements) = (x.ty().under(&when, &self.log), x.elements().under(&when, &self.log));
                // A constant result of a recorded step is not used to compute other constants. Only a small dequantized
                // constant is.
                let elements = match elements {
                    TracedElements::Constant(ref data) if !stays || data.len() > READ => {
                        TracedElements::Unknown
                    }
                    elements => elements,
                };
                self.push(recorded, ValueSource::Step, ty, elements)
            })
            .collect();
        let step = Step { symbolic, ..step(Operation::Row(spec), inputs, params, &results, state.origin) };
        state.recorded.steps.push(step);
        Ok(results)
    }

    /// Records an operation of a family as one step if the trace keeps the operation, otherwise records its body. The
    /// parameters may be expressions.
    pub(crate) fn call_with(
        &self,
        spec: &'static OpSpec,
        inputs: &[Option<&TracedTensor>],
        params: &[RuleParam<'_, Extent>],
        body: impl FnOnce() -> Result<TracedTensor, TraceStop>,
    ) -> Result<TracedTensor, TraceStop> {
        let (numbers, symbolic) = split(params)?;
        let kept = self.keeps(spec, inputs, &numbers);
        if kept == Kept::Never {
            return body();
        }
        let mark = self.enter_native();
        let body: Outputs<TracedTensor> = [body()?].into_iter().collect();
        let symbolic = symbolic.map(Box::new);
        let results = self.record_symbolic(mark, kept, spec, inputs, &numbers, symbolic, body)?;
        crate::call::unwrap_output!(Tensor, spec.method, results)
    }

    /// Returns a bit mask of the inputs whose extents the trace depends on.
    pub(crate) fn consulted(&self) -> u64 {
        self.log.consulted()
    }

    /// Returns the number of steps so far.
    pub(crate) fn steps(&self) -> usize {
        self.lock().recorded.steps.len()
    }

    /// Removes all steps from the index `from` on. Values keep their indices.
    pub(crate) fn forget(&self, from: usize) {
        self.lock().recorded.steps.truncate(from);
    }

    /// Removes all steps from the index `from` on, and returns them with the size in bytes of their largest result.
    pub(crate) fn take_steps(&self, from: usize) -> Result<(Vec<Step>, usize), Error> {
        let recorded = &mut self.lock().recorded;
        let steps = recorded.steps.split_off(from);
        let mut most = 0;
        for value in steps.iter().flat_map(|step| &step.outputs) {
            most = most.max(recorded.values.get(*value)?.bytes());
        }
        Ok((steps, most))
    }

    /// Returns a constant or a weight of the trace; `None` for a value that a step computes or that is an input.
    pub(crate) fn constant_value(&self, value: TraceValue) -> Option<TracedTensor> {
        let state = self.lock();
        let info = state.recorded.values.get(value).ok().filter(|info| info.source.is_constant())?;
        let ty = Type::fixed(info.dtype, &info.shape);
        Some(TracedTensor::new(value, ty, TracedElements::Unknown, When::ALWAYS, self.log.clone()))
    }

    /// Returns the origin of the steps that are recorded next.
    pub(crate) fn origin(&self) -> Option<OriginId> {
        self.lock().origin
    }

    /// Sets the origin of the steps that are recorded next.
    pub(crate) fn set_origin(&self, origin: Option<OriginId>) {
        self.lock().origin = origin;
    }

    /// Ends tracing and returns the trace, with these values as its outputs.
    pub(crate) fn finish(self, outputs: Vec<TraceValue>) -> Trace {
        let recorded = self.state.into_inner().unwrap_or_else(PoisonError::into_inner).recorded;
        let (symbols, events) = self.log.take();
        Trace { outputs, symbols, events, ..recorded }
    }

    /// Returns the maximum number of bytes of one value.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the number of dependencies (tied symbols and guards) that the trace has so far.
    pub(crate) fn events(&self) -> usize {
        self.log.len()
    }

    /// Infers, evaluates or records one primitive.
    fn apply(
        &self,
        op: Primitive,
        inputs: &[&TracedTensor],
        params: &[Param<'_>],
    ) -> Result<Outputs<TracedTensor>, Error> {
        let given: SmallVec<[RuleParam<'_, Extent>; 4]> = params.iter().map(RuleParam::Fixed).collect();
        self.apply_with(op, inputs, &given)
    }

    /// Infers, evaluates or records one primitive whose parameters may be expressions.
    pub(crate) fn apply_with(
        &self,
        op: Primitive,
        inputs: &[&TracedTensor],
        given: &[RuleParam<'_, Extent>],
    ) -> Result<Outputs<TracedTensor>, Error> {
        let (params, symbolic) = split(given)?;
        let types: SmallVec<[(DataType, &[usize]); 4]> =
            inputs.iter().map(|x| (x.dtype(), x.present().as_slice())).collect();
        let results = infer::primitive(op, &types, &params)?;
        self.bound(&results)?;
        let types = extents::results(op, inputs, given, results, &self.log);
        let elements = evaluate(op, inputs, &types, &params, given, &self.log)?;
        let folded = |x: &TracedElements| {
            matches!(x, TracedElements::Constant(_) | TracedElements::OfExtents(_, Follow::Each(_)))
        };
        let elements = match elements {
            Some(elements) if elements.iter().all(folded) => {
                return Ok(elements.into_iter().filter_map(|x| self.push_folded(x)).collect());
            }
            elements => elements.unwrap_or_default(),
        };
        let mut elements = elements.into_iter();
        let mut state = self.lock();
        let outputs: Outputs<TracedTensor> = types
            .into_iter()
            .map(|ty| {
                self.push(&mut state.recorded, ValueSource::Step, ty, elements.next().unwrap_or_default())
            })
            .collect();
        let inputs: SmallVec<[Option<&TracedTensor>; 4]> = inputs.iter().map(|x| Some(*x)).collect();
        let step = step(Operation::Row(op.spec()), &inputs, &params, &outputs, state.origin);
        state.recorded.steps.push(Step { symbolic: symbolic.map(Box::new), ..step });
        Ok(outputs)
    }

    /// Adds a value whose elements are constant or are individually known as expressions; returns `None` for any other
    /// value.
    fn push_folded(&self, elements: TracedElements) -> Option<TracedTensor> {
        match elements {
            TracedElements::Constant(data) => Some(self.push_constant(&mut self.lock().recorded, data)),
            TracedElements::OfExtents(data, Follow::Each(each)) => Some(self.push_each(data, each)),
            TracedElements::OfExtents(..) | TracedElements::Unknown => None,
        }
    }

    /// Returns an error if a result exceeds the limit on the bytes of one value. In the body of a native operation
    /// there is no limit, because the body does not run.
    pub(crate) fn bound(&self, results: &[(DataType, Shape)]) -> Result<(), Error> {
        if self.lock().bodies > 0 {
            return Ok(());
        }
        results.iter().try_for_each(|(dtype, shape)| self.bound_one(*dtype, shape))
    }

    pub(crate) fn bound_one(&self, dtype: DataType, shape: &Shape) -> Result<(), Error> {
        check_value(dtype, shape, self.limit)
    }

    /// Adds the sizes of constants that the host computed to the total. Returns whether they are within the limit;
    /// otherwise each run computes them.
    ///
    /// # Errors
    ///
    /// [`bb_ir::Error::TooLarge`] if a constant exceeds the limit on the bytes of one value. The size of strings is
    /// only known now.
    pub(crate) fn folds<'t>(&self, values: impl IntoIterator<Item = &'t TensorData>) -> Result<bool, Error> {
        let mut bytes = 0usize;
        for value in values {
            if value.byte_len() > self.limit {
                return Err(too_large(value.dtype(), value.shape(), self.limit));
            }
            bytes = bytes.saturating_add(value.byte_len());
        }
        let mut state = self.lock();
        let folded = state.folded.saturating_add(bytes);
        if folded > self.fold_bytes {
            return Ok(false);
        }
        state.folded = folded;
        Ok(true)
    }

    /// Evaluates or records a computation on the host.
    pub(crate) fn record_host(
        &self,
        body: &'static HostKernel,
        inputs: &[Option<&TracedTensor>],
        params: &[Param<'_>],
        results: &[(DataType, Shape)],
    ) -> Result<Outputs<TracedTensor>, Error> {
        self.bound(results)?;
        let known: Option<Vec<Option<&TensorData>>> = inputs
            .iter()
            .map(|x| match *x {
                Some(x) => x.known().filter(|value| is_small(value.shape())).map(Some),
                None => Some(None),
            })
            .collect();
        if let Some(known) =
            known.filter(|_| !body.random && results.iter().all(|(_, shape)| is_small(shape)))
        {
            let values = (body.run)(&known, params)?;
            if self.folds(&values)? {
                let mut state = self.lock();
                return Ok(values.into_iter().map(|v| self.push_constant(&mut state.recorded, v)).collect());
            }
        }
        // The body has already recorded the conditions on the extents that determine the results' extents.
        let mut state = self.lock();
        let outputs: Outputs<TracedTensor> = results
            .iter()
            .map(|(dtype, shape)| {
                self.push(
                    &mut state.recorded,
                    ValueSource::Step,
                    Type::fixed(*dtype, shape),
                    TracedElements::Unknown,
                )
            })
            .collect();
        let made = step(Operation::Host(body), inputs, params, &outputs, state.origin);
        state.recorded.steps.push(made);
        Ok(outputs)
    }
}

/// Builds a step.
fn step(
    operation: Operation,
    inputs: &[Option<&TracedTensor>],
    params: &[Param<'_>],
    outputs: &[TracedTensor],
    origin: Option<OriginId>,
) -> Step {
    Step {
        operation,
        params: params.iter().map(|p| p.clone().into_owned()).collect(),
        symbolic: None,
        inputs: inputs.iter().map(|x| x.map(TracedTensor::read)).collect(),
        outputs: outputs.iter().map(TracedTensor::value).collect(),
        origins: origin.into_iter().collect::<StepOrigins>(),
        phase: Phase::EachRun,
    }
}

/// Implements [`Backend`] by recording the primitives. The exception is `constant`, which records no step.
macro_rules! record {
    ($( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        #[diagnostic::do_not_recommend]
        impl Backend for Tracer {
            type Tensor = TracedTensor;
            type Error = TraceStop;

            $(
                fn $method(&self $(, $input: crate::__input_type!($kind))* $($(, $param: bb_ir::param_type!($pkind))+)?)
                    -> Result<crate::__output_type!($output), TraceStop> {
                    record_one!($name, self, ($($kind $input),*), ($($($pkind $param),+)?), $output, $method)
                }
            )*

            fn types(&self) -> DataTypes {
                self.types
            }

            /// Returns the elements if they are constant or depend only on extents. In the second case, ties the trace
            /// to these extents.
            ///
            /// # Errors
            ///
            /// [`TraceStop::Needs`] if the elements are known only when the graph runs.
            fn to_host(&self, x: &TracedTensor) -> Result<TensorData, TraceStop> {
                x.known_or_tied().cloned().ok_or_else(|| TraceStop::Needs(NeededValue::new(x.value())))
            }
        }
    };
}

macro_rules! record_one {
    (Constant, $self:ident, (), ($pkind:ident $param:ident), $output:ident, $method:ident) => {{
        let value: &TensorData = $param;
        $self.bound(&[(value.dtype(), Shape::from_slice(value.shape()))])?;
        Ok($self.known(value))
    }};
    ($name:ident, $self:ident, (Tensors $xs:ident), ($($pkind:ident $param:ident),*), $output:ident, $method:ident) => {{
        let outputs = $self.apply(Primitive::$name, $xs, &[$( bb_ir::param_value!($pkind, $param) ),*])?;
        crate::call::unwrap_output!($output, stringify!($method), outputs)
    }};
    ($name:ident, $self:ident, ($($kind:ident $input:ident),*), ($($pkind:ident $param:ident),*), $output:ident, $method:ident) => {{
        let outputs = $self.apply(Primitive::$name, &[$($input),*], &[$( bb_ir::param_value!($pkind, $param) ),*])?;
        crate::call::unwrap_output!($output, stringify!($method), outputs)
    }};
}

bb_ir::for_each_primitive!(record);
