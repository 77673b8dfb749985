//! A backend whose type is erased, for code that is compiled only once, in this crate, for all backends.
//!
//! The bodies of families and the conformance cases consist of calls of kernels. If they were generic over the backend,
//! they would be compiled again in the crate of every backend. Written for [`ErasedBackend`], each of their calls costs
//! an indirect call, and an allocation for each result. The interpreter of plans does not use it: it calls backends by
//! their type.

use super::{FamilyTable, OpSet};
use crate::contract::OnnxValue;
use crate::narrow::{self, NarrowTensor};
use crate::{
    Backend, BackendAttrs, BoxError, CompileOptions, CompletionHandle, ContractResponse, Error, Executable,
    Kernel, KernelOperand, KernelOperands, Module, Outputs, Port, PrepareStep, Tensor, service,
};
use bb_ir::graph::{Graph, Node};
use bb_ir::op::{Family, OpSpec, Param, Primitive};
use bb_ir::proto::GraphProto;
use bb_ir::{DataType, DataTypes, TensorData};
use smallvec::SmallVec;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A tensor whose type is erased, in its own allocation.
///
/// This type does not use [`Tensor::erase`], which the backend's author writes: a mistake there must not look like a
/// mistake of a kernel.
#[derive(Clone)]
pub struct ErasedTensor(Arc<dyn AnyTensor>);

/// The methods that a tensor of any type has.
pub(crate) trait AnyTensor: Any + Send + Sync {
    /// Returns the element type.
    fn dtype(&self) -> DataType;

    /// Returns the shape, outermost extent first.
    fn shape(&self) -> &[usize];

    /// Returns the tensor in its allocation.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<T: Tensor> AnyTensor for T {
    fn dtype(&self) -> DataType {
        Tensor::dtype(self)
    }

    fn shape(&self) -> &[usize] {
        Tensor::shape(self)
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl ErasedTensor {
    /// Erases the type of a tensor.
    pub fn new<T: Tensor>(x: T) -> ErasedTensor {
        ErasedTensor(Arc::new(x))
    }

    /// Returns the tensor as `AnyTensor`.
    pub(crate) fn any(&self) -> &dyn AnyTensor {
        &*self.0
    }

    /// Returns the tensor itself if it is of the type. Copies nothing if this is the only handle.
    fn into_typed<T: Tensor>(self) -> Option<T> {
        let own = self.0.into_any().downcast::<T>().ok()?;
        Some(Arc::try_unwrap(own).unwrap_or_else(|shared| (*shared).clone()))
    }

    /// Returns the tensor if it is of the type.
    pub fn get<T: Tensor>(&self) -> Option<&T> {
        let any: &dyn Any = &*self.0;
        any.downcast_ref()
    }
}

#[diagnostic::do_not_recommend]
impl Tensor for ErasedTensor {
    fn dtype(&self) -> DataType {
        self.0.dtype()
    }

    fn shape(&self) -> &[usize] {
        self.0.shape()
    }
}

impl std::fmt::Debug for ErasedTensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ErasedTensor({}{:?})", self.0.dtype(), self.0.shape())
    }
}

/// The error of a call on an erased backend. Its text and its causes are the inner error's.
#[derive(Debug, thiserror::Error)]
pub enum ErasedError {
    /// The backend's own error.
    #[error(transparent)]
    Backend(BoxError),

    /// An error that `bb` found.
    #[error(transparent)]
    Bb(#[from] Error),
}

impl ErasedError {
    /// Returns the error itself, without this type around it.
    pub(crate) fn into_source(self) -> BoxError {
        match self {
            ErasedError::Backend(source) => source,
            ErasedError::Bb(error) => error.into(),
        }
    }

