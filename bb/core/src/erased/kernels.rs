//! The calls that type-erased backends support.

use super::{ErasedError, ErasedTensor};
use crate::contract::{OnnxValue, OpSet, copy_from_host};
use crate::measure::Profile;
use crate::{
    BackendAttrs, CompileOptions, ContractResponse, Error, KernelOperands, Module, Outputs, Port,
    PrepareStep, ResultBuffer, ResultMaker, service,
};
use bb_ir::graph::{Graph, Node};
use bb_ir::op::{Family, OpSpec, Param, Primitive};
use bb_ir::proto::GraphProto;
use bb_ir::{DataType, DataTypes, TensorData};
use smallvec::SmallVec;
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A kernel that a type-erased backend has prepared.
pub struct ErasedKernel {
    /// The kernel, in the backend's own type.
    pub(crate) kernel: Box<dyn Any + Send + Sync>,
    pub(crate) bytes: usize,
    pub(crate) reads: SmallVec<[bool; 4]>,
}

/// A graph that a type-erased backend has compiled ([`Executable`](crate::Executable)). Each method gets the backend that
/// compiled it.
#[expect(missing_docs, reason = "the methods of the same name in `Executable`")]
pub trait ErasedCompiled: Send + Sync {
    fn inputs(&self) -> &[Port];

    fn outputs(&self) -> &[Port];

    /// Runs the graph, and passes each output to `result`.
    fn run(
        &self,
        on: &dyn Kernels,
        inputs: &[Option<&ErasedTensor>],
        result: &mut dyn FnMut(ErasedTensor),
    ) -> Result<(), ErasedError>;

    fn run_into(
        &self,
        on: &dyn Kernels,
        inputs: &[Option<&ErasedTensor>],
        outputs: &mut [Option<&mut ResultBuffer<'_>>],
    ) -> Result<(), ErasedError>;

    /// Runs the graph on ONNX values, and measures it if there is a profile.
    fn run_items(
        &self,
        on: &dyn Kernels,
        inputs: &[Option<OnnxValue<ErasedTensor>>],
        profile: Option<&mut Profile>,
    ) -> Result<Vec<OnnxValue<ErasedTensor>>, ErasedError>;

    fn plan_ahead(
        &self,
        on: &dyn Kernels,
        inputs: &[Option<(DataType, &[usize])>],
    ) -> Result<(), ErasedError>;

    fn compiled_module(&self) -> Result<Option<Module>, ErasedError>;
}

/// A backend whose type is erased.
pub trait Kernels: Send + Sync {
    /// Returns the backend in its own type, for callers that know the type; `None` if it is borrowed.
    fn any(&self) -> Option<&(dyn Any + Send + Sync)> {
        None
    }

    /// Returns whether this is the backend at an address, of the type with this name, or a layer that passes graphs on to
    /// it.
    fn is(&self, backend: *const (), ty: &str) -> bool {
        let _other = (backend, ty);
        false
    }

    /// Calls a primitive.
    fn primitive(
        &self,
        op: Primitive,
        inputs: &[Option<&ErasedTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<ErasedTensor>, ErasedError>;

    /// Calls an operation of a family if the backend declares it native; otherwise returns `None`.
    fn native(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&ErasedTensor>],
        params: &[Param<'_>],
    ) -> Option<Result<Outputs<ErasedTensor>, ErasedError>>;

    /// Copies a tensor to the host.
    fn to_host(&self, x: &ErasedTensor) -> Result<TensorData, ErasedError>;

    /// Copies a tensor into memory of the caller ([`Backend::read_into`](crate::Backend::read_into)).
    fn read_into(&self, x: &ErasedTensor, into: &mut [u8]) -> Result<(), ErasedError> {
        Ok(copy_from_host(&self.to_host(x)?, into)?)
    }

    /// Returns the element types that the backend supports.
    fn types(&self) -> DataTypes;

    /// Returns the reason why the backend refuses a node of a graph ([`Backend::declines`](crate::Backend::declines)).
    fn declines(&self, graph: &Graph, node: &Node) -> Option<String> {
        let _any = (graph, node);
        None
    }

    /// Returns the error of `bb` that an error of the backend wraps ([`Backend::wrapped`](crate::Backend::wrapped)).
    fn wrapped<'a>(&self, error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Error> {
        let _opaque = error;
        None
    }

    /// Returns whether the backend refuses tensors of some element type, because it lacks the type and no wrapper
    /// emulates it.
    fn refuses_types(&self) -> bool {
        false
    }

    /// Returns the operations of families that the backend declares native.
    fn natives(&self) -> Vec<(Family, OpSet)> {
        Vec::new()
    }

    /// Returns whether the backend runs whole graphs.
    fn runs_whole_graphs(&self) -> bool {
        false
    }

    /// Returns whether a backend that runs whole graphs supports a primitive
    /// ([`Backend::runs_primitive`](crate::Backend::runs_primitive)).
    fn runs_primitive(&self, op: Primitive) -> bool {
        let _any = op;
        true
    }

    /// Returns the part of the program that computes an operation ([`Backend::maker_of`](crate::Backend::maker_of)).
    fn maker_of(&self, spec: &'static OpSpec) -> ResultMaker {
        let _any = spec;
        ResultMaker::BACKEND
    }

    /// Prepares a step of a plan ([`Backend::prepare`](crate::Backend::prepare)).
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

    /// Runs a whole graph of primitives.
    fn execute(
        &self,
        graph: &GraphProto,
        inputs: HashMap<String, ErasedTensor>,
        attrs: BackendAttrs<'_>,
    ) -> Result<HashMap<String, ErasedTensor>, ErasedError>;

    /// Runs a graph and returns the result immediately or later ([`Backend::dispatch`](crate::Backend::dispatch)).
    fn dispatch(
        &self,
        graph: Arc<GraphProto>,
        inputs: HashMap<String, ErasedTensor>,
        attrs: BackendAttrs<'_>,
    ) -> ContractResponse<HashMap<String, ErasedTensor>, ErasedError> {
        ContractResponse::Now(self.execute(&graph, inputs, attrs))
    }

    /// Compiles a graph ([`Backend::compile`](crate::Backend::compile)). If there is a flag `reached` and the backend does
    /// not override the method, sets the flag and fails.
    fn compile(
        &self,
        module: Module,
        options: &CompileOptions,
        reached: Option<&Arc<AtomicBool>>,
    ) -> Result<Box<dyn ErasedCompiled>, ErasedError> {
        let _uncompiled = (module, options, reached);
        Err(Error::excluded("a backend that is kept").into())
    }

    /// Builds a tensor from a frame ([`Backend::materialize_from_wire`](crate::Backend::materialize_from_wire)).
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

    /// Returns the memory service, if the backend has one.
    fn memory(&self) -> Option<&dyn service::Memory<ErasedTensor>> {
        None
    }

    /// Returns the service for users' kernels, if the backend has one.
    fn user_kernels(&self) -> Option<&dyn service::Kernels<ErasedTensor>> {
        None
    }
}
