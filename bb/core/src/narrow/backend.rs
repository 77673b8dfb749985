//! An adapter that provides every element type over a backend that lacks some.

use super::{Holding, NarrowTensor, NarrowedGraph, Range, needs_no_narrowing};
use crate::erased::TensorPlace;
use crate::erased::range::{Ranged, Reach, only_moves, reach, values};
use crate::error::{NarrowError, ResultMaker, WrongResult};
use crate::ext::{ErasedBackend, ErasedError, ErasedTensor, Kernels};
use crate::{
    Backend, BackendAttrs, BoxError, CompileOptions, CompletionHandle, ContractResponse, Error, Executable,
    GraphProto, Kernel, Module, Outputs, PrepareStep, Tensor, service,
};
use bb_ir::convert::{self, Rounding};
use bb_ir::graph::{Graph, Node};
use bb_ir::infer;
use bb_ir::op::{OpSpec, Param, Primitive};
use bb_ir::{DataType, DataTypes, TensorData};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// An adapter that provides all element types on a backend that lacks some, and lives as long as the runtime that owns it.
pub type Narrowed = NarrowedOn<'static>;

/// An adapter that provides all element types on a backend that lacks some.
pub struct NarrowedOn<'a> {
    kernels: Device<'a>,
    holding: Holding,
    pub(super) declared: super::natives::Declared,
    pub(super) known: super::own::Known,
    /// Whether the backend overrides `execute`, once this is known.
    pub(super) own_execute: OnceLock<bool>,
    /// Whether the backend overrides `dispatch` or `execute`, once this is known.
    pub(super) own_dispatch: OnceLock<bool>,
}

/// The backend that lacks types.
enum Device<'a> {
    Shared(Arc<dyn Kernels>),
    /// Borrowed for one call.
    Borrowed(&'a dyn Kernels),
}

impl<'a> std::ops::Deref for Device<'a> {
    type Target = dyn Kernels + 'a;

    fn deref(&self) -> &(dyn Kernels + 'a) {
        match self {
            Device::Shared(kernels) => &**kernels,
            Device::Borrowed(kernels) => *kernels,
        }
    }
}

/// The inputs or outputs of a graph, by name.
pub(super) type Named = HashMap<String, NarrowTensor>;

impl Narrowed {
    pub(crate) fn new(kernels: Arc<dyn Kernels>, floats: bool) -> Narrowed {
        let holding = Holding { types: kernels.types(), floats };
        NarrowedOn::over(Device::Shared(kernels), holding)
    }
}