    /// Returns the error as the backend's own type.
    pub(crate) fn typed<B: Backend + ?Sized>(self) -> B::Error {
        match self {
            ErasedError::Bb(error) => error.into(),
            ErasedError::Backend(source) => match source.downcast::<B::Error>() {
                Ok(own) => *own,
                Err(source) => {
                    let backend = std::any::type_name::<B>();
                    Error::Kernel { backend, op: "body", source }.into()
                }
            },
        }
    }
}

/// A kernel that a backend whose type is erased prepared.
pub struct ErasedKernel {
    /// The kernel, in the backend's own type.
    pub(crate) kernel: Box<dyn Any + Send + Sync>,
    pub(crate) bytes: usize,
    pub(crate) reads: SmallVec<[bool; 4]>,
}

/// A graph that a backend whose type is erased compiled.
pub struct ErasedCompiled {
    /// The executable, in the backend's own type.
    pub(crate) executable: Box<dyn Any + Send + Sync>,
    pub(crate) inputs: Vec<Port>,
    pub(crate) outputs: Vec<Port>,
    /// Returns the module to be saved, if there is one ([`Executable::compiled_module`]).
    pub(crate) saved: fn(&(dyn Any + Send + Sync)) -> Result<Option<Module>, ErasedError>,
}

/// The calls that a backend with an erased type supports.
pub trait Kernels: Send + Sync {
    /// Calls a primitive.
    fn primitive(
        &self,
        op: Primitive,
        inputs: &[Option<&ErasedTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<ErasedTensor>, ErasedError>;

    /// Calls an operation of a family if the backend declares it native.
    fn native(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&ErasedTensor>],
        params: &[Param<'_>],
    ) -> Option<Result<Outputs<ErasedTensor>, ErasedError>>;

    /// Copies a tensor to the host.
    fn to_host(&self, x: &ErasedTensor) -> Result<TensorData, ErasedError>;

    /// Returns the element types that the backend has.
    fn types(&self) -> DataTypes;

    /// Returns why the backend does not run a node of a graph ([`Backend::declines`]).
    fn declines(&self, graph: &Graph, node: &Node) -> Option<String> {
        let _any = (graph, node);
        None
    }

    /// Returns the error of `bb` that an error of the backend wraps ([`Backend::wrapped`]).
    fn wrapped<'a>(&self, error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Error> {
        let _opaque = error;
        None
    }

    /// Returns whether tensors of some element type would be refused: the backend lacks it, and nothing stands before the
    /// backend that gives it the type.
    fn refuses_types(&self) -> bool {
        false
    }

    /// Returns the operations of families that the backend declares native.
    fn natives(&self) -> Vec<(Family, OpSet)> {
        Vec::new()
    }

    /// Returns whether the backend takes whole graphs.
    fn runs_whole_graphs(&self) -> bool {
        false
    }

    /// Returns whether a backend that takes whole graphs runs a primitive ([`Backend::runs_primitive`]).
    fn runs_primitive(&self, op: Primitive) -> bool {
        let _any = op;
        true
    }

    /// Prepares a step of a plan ([`Backend::prepare`]).
    fn prepare(&self, step: &PrepareStep<'_, ErasedTensor>) -> Result<Option<ErasedKernel>, ErasedError> {
        let _unprepared = step;
        Ok(None)
    }

    /// Runs a kernel that [`prepare`](Self::prepare) returned.
    fn run_prepared(
        &self,
        kernel: &(dyn Any + Send + Sync),
        operands: &mut KernelOperands<'_, ErasedTensor>,
    ) -> Result<Outputs<ErasedTensor>, ErasedError> {
        let _unprepared = (kernel, operands);
        Err(Error::excluded("a backend that prepares kernels").into())
    }

    /// Runs a graph of primitives whole.
    fn execute(
        &self,
        graph: &GraphProto,
        inputs: HashMap<String, ErasedTensor>,
        attrs: BackendAttrs<'_>,
    ) -> Result<HashMap<String, ErasedTensor>, ErasedError>;

    /// Runs a graph and answers now or later ([`Backend::dispatch`]).
    fn dispatch(
        &self,
        graph: Arc<GraphProto>,
        inputs: HashMap<String, ErasedTensor>,
        attrs: BackendAttrs<'_>,
    ) -> ContractResponse<HashMap<String, ErasedTensor>, ErasedError> {
        ContractResponse::Now(self.execute(&graph, inputs, attrs))
    }

    /// Compiles a graph ([`Backend::compile`]), unless the backend does not override the method: then sets `reached` and fails.
    fn compile(
        &self,
        module: Module,
        options: &CompileOptions,
        reached: &Arc<AtomicBool>,
    ) -> Result<ErasedCompiled, ErasedError> {
        let _uncompiled = (module, options, reached);
        Err(Error::excluded("a backend that is kept").into())
    }

    /// Runs what [`compile`](Self::compile) returned.
    fn run_compiled(
        &self,
        compiled: &ErasedCompiled,
        inputs: &[Option<OnnxValue<ErasedTensor>>],
    ) -> Result<Vec<OnnxValue<ErasedTensor>>, ErasedError> {
        let _uncompiled = (compiled, inputs);
        Err(Error::excluded("a backend that is kept").into())
    }

    /// Makes a tensor from a frame ([`Backend::materialize_from_wire`]).
    fn materialize(&self, type_hash: u64, bytes: Vec<u8>) -> Result<ErasedTensor, ErasedError> {
        let _unread = (type_hash, bytes);
        Err(Error::excluded("a backend that is kept").into())
    }

    /// Returns the backend's description of its device.
    fn device_info(&self) -> service::DeviceInfo {
        service::DeviceInfo::default()
    }

    /// Returns the service that waits for the device, if the backend has one.
    fn lifecycle(&self) -> Option<&dyn service::Lifecycle> {
        None
    }

    /// Returns the service of memory, if the backend has one.
    fn memory(&self) -> Option<&dyn service::Memory<ErasedTensor>> {
        None
    }

    /// Returns the service of user's kernels, if the backend has one.
    fn user_kernels(&self) -> Option<&dyn service::Kernels<ErasedTensor>> {
        None
    }
}

/// A backend with the families that it adopted.
#[derive(Debug)]
pub struct WithFamilies<'a, B: Backend + ?Sized> {
    pub(crate) on: &'a B,
    pub(crate) tables: &'a [FamilyTable<B>],
    /// The operation whose kernel declined the operands: its first call runs the body. The body may call the operation
    /// again with operands that suit the kernel.
    pub(crate) declined: Option<&'static OpSpec>,
    /// Whether that call was made.
    called: AtomicBool,
}

impl<'a, B: Backend + ?Sized> WithFamilies<'a, B> {
    /// Pairs a backend with its families.
    pub const fn new(on: &'a B, tables: &'a [FamilyTable<B>]) -> Self {
        WithFamilies { on, tables, declined: None, called: AtomicBool::new(false) }
    }

