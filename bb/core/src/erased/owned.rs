//! Type-erased access to an owned backend with its families.

use super::borrowed::{erased_named, typed_named, typed_operands};
use super::{ErasedCompiled, ErasedError, ErasedKernel, ErasedTensor, Kernels, WithFamilies, foreign, own};
use crate::contract::{FamilyTable, OnnxValue, OpSet, catch};
use crate::measure::Profile;
use crate::{
    Backend, BackendAttrs, CompileOptions, CompletionHandle, ContractResponse, Error, Executable, Kernel,
    KernelOperand, KernelOperands, Module, Outputs, Port, PrepareStep, ResultBuffer, ResultMaker, Tensor,
    service,
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

/// An owned backend with the families that it implements.
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
    fn any(&self) -> Option<&(dyn Any + Send + Sync)> {
        Some(self)
    }

    fn is(&self, backend: *const (), ty: &str) -> bool {
        let own = std::ptr::from_ref(&self.backend).cast();
        (std::ptr::eq(own, backend) && ty == std::any::type_name::<B>())
            || self.backend.stands_on(backend, ty)
    }

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

    fn read_into(&self, x: &ErasedTensor, into: &mut [u8]) -> Result<(), ErasedError> {
        let typed = x.get::<B::Tensor>().ok_or_else(|| foreign("read_into", 0))?;
        self.backend.read_into(&typed, into).map_err(own::<B>)
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

    fn maker_of(&self, spec: &'static OpSpec) -> ResultMaker {
        self.backend.maker_of(spec)
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
        let constants = typed_constants::<B::Tensor>(step)?;
        let typed = step.with_constants(&constants);
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
        // Operands that the kernel may take are moved out, so that the kernel gets the only handle.
        let taken: SmallVec<[Option<B::Tensor>; 4]> = (0..operands.len())
            .map(|index| match operands.take(index) {
                Some(x) => x.into_typed().map(Some).ok_or_else(|| foreign("kernel", index)),
                None => Ok(None),
            })
            .collect::<Result<_, Error>>()?;
        let shared: SmallVec<[Option<&ErasedTensor>; 4]> =
            (0..operands.len()).map(|index| operands.get(index)).collect();
        let shared = typed_operands::<B::Tensor>("kernel", &shared)?;
        let mut typed: SmallVec<[KernelOperand<'_, B::Tensor>; 4]> = SmallVec::with_capacity(taken.len());
        for (taken, shared) in taken.into_iter().zip(&shared) {
            typed.push(match (taken, shared) {
                (Some(x), _) => KernelOperand::Owned(x),
                (None, Some(x)) => KernelOperand::Shared(x),
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
        let typed = match typed_named(inputs) {
            Ok(typed) => typed,
            Err(error) => return ContractResponse::Now(Err(error.into())),
        };
        let results = |results: Result<HashMap<String, B::Tensor>, B::Error>| {
            results.map(erased_named).map_err(own::<B>)
        };
        let attrs = attrs.asked_of(&self.backend);
        match self.backend.dispatch(graph, typed, attrs, CompletionHandle::new()) {
            ContractResponse::Now(now) => ContractResponse::Now(results(now)),
            // The caller takes the answer after this call has ended, so panics are caught here.
            ContractResponse::Later(later) => ContractResponse::Later(later.map(move |answer| {
                catch(|| results(answer)).unwrap_or_else(|message| {
                    let backend = std::any::type_name::<B>();
                    Err(Error::Panicked { backend, op: "dispatch", message }.into())
                })
            })),
        }
    }

    fn compile(
        &self,
        module: Module,
        options: &CompileOptions,
        reached: Option<&Arc<AtomicBool>>,
    ) -> Result<Box<dyn ErasedCompiled>, ErasedError> {
        let mut options = options.clone().with_families(self.tables);
        if let Some(reached) = reached {
            options = options.asking(&self.backend, reached);
        }
        Ok(Box::new(Compiled::<B>(self.backend.compile(module, &options).map_err(own::<B>)?)))
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

/// Restores the types of the constant operands of a step.
///
/// # Errors
///
/// The error of [`foreign`].
pub(crate) fn typed_constants<T: Tensor>(
    step: &PrepareStep<'_, ErasedTensor>,
) -> Result<SmallVec<[Option<T>; 4]>, Error> {
    let constants: SmallVec<[Option<&ErasedTensor>; 4]> =
        (0..step.operands().len()).map(|operand| step.constant(operand)).collect();
    typed_operands("constant", &constants)
}

/// A compiled graph in the type of its backend.
struct Compiled<B: Backend + 'static>(Box<dyn Executable<B>>);

impl<B: Backend + 'static> Compiled<B> {
    /// Returns the backend that compiled the graph.
    fn on<'a>(&self, on: &'a dyn Kernels) -> Result<&'a B, Error> {
        let own = on.any().and_then(|any| any.downcast_ref::<Owned<B>>());
        Ok(&own.ok_or_else(|| Error::excluded("a graph of the backend that runs it"))?.backend)
    }
}

impl<B: Backend + 'static> ErasedCompiled for Compiled<B> {
    fn inputs(&self) -> &[Port] {
        self.0.inputs()
    }

    fn outputs(&self) -> &[Port] {
        self.0.outputs()
    }

    fn run(
        &self,
        on: &dyn Kernels,
        inputs: &[Option<&ErasedTensor>],
        result: &mut dyn FnMut(ErasedTensor),
    ) -> Result<(), ErasedError> {
        let inputs = typed_operands::<B::Tensor>("run", inputs)?;
        let inputs: SmallVec<[Option<&B::Tensor>; 4]> = inputs.iter().map(Option::as_ref).collect();
        let results = self.0.run(self.on(on)?, &inputs).map_err(own::<B>)?;
        results.into_iter().for_each(|y| result(ErasedTensor::new(y)));
        Ok(())
    }

    fn run_into(
        &self,
        on: &dyn Kernels,
        inputs: &[Option<&ErasedTensor>],
        outputs: &mut [Option<&mut ResultBuffer<'_>>],
    ) -> Result<(), ErasedError> {
        let inputs = typed_operands::<B::Tensor>("run", inputs)?;
        let inputs: SmallVec<[Option<&B::Tensor>; 4]> = inputs.iter().map(Option::as_ref).collect();
        self.0.run_into(self.on(on)?, &inputs, outputs).map_err(own::<B>)
    }

    fn run_items(
        &self,
        on: &dyn Kernels,
        inputs: &[Option<OnnxValue<ErasedTensor>>],
        profile: Option<&mut Profile>,
    ) -> Result<Vec<OnnxValue<ErasedTensor>>, ErasedError> {
        let mut typed = |x: &ErasedTensor| x.get::<B::Tensor>().ok_or_else(|| foreign("run", 0));
        let inputs: Vec<Option<OnnxValue<B::Tensor>>> = inputs
            .iter()
            .map(|item| item.as_ref().map(|item| item.try_map(&mut typed)).transpose())
            .collect::<Result<_, Error>>()?;
        let refs: Vec<Option<OnnxValue<&B::Tensor>>> =
            inputs.iter().map(|item| item.as_ref().map(|item| item.map(&mut |x| x))).collect();
        let on = self.on(on)?;
        let results = match profile {
            None => self.0.run_items(on, &refs),
            Some(profile) => self.0.run_profiled(on, &refs, profile),
        };
        let erase = &mut |y: &B::Tensor| ErasedTensor::new(y.clone());
        Ok(results.map_err(own::<B>)?.iter().map(|y| y.map(erase)).collect())
    }

    fn plan_ahead(
        &self,
        on: &dyn Kernels,
        inputs: &[Option<(DataType, &[usize])>],
    ) -> Result<(), ErasedError> {
        self.0.plan_ahead(self.on(on)?, inputs).map_err(own::<B>)
    }

    fn compiled_module(&self) -> Result<Option<Module>, ErasedError> {
        self.0.compiled_module().map_err(own::<B>)
    }
}
