//! Wraps a backend of any type into one type, for layers that are chosen at run time.

use super::InnerBackend;
use super::erased_graph::ErasedGraph;
use crate::contract::{CompileOptions, Module};
use crate::erased::RunsBodies;
use crate::ext::{ErasedBackend, ErasedError, ErasedKernel, ErasedTensor, Kernels, OpSet};
use crate::narrow::{NarrowTensor, Narrowed, NarrowedOn};
use crate::{
    Backend, BackendAttrs, CompletionHandle, ContractResponse, Error, Executable, Kernel, KernelOperands,
    Outputs, PrepareStep, ResultMaker, service,
};
use bb_ir::graph::{Graph, Node};
use bb_ir::op::{Family, OpSpec, Param, Primitive};
use bb_ir::proto::GraphProto;
use bb_ir::{DataTypes, TensorData};
use std::collections::HashMap;
use std::sync::Arc;

/// A backend whose type is erased. A layer on top of it is compiled once, for all backends.
///
/// Each call is indirect and allocates for each result. Prepared kernels, native operations, element types and services
/// are provided by the wrapped backend.
#[derive(Clone)]
pub struct Erased {
    pub(crate) kernels: Arc<dyn Kernels>,
    version: &'static str,
    /// Whether [`with_every_type`](Self::with_every_type) may round floats
    /// ([`OpenOptions::narrow_floats`](crate::OpenOptions::narrow_floats)).
    pub(crate) floats: bool,
}

impl Erased {
    /// Erases the type of a backend or a layer.
    pub fn new<B: InnerBackend>(backend: B) -> Erased {
        let version = backend.version();
        let tables = super::natives::kept_tables::<B>(&backend.natives());
        Erased { kernels: Arc::new(crate::ext::Owned { backend, tables }), version, floats: false }
    }

    /// Sets whether the emulation of element types may round floats.
    pub(crate) fn with_floats(self, floats: bool) -> Erased {
        Erased { floats, ..self }
    }

    /// Returns the backend with every element type, as users of a running backend see it. A type that the backend lacks
    /// is stored in another type if that is exact; otherwise the elements stay on the host.
    ///
    /// A layer that computes in element types of its own choice calls this in
    /// [`RegisteredLayer::on`](crate::RegisteredLayer::on). Operations and native methods of the layer then get tensors of
    /// every type. [`Backend::types`] still returns the types of the backend, because bodies of operations compute in them. Each
    /// result costs one more allocation, unless the backend supports every type.
    #[must_use]
    pub fn with_every_type(self) -> Erased {
        if self.has_every_type() {
            return self;
        }
        let tables = super::natives::kept_tables::<Narrowed>(&self.natives());
        let backend = Narrowed::new(self.kernels, self.floats);
        Erased { kernels: Arc::new(crate::ext::Owned { backend, tables }), ..self }
    }

    fn apply(
        &self,
        op: Primitive,
        inputs: &[Option<&ErasedTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<ErasedTensor>, ErasedError> {
        self.kernels.primitive(op, inputs, params)
    }
}

impl std::fmt::Debug for Erased {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Erased({})", self.version)
    }
}

#[diagnostic::do_not_recommend]
impl Backend for Erased {
    type Tensor = ErasedTensor;
    type Error = ErasedError;

    crate::forward_to_call!(Self::apply);

    fn types(&self) -> DataTypes {
        self.kernels.types()
    }

    fn has_every_type(&self) -> bool {
        !self.kernels.refuses_types()
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

    fn declines(&self, graph: &Graph, node: &Node) -> Option<String> {
        self.kernels.declines(graph, node)
    }

    fn wrapped(error: &ErasedError) -> Option<&Error> {
        <ErasedBackend<'_> as Backend>::wrapped(error)
    }

    fn wrapped_in<'a>(&self, error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Error> {
        ErasedBackend(&*self.kernels).wrapped_in(error)
    }