    /// Returns whether the kernel of the operation declined.
    fn declined(&self, op: &OpSpec) -> bool {
        self.declined.is_some_and(|declined| declined.family == op.family && declined.index == op.index)
    }
}

impl<B: Backend + ?Sized> WithFamilies<'_, B> {
    /// Restores the type of the operands, calls, and erases the type of the results.
    fn call(
        &self,
        op: &'static str,
        inputs: &[Option<&ErasedTensor>],
        call: impl FnOnce(&[Option<&B::Tensor>]) -> Result<Outputs<B::Tensor>, B::Error>,
    ) -> Result<Outputs<ErasedTensor>, ErasedError> {
        let mut operands: SmallVec<[Option<&B::Tensor>; 4]> = SmallVec::with_capacity(inputs.len());
        for (index, x) in inputs.iter().enumerate() {
            operands.push(match x {
                None => None,
                Some(x) => Some(x.get().ok_or_else(|| foreign(op, index))?),
            });
        }
        let results = call(&operands).map_err(own::<B>)?;
        Ok(results.into_iter().map(ErasedTensor::new).collect())
    }
}

/// Boxes an error as the cause of another, without [`ErasedError`] around it.
pub fn boxed<E: std::error::Error + Send + Sync + 'static>(error: E) -> BoxError {
    match BoxError::from(error).downcast::<ErasedError>() {
        Ok(erased) => erased.into_source(),
        Err(error) => error,
    }
}

/// Erases the type of a backend's own error.
pub fn own<B: Backend + ?Sized>(error: B::Error) -> ErasedError {
    ErasedError::Backend(error.into())
}

