//! The backend that records.

use super::keep::{Kept, Policy};
use super::steps::{
    ConstantIndex, InputIndex, Operation, OriginId, Phase, Step, StepOrigins, Trace, TraceValue,
    TraceValueInfo, ValueSource, WeightId,
};
use super::stop::{NeededValue, TraceStop};
use super::table::TableIndex;
use crate::ext::{HostKernel, OpSet};
use crate::{Backend, Error, Outputs, Tensor};
use bb_ir::infer::{self, eval};
use bb_ir::op::{Family, OpSpec, Param, Primitive};
use bb_ir::{DataType, Shape, TensorData};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A value while tracing: its element type, its extents, and its elements where they are constant.
#[derive(Debug, Clone)]
pub struct TracedTensor(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    value: TraceValue,
    dtype: DataType,
    shape: Shape,
    known: Option<TensorData>,
    /// The inputs, as bits, whose extents these extents follow from.
    follows: u64,
    /// Where asking for extents is noted.
    consulted: Arc<AtomicU64>,
}

impl TracedTensor {
    /// Returns the value of the trace that this stands for.
    pub(crate) fn value(&self) -> TraceValue {
        self.0.value
    }

    /// Returns the elements, where they are constant.
    pub(crate) fn known(&self) -> Option<&TensorData> {
        self.0.known.as_ref()
    }
}

#[diagnostic::do_not_recommend]
impl Tensor for TracedTensor {
    fn dtype(&self) -> DataType {
        self.0.dtype
    }

    /// Returns the extents, and notes that the trace depends on them.
    fn shape(&self) -> &[usize] {
        if self.0.follows != 0 {
            self.0.consulted.fetch_or(self.0.follows, Ordering::Relaxed);
        }
        &self.0.shape
    }

    fn rank(&self) -> usize {
        self.0.shape.len()
    }
}

/// What happened while tracing, beyond the steps.
#[derive(Debug, Default)]
struct State {
    recorded: Trace,
    /// The node that the next steps come from.
    origin: Option<OriginId>,
}

/// A backend that records the operations called on it.
///
/// Extents are known while tracing; elements only where they are constant. Operations of an extension family
/// are recorded as such if they are declared native, else as the primitives of their bodies.
#[derive(Debug)]
pub struct Tracer {
    state: Mutex<State>,
    consulted: Arc<AtomicU64>,
    recording: Recording,
    /// The most bytes that one value may have.
    limit: usize,
}

/// Which operations of extension families are recorded as they are.
#[derive(Debug)]
enum Recording {
    /// Those that a backend has kernels for.
    Natives(Vec<(Family, OpSet)>),
    /// Those that ONNX has an operator for, as an export asks.
    Kept(Policy),
}

/// A point to return to when a native operation's body was traced for its results' types only.
#[derive(Debug)]
pub(crate) struct Mark {
    steps: usize,
    values: usize,
    constants: usize,
    consulted: u64,
}

impl Default for Tracer {
    fn default() -> Self {
        Tracer::new(Vec::new(), bb_ir::Limits::default().value_bytes)
    }
}

/// The most elements that are computed while tracing; shape arithmetic needs a handful.
const EVALUATED: usize = <TensorData as eval::Constant>::MOST;

impl Tracer {
    /// Makes a tracer that records the operations in `natives` as they are, and all others as primitives.
    ///
    /// Units: `limit` counts the bytes of one value.
    pub(crate) fn new(natives: Vec<(Family, OpSet)>, limit: usize) -> Tracer {
        Tracer::recording(Recording::Natives(natives), limit)
    }

    /// Makes a tracer that records what an export keeps as ONNX's operators.
    pub(super) fn of_export(policy: Policy) -> Tracer {
        Tracer::recording(Recording::Kept(policy), bb_ir::Limits::default().value_bytes)
    }