    fn to_host(&self, x: &ErasedTensor) -> Result<TensorData, ErasedError> {
        self.kernels.to_host(x)
    }

    fn read_into(&self, x: &ErasedTensor, into: &mut [u8]) -> Result<(), ErasedError> {
        self.kernels.read_into(x, into)
    }

    fn materialize_from_wire(&self, type_hash: u64, bytes: Vec<u8>) -> Result<ErasedTensor, ErasedError> {
        self.kernels.materialize(type_hash, bytes)
    }

    fn stands_on(&self, backend: *const (), ty: &str) -> bool {
        self.kernels.is(backend, ty)
    }

    fn execute(
        &self,
        graph: &GraphProto,
        inputs: HashMap<String, ErasedTensor>,
        attrs: BackendAttrs<'_>,
    ) -> Result<HashMap<String, ErasedTensor>, ErasedError> {
        self.kernels.execute(graph, inputs, attrs.handed_on_by(self))
    }

    /// The wrapped backend may answer later, by its own handle.
    fn dispatch(
        &self,
        graph: Arc<GraphProto>,
        inputs: HashMap<String, ErasedTensor>,
        attrs: BackendAttrs<'_>,
        _completion: CompletionHandle<HashMap<String, ErasedTensor>, ErasedError>,
    ) -> ContractResponse<HashMap<String, ErasedTensor>, ErasedError> {
        self.kernels.dispatch(graph, inputs, attrs.handed_on_by(self))
    }

    fn compile(
        &self,
        module: Module,
        options: &CompileOptions,
    ) -> Result<Box<dyn Executable<Self>>, ErasedError> {
        let compiled = self.kernels.compile(module, options, options.asking_about(self))?;
        Ok(Box::new(ErasedGraph(compiled)))
    }

    fn prepare(
        &self,
        step: &PrepareStep<'_, ErasedTensor>,
    ) -> Result<Option<Box<dyn Kernel<Self>>>, ErasedError> {
        let kernel = self.kernels.prepare(step)?;
        Ok(kernel.map(|kernel| Box::new(kernel) as Box<dyn Kernel<Self>>))
    }

    fn device_info(&self) -> service::DeviceInfo {
        self.kernels.device_info()
    }

    fn lifecycle(&self) -> Option<&dyn service::Lifecycle> {
        self.kernels.lifecycle()
    }

    fn memory(&self) -> Option<&dyn service::Memory<ErasedTensor>> {
        self.kernels.memory()
    }

    fn kernels(&self) -> Option<&dyn service::Kernels<ErasedTensor>> {
        self.kernels.user_kernels()
    }
}

impl InnerBackend for Erased {
    fn natives(&self) -> Vec<(Family, OpSet)> {
        self.kernels.natives()
    }

    fn native(
        &self,
        spec: &'static OpSpec,
        inputs: &[Option<&ErasedTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<ErasedTensor>, ErasedError> {
        match self.kernels.native(spec, inputs, params) {
            Some(outputs) => outputs,
            None => self.kernels.run_body(spec, inputs, params),
        }
    }

    fn version(&self) -> &'static str {
        self.version
    }
}

impl InnerBackend for Narrowed {
    fn natives(&self) -> Vec<(Family, OpSet)> {
        self.device().natives()
    }

    fn native(
        &self,
        spec: &'static OpSpec,
        inputs: &[Option<&NarrowTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<NarrowTensor>, ErasedError> {
        NarrowedOn::native(self, spec, inputs, params)
    }
}

impl Kernel<Erased> for ErasedKernel {
    fn run(
        &self,
        on: &Erased,
        operands: &mut KernelOperands<'_, ErasedTensor>,
    ) -> Result<Outputs<ErasedTensor>, ErasedError> {
        on.kernels.run_prepared(&*self.kernel, operands)
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn reads(&self, operand: usize) -> bool {
        self.reads.get(operand).copied().unwrap_or(true)
    }
}