/// The error for an operand that is a tensor of another backend.
pub fn foreign(op: &'static str, index: usize) -> Error {
    Error::Operand { op, index, expected: "a tensor of this backend" }
}

impl<B: Backend + ?Sized> Kernels for WithFamilies<'_, B> {
    fn primitive(
        &self,
        op: Primitive,
        inputs: &[Option<&ErasedTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<ErasedTensor>, ErasedError> {
        // A body may call thousands.
        crate::RunOptions::check_current()?;
        self.call(op.spec().method, inputs, |inputs| crate::call::call_primitive(self.on, op, inputs, params))
    }

    fn native(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&ErasedTensor>],
        params: &[Param<'_>],
    ) -> Option<Result<Outputs<ErasedTensor>, ErasedError>> {
        if self.declined(op) && !self.called.swap(true, Ordering::Relaxed) {
            return None;
        }
        let table = super::extended::native_in(self.tables, op)?;
        Some(self.call(op.method, inputs, |inputs| table.call(self.on, op, inputs, params)))
    }

    fn to_host(&self, x: &ErasedTensor) -> Result<TensorData, ErasedError> {
        let typed = x.get().ok_or_else(|| foreign("to_host", 0))?;
        self.on.to_host(typed).map_err(own::<B>)
    }

    fn types(&self) -> DataTypes {
        self.on.types()
    }

    fn refuses_types(&self) -> bool {
        refuses_types(self.on)
    }

    fn natives(&self) -> Vec<(Family, OpSet)> {
        let native = |table: &FamilyTable<B>| match self.declined {
            Some(op) if op.family == table.family() => table.native().without(op.index),
            _ => table.native(),
        };
        self.tables.iter().map(|table| (table.family(), native(table))).collect()
    }

    fn runs_whole_graphs(&self) -> bool {
        self.on.runs_whole_graphs()
    }

    fn runs_primitive(&self, op: Primitive) -> bool {
        self.on.runs_primitive(op)
    }

    fn execute(
        &self,
        graph: &GraphProto,
        inputs: HashMap<String, ErasedTensor>,
        attrs: BackendAttrs<'_>,
    ) -> Result<HashMap<String, ErasedTensor>, ErasedError> {
        let attrs = attrs.asked_of(self.on);
        let results = self.on.execute(graph, typed_inputs::<B>(inputs)?, attrs).map_err(own::<B>)?;
        Ok(erased_results::<B>(results))
    }
}

/// Restores the types of a graph's inputs.
fn typed_inputs<B: Backend + ?Sized>(
    inputs: HashMap<String, ErasedTensor>,
) -> Result<HashMap<String, B::Tensor>, ErasedError> {
    let typed = inputs.into_iter().enumerate().map(|(index, (name, x))| {
        let x: &B::Tensor = x.get().ok_or_else(|| foreign("execute", index))?;
        Ok((name, x.clone()))
    });
    typed.collect()
}

/// Erases the types of a graph's outputs.
fn erased_results<B: Backend + ?Sized>(results: HashMap<String, B::Tensor>) -> HashMap<String, ErasedTensor> {
    results.into_iter().map(|(name, y)| (name, ErasedTensor::new(y))).collect()
}

/// Returns whether a backend refuses tensors of some element type. A wrapper that emulates the missing types of another
/// backend refuses none, although it reports the types of the other backend to bodies.
pub(super) fn refuses_types<B: Backend + ?Sized>(on: &B) -> bool {
    !on.types().is_all() && TypeId::of::<B::Tensor>() != TypeId::of::<NarrowTensor>()
}

/// An owned backend with the families that it adopted.
pub struct Owned<B: Backend + 'static> {
    /// The backend.
    pub backend: B,
    /// The tables of its families.
    pub tables: &'static [FamilyTable<B>],
}

impl<B: Backend> Owned<B> {
    fn borrowed(&self) -> WithFamilies<'_, B> {
        WithFamilies::new(&self.backend, self.tables)
    }
}