    fn recording(recording: Recording, limit: usize) -> Tracer {
        Tracer { state: Mutex::default(), consulted: Arc::default(), recording, limit }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an input. `varies` says whether other runs may bring other extents.
    pub(crate) fn input(
        &self,
        index: InputIndex,
        dtype: DataType,
        shape: &[usize],
        varies: bool,
        known: Option<TensorData>,
    ) -> TracedTensor {
        let follows = if varies { 1u64 << index.position().min(63) } else { 0 };
        self.add(ValueSource::Input(index), dtype, Shape::from_slice(shape), known, follows)
    }

    /// Adds a weight that the caller holds.
    pub(crate) fn weight(&self, id: WeightId, value: &TensorData) -> TracedTensor {
        self.add(
            ValueSource::Weight(id),
            value.dtype(),
            Shape::from_slice(value.shape()),
            Some(value.clone()),
            0,
        )
    }

    fn add(
        &self,
        source: ValueSource,
        dtype: DataType,
        shape: Shape,
        known: Option<TensorData>,
        follows: u64,
    ) -> TracedTensor {
        self.push(&mut self.lock().recorded, source, dtype, shape, known, follows)
    }

    fn push(
        &self,
        recorded: &mut Trace,
        source: ValueSource,
        dtype: DataType,
        shape: Shape,
        known: Option<TensorData>,
        follows: u64,
    ) -> TracedTensor {
        let value = recorded.values.push(TraceValueInfo { source, dtype, shape: shape.clone() });
        TracedTensor(Arc::new(Inner {
            value,
            dtype,
            shape,
            known,
            follows,
            consulted: self.consulted.clone(),
        }))
    }

    fn push_constant(&self, recorded: &mut Trace, value: TensorData) -> TracedTensor {
        let index: ConstantIndex = recorded.constants.push(value.clone());
        let (dtype, shape) = (value.dtype(), Shape::from_slice(value.shape()));
        self.push(recorded, ValueSource::Constant(index), dtype, shape, Some(value), 0)
    }

    /// Tells whether an operation of a family is recorded as it is.
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
                // Extents are not looked at, so that asking ties the trace to none.
                let operands: SmallVec<[_; 4]> =
                    inputs.iter().map(|x| x.map(|x| (x.0.dtype, x.0.shape.len()))).collect();
                policy.keeps(spec, &operands, params)
            }
        }
    }

    /// Marks the place where a native operation's body is traced for the types of its results.
    pub(crate) fn enter_native(&self) -> Mark {
        let state = self.lock();
        Mark {
            steps: state.recorded.steps.len(),
            values: state.recorded.values.len(),
            constants: state.recorded.constants.len(),
            consulted: self.consulted.load(Ordering::Relaxed),
        }
    }

    /// Records a native operation in place of its body, whose results `body` are.
    ///
    /// The body stays if the operation is kept for the host alone, and the body does without.
    pub(crate) fn record_native(
        &self,
        mark: Mark,
        kept: Kept,
        spec: &'static OpSpec,
        inputs: &[Option<&TracedTensor>],
        params: &[Param<'_>],
        body: Outputs<TracedTensor>,
    ) -> Outputs<TracedTensor> {
        let mut state = self.lock();
        let recorded = &mut state.recorded;
        // A body whose results are all constant has folded; nothing is left to call.
        if !body.is_empty() && body.iter().all(|x| x.known().is_some()) {
            return body;
        }
        let mut since = recorded.steps.entries().skip(mark.steps);
        if kept == Kept::ForHost && !since.any(|step| matches!(step.operation, Operation::Host(_))) {
            return body;
        }
        recorded.steps.truncate(mark.steps);
        recorded.values.truncate(mark.values);
        recorded.constants.truncate(mark.constants);
        self.consulted.store(mark.consulted, Ordering::Relaxed);
        let follows = inputs.iter().flatten().fold(0, |all, x| all | x.0.follows);
        let results: Outputs<TracedTensor> = body
            .into_iter()
            .map(|x| {
                self.push(
                    recorded,
                    ValueSource::Step,
                    x.0.dtype,
                    x.0.shape.clone(),
                    None,
                    x.0.follows | follows,
                )
            })
            .collect();
        let made = step(Operation::Row(spec), inputs, params, &results, state.origin);
        state.recorded.steps.push(made);
        results
    }

    /// Returns the inputs, as bits, whose extents the trace depends on.
    pub(crate) fn consulted(&self) -> u64 {
        self.consulted.load(Ordering::Relaxed)
    }

    /// Returns the number of steps so far.
    pub(crate) fn steps(&self) -> usize {
        self.lock().recorded.steps.len()
    }

    /// Forgets the steps from the given one on; the values stay numbered.
    pub(crate) fn forget(&self, from: usize) {
        self.lock().recorded.steps.truncate(from);
    }

    /// Returns the node that the next steps come from.
    pub(crate) fn origin(&self) -> Option<OriginId> {
        self.lock().origin
    }

    /// Sets the node that the next steps come from.
    pub(crate) fn set_origin(&self, origin: Option<OriginId>) {
        self.lock().origin = origin;
    }

    /// Returns the trace of what was recorded, which returns these values.
    pub(crate) fn finish(self, outputs: Vec<TraceValue>) -> Trace {
        let recorded = self.state.into_inner().unwrap_or_else(PoisonError::into_inner).recorded;
        Trace { outputs, ..recorded }
    }

    /// Infers, evaluates or records one primitive.
    fn apply(
        &self,
        op: Primitive,
        inputs: &[&TracedTensor],
        params: &[Param<'_>],
    ) -> Result<Outputs<TracedTensor>, Error> {
        let types: SmallVec<[(DataType, &[usize]); 4]> =
            inputs.iter().map(|x| (x.0.dtype, x.0.shape.as_slice())).collect();
        let results = infer::primitive(op, &types, params)?;
        self.bound(&results)?;
        if let Some(values) = self.evaluate(op, inputs, &results, params)? {
            let mut state = self.lock();
            return Ok(values.into_iter().map(|v| self.push_constant(&mut state.recorded, v)).collect());
        }
        if let (Primitive::Squeeze, [Param::Ints(axes)], [x]) = (op, params, inputs)
            && axes.is_empty()
        {
            // Which dimensions go depends on their extents.
            self.consulted.fetch_or(x.0.follows, Ordering::Relaxed);
        }
        // Extents that parameters fix do not follow from any input's.
        let follows = match op {
            Primitive::Reshape => 0,
            _ => inputs.iter().fold(0, |all, x| all | x.0.follows),
        };
        let mut state = self.lock();
        let outputs: Outputs<TracedTensor> = results
            .into_iter()
            .map(|(dtype, shape)| {
                self.push(&mut state.recorded, ValueSource::Step, dtype, shape, None, follows)
            })
            .collect();
        let inputs: SmallVec<[Option<&TracedTensor>; 4]> = inputs.iter().map(|x| Some(*x)).collect();
        let made = step(Operation::Row(op.spec()), &inputs, params, &outputs, state.origin);
        state.recorded.steps.push(made);
        Ok(outputs)
    }

    /// Refuses results of more bytes than one value may have.
    fn bound(&self, results: &[(DataType, Shape)]) -> Result<(), Error> {
        for (dtype, shape) in results {
            let too_large = || bb_ir::Error::TooLarge {
                dtype: *dtype,
                shape: shape.as_slice().into(),
                limit: self.limit,
                name: Some("value_bytes"),
            };
            let elements = bb_ir::element_count(shape).ok_or_else(too_large)?;
            let bytes = if *dtype == DataType::String { Some(elements) } else { dtype.bytes_for(elements) };
            if bytes.is_none_or(|b| b > self.limit) {
                return Err(too_large().into());
            }
        }
        Ok(())
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
        let small = |shape: &[usize]| bb_ir::element_count(shape).is_some_and(|n| n <= EVALUATED);
        let known: Option<Vec<Option<&TensorData>>> = inputs
            .iter()
            .map(|x| match *x {
                Some(x) => x.known().filter(|value| small(value.shape())).map(Some),
                None => Some(None),
            })
            .collect();
        if let Some(known) = known.filter(|_| !body.random && results.iter().all(|(_, shape)| small(shape))) {
            let values = (body.run)(&known, params)?;
            let mut state = self.lock();
            return Ok(values.into_iter().map(|v| self.push_constant(&mut state.recorded, v)).collect());
        }
        let follows = inputs.iter().flatten().fold(0, |all, x| all | x.0.follows);
        let mut state = self.lock();
        let outputs: Outputs<TracedTensor> = results
            .iter()
            .map(|(dtype, shape)| {
                self.push(&mut state.recorded, ValueSource::Step, *dtype, shape.clone(), None, follows)
            })
            .collect();
        let made = step(Operation::Host(body), inputs, params, &outputs, state.origin);
        state.recorded.steps.push(made);
        Ok(outputs)
    }

    /// Computes small constants, so that shape arithmetic is done when tracing ends.
    fn evaluate(
        &self,
        op: Primitive,
        inputs: &[&TracedTensor],
        results: &[(DataType, Shape)],
        params: &[Param<'_>],
    ) -> Result<Option<Vec<TensorData>>, Error> {
        let known: Option<SmallVec<[&TensorData; 4]>> = inputs.iter().map(|x| x.known()).collect();
        match known {
            Some(known) => Ok(eval::primitive(op, &known, results, params, &|_| false)?),
            None => Ok(None),
        }
    }
}

/// Puts a step together.
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
        inputs: inputs.iter().map(|x| x.map(TracedTensor::value)).collect(),
        outputs: outputs.iter().map(TracedTensor::value).collect(),
        origins: origin.into_iter().collect::<StepOrigins>(),
        phase: Phase::EachRun,
    }
}

/// Writes the primitives, all but `constant`, which records no step.
macro_rules! record {
    ($( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       -> $output:ident; )*) => {
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

            /// Returns the elements where they are constant.
            ///
            /// # Errors
            ///
            /// [`TraceStop::Needs`] where they are not.
            fn to_host(&self, x: &TracedTensor) -> Result<TensorData, TraceStop> {
                x.known().cloned().ok_or_else(|| TraceStop::Needs(NeededValue::new(x.value())))
            }
        }
    };
}

macro_rules! record_one {
    (Constant, $self:ident, (), ($pkind:ident $param:ident), $output:ident, $method:ident) => {{
        let value: &TensorData = $param;
        Ok($self.push_constant(&mut $self.lock().recorded, value.clone()))
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
