//! Type-erased access to an owned backend with its families.

use super::borrowed::{erased_results, typed_inputs};
use super::{ErasedCompiled, ErasedError, ErasedKernel, ErasedTensor, Kernels, WithFamilies, foreign, own};
use crate::contract::OnnxValue;
use crate::contract::{FamilyTable, OpSet};
use crate::{
    Backend, BackendAttrs, CompileOptions, CompletionHandle, ContractResponse, Error, Executable, Kernel,
    KernelOperand, KernelOperands, Module, Outputs, PrepareStep, service,
};
use bb_ir::graph::{Graph, Node};
use bb_ir::op::{Family, OpSpec, Param, Primitive};
use bb_ir::proto::GraphProto;
use bb_ir::{DataTypes, TensorData};
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
        // Operands that the kernel may take are moved out, so that the kernel gets the only handle.
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