impl<B: Backend> Kernels for Owned<B> {
    fn primitive(
        &self,
        op: Primitive,
        inputs: &[Option<&ErasedTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<ErasedTensor>, ErasedError> {
        self.borrowed().primitive(op, inputs, params)
    }

    fn native(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&ErasedTensor>],
        params: &[Param<'_>],
    ) -> Option<Result<Outputs<ErasedTensor>, ErasedError>> {
        self.borrowed().native(op, inputs, params)
    }

    fn to_host(&self, x: &ErasedTensor) -> Result<TensorData, ErasedError> {
        self.borrowed().to_host(x)
    }

    fn types(&self) -> DataTypes {
        self.backend.types()
    }

    fn declines(&self, graph: &Graph, node: &Node) -> Option<String> {
        self.backend.declines(graph, node)
    }

    fn wrapped<'a>(&self, error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Error> {
        self.backend.wrapped_in(error)
    }

    fn refuses_types(&self) -> bool {
        self.borrowed().refuses_types()
    }

    fn natives(&self) -> Vec<(Family, OpSet)> {
        self.borrowed().natives()
    }

    fn runs_whole_graphs(&self) -> bool {
        self.backend.runs_whole_graphs()
    }

    fn runs_primitive(&self, op: Primitive) -> bool {
        self.backend.runs_primitive(op)
    }

    fn execute(
        &self,
        graph: &GraphProto,
        inputs: HashMap<String, ErasedTensor>,
        attrs: BackendAttrs<'_>,
    ) -> Result<HashMap<String, ErasedTensor>, ErasedError> {
        self.borrowed().execute(graph, inputs, attrs)
    }

    fn prepare(&self, step: &PrepareStep<'_, ErasedTensor>) -> Result<Option<ErasedKernel>, ErasedError> {
        let typed = step.with_constants(ErasedTensor::get::<B::Tensor>);
        let typed = typed.ok_or_else(|| foreign("constant", 0))?;
        let kernel = self.backend.prepare(&typed).map_err(own::<B>)?;
        step.note_asked_of(&typed);
        Ok(kernel.map(|kernel| ErasedKernel {
            bytes: kernel.bytes(),
            reads: (0..typed.operands().len()).map(|operand| kernel.reads(operand)).collect(),
            kernel: Box::new(kernel),
        }))
    }

    fn run_prepared(
        &self,
        kernel: &(dyn Any + Send + Sync),
        operands: &mut KernelOperands<'_, ErasedTensor>,
    ) -> Result<Outputs<ErasedTensor>, ErasedError> {
        let Some(kernel) = kernel.downcast_ref::<Box<dyn Kernel<B>>>() else {
            return Err(Error::excluded("a kernel of the backend that runs it").into());
        };
        // Operands that the kernel may take are moved out, so that it holds the only handle.
        let taken: SmallVec<[Option<B::Tensor>; 4]> = (0..operands.len())
            .map(|index| match operands.take(index) {
                Some(x) => x.into_typed().map(Some).ok_or_else(|| foreign("kernel", index)),
                None => Ok(None),
            })
            .collect::<Result<_, Error>>()?;
        let mut typed: SmallVec<[KernelOperand<'_, B::Tensor>; 4]> = SmallVec::with_capacity(taken.len());
        for (index, taken) in taken.into_iter().enumerate() {
            typed.push(match (taken, operands.get(index)) {
                (Some(x), _) => KernelOperand::Owned(x),
                (None, Some(x)) => KernelOperand::Shared(x.get().ok_or_else(|| foreign("kernel", index))?),
                (None, None) => KernelOperand::Absent,
            });
        }
        let results = kernel.run(&self.backend, &mut KernelOperands::from(typed)).map_err(own::<B>)?;
        Ok(results.into_iter().map(ErasedTensor::new).collect())
    }

    fn dispatch(
        &self,
        graph: Arc<GraphProto>,
        inputs: HashMap<String, ErasedTensor>,
        attrs: BackendAttrs<'_>,
    ) -> ContractResponse<HashMap<String, ErasedTensor>, ErasedError> {
        let typed = match typed_inputs::<B>(inputs) {
            Ok(typed) => typed,
            Err(error) => return ContractResponse::Now(Err(error)),
        };
        let results = |results: Result<HashMap<String, B::Tensor>, B::Error>| {
            results.map(erased_results::<B>).map_err(own::<B>)
        };
        let attrs = attrs.asked_of(&self.backend);
        match self.backend.dispatch(graph, typed, attrs, CompletionHandle::new()) {
            ContractResponse::Now(now) => ContractResponse::Now(results(now)),
            ContractResponse::Later(later) => ContractResponse::Later(later.map(results)),
        }
    }

    fn compile(
        &self,
        module: Module,
        options: &CompileOptions,
        reached: &Arc<AtomicBool>,
    ) -> Result<ErasedCompiled, ErasedError> {
        let options = options.clone().with_families(self.tables).asking(&self.backend, reached);
        let executable = self.backend.compile(module, &options).map_err(own::<B>)?;
        Ok(ErasedCompiled {
            inputs: executable.inputs().to_vec(),
            outputs: executable.outputs().to_vec(),
            saved: |executable| match executable.downcast_ref::<Box<dyn Executable<B>>>() {
                Some(executable) => executable.compiled_module().map_err(own::<B>),
                None => Ok(None),
            },
            executable: Box::new(executable),
        })
    }

    fn run_compiled(
        &self,
        compiled: &ErasedCompiled,
        inputs: &[Option<OnnxValue<ErasedTensor>>],
    ) -> Result<Vec<OnnxValue<ErasedTensor>>, ErasedError> {
        let Some(executable) = compiled.executable.downcast_ref::<Box<dyn Executable<B>>>() else {
            return Err(Error::excluded("a graph of the backend that runs it").into());
        };
        let mut typed = |x: &'_ ErasedTensor| x.get::<B::Tensor>().cloned().ok_or_else(|| foreign("run", 0));
        let inputs: Vec<Option<OnnxValue<B::Tensor>>> = inputs
            .iter()
            .map(|item| item.as_ref().map(|item| item.try_map(&mut typed)).transpose())
            .collect::<Result<_, Error>>()?;
        let refs: Vec<Option<OnnxValue<&B::Tensor>>> =
            inputs.iter().map(|item| item.as_ref().map(|item| item.map(&mut |x| x))).collect();
        let results = executable.run_items(&self.backend, &refs).map_err(own::<B>)?;
        Ok(results.iter().map(|y| y.map(&mut |y: &B::Tensor| ErasedTensor::new(y.clone()))).collect())
    }

    fn materialize(&self, type_hash: u64, bytes: Vec<u8>) -> Result<ErasedTensor, ErasedError> {
        self.backend.materialize_from_wire(type_hash, bytes).map(ErasedTensor::new).map_err(own::<B>)
    }

    fn device_info(&self) -> service::DeviceInfo {
        self.backend.device_info()
    }

    fn lifecycle(&self) -> Option<&dyn service::Lifecycle> {
        self.backend.lifecycle()
    }

    fn memory(&self) -> Option<&dyn service::Memory<ErasedTensor>> {
        self.backend.memory().map(|_| self as _)
    }

    fn user_kernels(&self) -> Option<&dyn service::Kernels<ErasedTensor>> {
        self.backend.kernels().map(|_| self as _)
    }
}

/// A backend whose type is erased, with every extension family: native operations are the backend's own, all others run
/// their bodies.
#[derive(Clone, Copy)]
pub struct ErasedBackend<'a>(#[doc(hidden)] pub &'a dyn Kernels);

impl std::fmt::Debug for ErasedBackend<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ErasedBackend")
    }
}