impl<'a> NarrowedOn<'a> {
    /// Wraps a borrowed backend for one call.
    pub(super) fn borrowed(kernels: &'a dyn Kernels, holding: Holding) -> NarrowedOn<'a> {
        NarrowedOn::over(Device::Borrowed(kernels), holding)
    }

    fn over(kernels: Device<'a>, holding: Holding) -> NarrowedOn<'a> {
        NarrowedOn {
            kernels,
            holding,
            declared: Default::default(),
            known: Default::default(),
            own_execute: OnceLock::new(),
            own_dispatch: OnceLock::new(),
        }
    }

    pub(crate) fn device(&self) -> &(dyn Kernels + 'a) {
        &*self.kernels
    }

    pub(crate) fn holding(&self) -> Holding {
        self.holding
    }

    /// Returns the backend that lacks types, if it is a `B`.
    pub(crate) fn own<B: 'static>(&self) -> Option<&B> {
        self.kernels.any()?.downcast_ref()
    }

    /// Converts a tensor of the backend to a tensor of the adapter.
    pub(crate) fn adopt(x: ErasedTensor) -> NarrowTensor {
        NarrowTensor::device(x.dtype(), x, None)
    }

    /// Copies a host tensor to the backend if the backend can store its elements exactly; otherwise the tensor stays on the
    /// host.
    pub(super) fn bring(&self, x: &TensorData) -> Result<NarrowTensor, ErasedError> {
        let dtype = x.dtype();
        let range = Range::of_elements(x);
        let on = ErasedBackend(self.device());
        let Some(held) = self.holding.of(dtype) else { return Ok(NarrowTensor::host(x.clone(), range)) };
        if held == dtype {
            return Ok(NarrowTensor::device(dtype, on.constant(x)?, range));
        }
        let fits = match (range, Range::of(held)) {
            (Some(range), Some(all)) => all.contains(range),
            _ => true,
        };
        if !fits {
            return Ok(NarrowTensor::host(x.clone(), range));
        }
        let cast = convert::cast(x, held, Rounding::default()).map_err(Error::from)?;
        Ok(NarrowTensor::device(dtype, on.constant(&cast)?, range))
    }

    /// Copies a tensor to the host, in its own type.
    pub(super) fn read(&self, x: &NarrowTensor) -> Result<TensorData, ErasedError> {
        let host = match x.place() {
            TensorPlace::Host(x) => return Ok(x.clone()),
            TensorPlace::Device(inner) => self.kernels.to_host(inner)?,
        };
        if host.dtype() == x.dtype() {
            return Ok(host);
        }
        Ok(convert::cast(&host, x.dtype(), Rounding::default()).map_err(Error::from)?)
    }

    /// Calls a primitive.
    pub(super) fn apply(
        &self,
        op: Primitive,
        inputs: &[Option<&NarrowTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<NarrowTensor>, ErasedError> {
        match (op, inputs, params) {
            (Primitive::Constant, _, [Param::Data(data)]) => {
                return Ok(Outputs::from_buf([self.bring(data)?]));
            }
            (Primitive::Cast, [Some(x)], [Param::Type(to), ..]) => return self.cast_to(x, *to, params),
            _ => {}
        }
        let types: SmallVec<[DataType; 4]> = inputs.iter().flatten().map(|x| x.dtype()).collect();
        let dtype = infer::dtype(op, &types, params).map_err(Error::from)?;
        let Some(operands) = self.placed(inputs) else {
            let refused = self.lacks(op, inputs, Some(dtype));
            return self.by_host(op, inputs, params, refused);
        };
        if only_moves(op) || !types.iter().any(|&dtype| Range::of(dtype).is_some()) {
            let range = self.moved(op, inputs);
            let results = self.called(op, &operands, params, dtype)?;
            return Ok(results.into_iter().map(|y| NarrowTensor::device(dtype, y, range)).collect());
        }
        self.compute(op, inputs, &operands, params, dtype)
    }

    /// Calls the backend, and checks that the results have the storage type of `dtype`.
    fn called(
        &self,
        op: Primitive,
        operands: &[Option<&ErasedTensor>],
        params: &[Param<'_>],
        dtype: DataType,
    ) -> Result<Outputs<ErasedTensor>, ErasedError> {
        let results = self.kernels.primitive(op, operands, params)?;
        let held = self.holding.of(dtype).unwrap_or(dtype);
        match results.iter().enumerate().find(|(_, y)| y.dtype() != held) {
            Some((index, y)) => {
                let (spec, got) = (op.spec(), (y.dtype(), y.shape()));
                Err(WrongResult::of_type(spec.method, index, held, got, self.kernels.maker_of(spec)).into())
            }
            None => Ok(results),
        }
    }

    /// Returns the backend's tensors of the operands; `None` if some operand is on the host.
    ///
    /// All operands that an operation computes with have the same element type, so the backend stores them in the same type.
    fn placed<'x>(
        &self,
        inputs: &[Option<&'x NarrowTensor>],
    ) -> Option<SmallVec<[Option<&'x ErasedTensor>; 4]>> {
        inputs.iter().map(|x| x.map_or(Some(None), |x| x.on_device().map(Some))).collect()
    }

    /// Returns a range that contains the elements that an operation moves from its operands to its result.
    fn moved(&self, op: Primitive, inputs: &[Option<&NarrowTensor>]) -> Option<Range> {
        let moved = inputs.get(values(op, inputs.len()))?.iter().flatten();
        moved.map(|x| x.range()).reduce(|a, b| Some(a?.or(b?)))?
    }

    /// Computes a primitive on integers or booleans.
    fn compute(
        &self,
        op: Primitive,
        inputs: &[Option<&NarrowTensor>],
        operands: &[Option<&ErasedTensor>],
        params: &[Param<'_>],
        dtype: DataType,
    ) -> Result<Outputs<NarrowTensor>, ErasedError> {
        let ranges = |known: &[Option<Range>]| -> Option<Reach> {
            let ranged = inputs.iter().flatten().zip(known);
            let ranged: Option<SmallVec<[Ranged<'_>; 3]>> =
                ranged.map(|(x, range)| Some(Ranged { range: (*range)?, shape: x.shape() })).collect();
            reach(op, &ranged?, params)
        };
        let known: SmallVec<[Option<Range>; 3]> = inputs.iter().flatten().map(|x| x.range()).collect();
        let device = |range: Option<Range>| -> Result<Outputs<NarrowTensor>, ErasedError> {
            let results = self.called(op, operands, params, dtype)?;
            Ok(results.into_iter().map(|y| NarrowTensor::device(dtype, y, range)).collect())
        };
        let (Some(all), Some(held)) = (Range::of(dtype), self.holding.of(dtype)) else { return device(None) };
        let holder = Range::of(held).unwrap_or(all);
        let Some(told) = ranges(&known) else { return device(None) };
        if held == dtype {
            return device(all.contains(told.all).then_some(told.result));
        }
        if all.contains(told.all) && holder.contains(told.all) {
            return device(Some(told.result));
        }
        if self.wraps(op, dtype, held) && (low_bits_suffice(op) || holder.contains(told.all)) {
            let results = self.called(op, operands, params, dtype)?;
            let wrap = |y| Ok(NarrowTensor::device(dtype, self.wrapped(&y, dtype)?, Some(all)));
            return results.into_iter().map(wrap).collect();
        }
        // The known ranges do not exclude an overflow, so the ranges of the actual elements are tried.
        let mut actual: SmallVec<[Option<Range>; 3]> = SmallVec::new();
        for x in inputs.iter().flatten() {
            actual.push(Range::of_elements(&self.read(x)?));
        }
        match ranges(&actual) {
            Some(told) if all.contains(told.all) && holder.contains(told.all) => device(Some(told.result)),
            _ => {
                let refused = NarrowError::Exceeds { op: op.spec().method, dtype, held };
                self.by_host(op, inputs, params, refused)
            }
        }
    }

    /// Compiles a module: as operations, or as whole graphs in the types of the backend if the backend runs whole graphs.
    pub(super) fn compile_narrowed(
        &self,
        module: Module,
        options: &CompileOptions,
    ) -> Result<Box<dyn Executable<Self>>, ErasedError>
    where
        Self: 'static,
    {
        match self.kernels.runs_whole_graphs() {
            true => Ok(crate::plan::compile_narrowed(self, self.holding, module, options)?),
            false => crate::plan::compile(self, module, options),
        }
    }

    /// Runs a graph that a plan narrowed as a whole. Compiles and runs any other graph.
    pub(super) fn run_narrowed(
        &self,
        graph: &GraphProto,
        inputs: Named,
        attrs: BackendAttrs<'_>,
    ) -> Result<Named, ErasedError> {
        match attrs.narrowed::<NarrowedGraph>() {
            Some(narrowed) => self.run_graph(narrowed, graph, inputs, attrs),
            None => crate::plan::execute(self, graph, inputs, attrs),
        }
    }

    /// Returns whether results of type `dtype` can be wrapped after they were computed in the wider type `held`.
    fn wraps(&self, op: Primitive, dtype: DataType, held: DataType) -> bool {
        let reduces = matches!(op, Primitive::ReduceMax | Primitive::ReduceMin);
        dtype.bits() < held.bits() && held.bits() <= 32 && !reduces
    }
}

/// Returns whether the low bits of results depend only on the low bits of operands. Then an overflow of the wider type does no
/// harm.
fn low_bits_suffice(op: Primitive) -> bool {
    use Primitive as P;
    matches!(op, P::Add | P::Sub | P::Mul | P::Neg | P::MatMul | P::ReduceSum)
}

impl std::fmt::Debug for NarrowedOn<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Narrowed").field("holding", &self.holding).finish_non_exhaustive()
    }
}

#[diagnostic::do_not_recommend]
impl Backend for NarrowedOn<'_> {
    type Tensor = NarrowTensor;
    type Error = ErasedError;

    crate::forward_to_call!(Self::apply);

    fn declines(&self, graph: &Graph, node: &Node) -> Option<String> {
        self.kernels.declines(graph, node)
    }

    fn wrapped_in<'a>(&self, error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Error> {
        ErasedBackend(&*self.kernels).wrapped_in(error)
    }

    fn to_host(&self, x: &NarrowTensor) -> Result<TensorData, ErasedError> {
        self.read(x)
    }

    /// Runs graphs that need no narrowing, graphs of a plan, and parts of other graphs that need no narrowing, by the backend's
    /// own method. Compiles and runs the rest.
    fn execute(
        &self,
        graph: &GraphProto,
        inputs: Named,
        attrs: BackendAttrs<'_>,
    ) -> Result<Named, ErasedError> {
        match self.execute_own(graph, &inputs, attrs) {
            Some(results) => results,
            None => self.run_narrowed(graph, inputs, attrs),
        }
    }

    fn materialize_from_wire(&self, type_hash: u64, bytes: Vec<u8>) -> Result<NarrowTensor, ErasedError> {
        match bb_ir::wire::element_type(type_hash) {
            Some(dtype) if self.holding.types.has(dtype) => {
                Ok(NarrowedOn::adopt(self.kernels.materialize(type_hash, bytes)?))
            }
            _ => self.bring(&crate::wire::decode(type_hash, bytes)?),
        }
    }

    /// Compiles graphs that need no narrowing, and parts of other graphs that need none, by the backend's own method.
    fn compile(
        &self,
        module: Module,
        options: &CompileOptions,
    ) -> Result<Box<dyn Executable<Self>>, ErasedError>
    where
        Self: 'static,
    {
        if needs_no_narrowing(module.graph(), self.holding.types) {
            return match self.compile_own(&module, options)? {
                Some(own) => Ok(Box::new(own)),
                None => self.compile_narrowed(module, options),
            };
        }
        match self.compile_parts(&module, options)? {
            Some(parts) => Ok(Box::new(parts)),
            None => self.compile_narrowed(module, options),
        }
    }

    fn runs_whole_graphs(&self) -> bool {
        self.kernels.runs_whole_graphs()
    }

    fn runs_primitive(&self, op: Primitive) -> bool {
        self.kernels.runs_primitive(op)
    }

    fn maker_of(&self, spec: &'static OpSpec) -> ResultMaker {
        self.kernels.maker_of(spec)
    }

    /// Prepares a step if the backend has the types of its operands and results.
    fn prepare(
        &self,
        step: &PrepareStep<'_, NarrowTensor>,
    ) -> Result<Option<Box<dyn Kernel<Self>>>, ErasedError> {
        Ok(self.prepare_own(step)?.map(|kernel| Box::new(kernel) as Box<dyn Kernel<Self>>))
    }

    /// Runs the graph. If the backend is asynchronous, the answer comes later, when the backend has finished its queued work.
    fn dispatch(
        &self,
        graph: Arc<GraphProto>,
        inputs: Named,
        attrs: BackendAttrs<'_>,
        completion: CompletionHandle<Named, ErasedError>,
    ) -> ContractResponse<Named, ErasedError> {
        let results = match self.dispatch_own(&graph, &inputs, attrs) {
            Some(ContractResponse::Now(results)) => results,
            Some(later) => return later,
            None => self.run_narrowed(&graph, inputs, attrs),
        };
        let waits = self.kernels.lifecycle().is_some_and(|lifecycle| lifecycle.is_asynchronous());
        let results = match results {
            Ok(results) if waits => results,
            results => return ContractResponse::Now(results),
        };
        let Device::Shared(kernels) = &self.kernels else { return ContractResponse::Now(Ok(results)) };
        let (answer, completer) = completion.later();
        let kernels = kernels.clone();
        let wait = move || {
            let done = kernels.lifecycle().map_or(Ok(()), |lifecycle| lifecycle.synchronize());
            completer.complete(match done {
                Ok(()) => Ok(results),
                Err(error) => Err(BoxError::from(error).into()),
            });
        };
        // If no thread can be started, the job is dropped with its completer, which reports the failure to the caller.
        let _gone = std::thread::Builder::new().name("bb answer".to_owned()).spawn(wait);
        answer
    }

    fn device_info(&self) -> service::DeviceInfo {
        self.kernels.device_info()
    }

    fn lifecycle(&self) -> Option<&dyn service::Lifecycle> {
        self.kernels.lifecycle()
    }

    fn memory(&self) -> Option<&dyn service::Memory<NarrowTensor>> {
        self.kernels.memory().map(|_| self as _)
    }

    fn kernels(&self) -> Option<&dyn service::Kernels<NarrowTensor>> {
        self.kernels.user_kernels().map(|_| self as _)
    }

    /// Returns the types of the wrapped backend, so that bodies choose their helper types from them.
    fn types(&self) -> DataTypes {
        self.holding.types
    }

    fn has_every_type(&self) -> bool {
        true
    }
}