impl ErasedBackend<'_> {
    fn apply(
        &self,
        op: Primitive,
        inputs: &[Option<&ErasedTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<ErasedTensor>, ErasedError> {
        self.0.primitive(op, inputs, params)
    }
}

#[diagnostic::do_not_recommend]
impl Backend for ErasedBackend<'_> {
    type Tensor = ErasedTensor;
    type Error = ErasedError;

    fn wrapped(error: &ErasedError) -> Option<&Error> {
        match error {
            ErasedError::Bb(error) => Some(error),
            ErasedError::Backend(_) => None,
        }
    }

    fn wrapped_in<'a>(&self, error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Error> {
        match error.downcast_ref() {
            Some(ErasedError::Bb(error)) => Some(error),
            Some(ErasedError::Backend(error)) => self.0.wrapped(&**error),
            None => self.0.wrapped(error),
        }
    }

    crate::forward_to_call!(Self::apply);

    fn to_host(&self, x: &ErasedTensor) -> Result<TensorData, ErasedError> {
        self.0.to_host(x)
    }

    fn types(&self) -> DataTypes {
        self.0.types()
    }
}

#[diagnostic::do_not_recommend]
impl super::Ops for ErasedBackend<'_> {
    fn vendor(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&ErasedTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<ErasedTensor>, ErasedError> {
        match self.0.native(op, inputs, params) {
            Some(outputs) => outputs,
            None => super::vendor::erased_body(self, op, inputs, params),
        }
    }
}

/// Runs the body of an operation on a backend. Inside the body, operations that the backend declares native are called.
///
/// # Errors
///
/// The body's own errors, and the backend's.
pub(crate) fn run_body<B: Backend + ?Sized>(
    on: &WithFamilies<'_, B>,
    op: &'static OpSpec,
    inputs: &[Option<&B::Tensor>],
    params: &[Param<'_>],
) -> Result<Outputs<B::Tensor>, B::Error> {
    let results = call_erased(on, op, &erased(inputs), params).map_err(ErasedError::typed::<B>)?;
    typed::<B>(op.method, &results)
}

/// Calls a primitive on a backend that lacks element types with operands or parameters of any type, as far as that is exact.
///
/// # Errors
///
/// The backend's own; [`NarrowError`](crate::NarrowError).
pub(super) fn run_narrowed<B: Backend + ?Sized>(
    on: &WithFamilies<'_, B>,
    op: Primitive,
    inputs: &[Option<&B::Tensor>],
    params: &[Param<'_>],
) -> Result<Outputs<B::Tensor>, B::Error> {
    let results =
        narrow::primitive_borrowed(on, op, &erased(inputs), params).map_err(ErasedError::typed::<B>)?;
    typed::<B>(op.spec().method, &results)
}

/// The operands of a call on an erased backend.
type Erased = SmallVec<[Option<ErasedTensor>; 4]>;

fn erased<T: Tensor>(inputs: &[Option<&T>]) -> Erased {
    inputs.iter().map(|x| x.map(|x| ErasedTensor::new(x.clone()))).collect()
}

/// Restores the type of results.
fn typed<B: Backend + ?Sized>(
    op: &'static str,
    results: &[ErasedTensor],
) -> Result<Outputs<B::Tensor>, B::Error> {
    let mut typed = Outputs::with_capacity(results.len());
    for (index, result) in results.iter().enumerate() {
        let result = result.get::<B::Tensor>();
        typed.push(result.ok_or_else(|| foreign(op, index))?.clone());
    }
    Ok(typed)
}

/// Runs the body of an operation on a backend whose type is erased.
///
/// # Errors
///
/// The body's own errors, and the backend's.
pub(crate) fn erased_body(
    on: &dyn Kernels,
    op: &'static OpSpec,
    inputs: &[Option<&ErasedTensor>],
    params: &[Param<'_>],
) -> Result<Outputs<ErasedTensor>, ErasedError> {
    let inputs: Erased = inputs.iter().map(|x| x.cloned()).collect();
    call_erased(on, op, &inputs, params)
}

/// Runs the body of an operation. This is the part of [`run_body`] that is compiled once.
fn call_erased(
    on: &dyn Kernels,
    op: &'static OpSpec,
    inputs: &[Option<ErasedTensor>],
    params: &[Param<'_>],
) -> Result<Outputs<ErasedTensor>, ErasedError> {
    if on.refuses_types() {
        return narrow::call_borrowed(on, op, inputs, params);
    }
    let inputs: SmallVec<[Option<&ErasedTensor>; 4]> = inputs.iter().map(Option::as_ref).collect();
    super::call(&ErasedBackend(on), op, &inputs, params)
}
