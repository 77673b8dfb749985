//! The services of a backend that lacks element types.
//!
//! They work on the backend's own tensors. Tensors whose elements are on the host, or are stored in another type, are refused.

use super::{NarrowTensor, Narrowed, NarrowedOn};
use crate::Tensor;
use crate::ext::{ErasedTensor, Owned};
use crate::service::{
    ForeignBuffer, KernelCall, KernelLimits, Kernels, LoadedKernel, Memory, MemoryStatistics, PoolStatistics,
    PressureCallback, ServiceError, UserKernel,
};
use crate::{Backend, service};
use bb_ir::DataType;
use bb_ir::op::{OpSpec, Param};

const LACKING: ServiceError =
    ServiceError::Unsupported { what: "a tensor of an element type that the backend lacks" };

/// Returns the backend's tensor of a tensor in its own type; otherwise an error.
fn own<'a>(on: &NarrowedOn<'_>, x: &'a NarrowTensor) -> Result<&'a ErasedTensor, ServiceError> {
    x.on_device().filter(|_| !on.holding().narrows(x.dtype())).ok_or(LACKING)
}

impl NarrowedOn<'_> {
    fn erased_memory(&self) -> Result<&dyn Memory<ErasedTensor>, ServiceError> {
        self.device().memory().ok_or(ServiceError::Unsupported { what: "the service memory" })
    }
}

impl Memory<NarrowTensor> for NarrowedOn<'_> {
    fn statistics(&self) -> MemoryStatistics {
        self.device().memory().map(|memory| memory.statistics()).unwrap_or_default()
    }

    fn set_limit(&self, bytes: Option<u64>) -> Result<(), ServiceError> {
        self.erased_memory()?.set_limit(bytes)
    }

    fn trim(&self, keep: u64) -> Result<u64, ServiceError> {
        self.erased_memory()?.trim(keep)
    }

    fn set_pressure_callback(&self, callback: Option<PressureCallback>) -> Result<(), ServiceError> {
        self.erased_memory()?.set_pressure_callback(callback)
    }

    fn import(&self, buffer: ForeignBuffer) -> Result<NarrowTensor, ServiceError> {
        Ok(Narrowed::adopt(self.erased_memory()?.import(buffer)?))
    }

    fn export(&self, tensor: &NarrowTensor) -> Result<ForeignBuffer, ServiceError> {
        self.erased_memory()?.export(own(self, tensor)?)
    }

    fn pools(&self) -> Vec<PoolStatistics> {
        self.device().memory().map(|memory| memory.pools()).unwrap_or_default()
    }

    fn defragment(&self) -> Result<u64, ServiceError> {
        self.erased_memory()?.defragment()
    }

    fn allocate(
        &self,
        dtype: DataType,
        shape: &[usize],
        alignment: u64,
    ) -> Result<NarrowTensor, ServiceError> {
        if self.holding().narrows(dtype) {
            return Err(LACKING);
        }
        Ok(Narrowed::adopt(self.erased_memory()?.allocate(dtype, shape, alignment)?))
    }

    fn map(&self, tensor: &NarrowTensor, body: &mut dyn FnMut(&[u8])) -> Result<(), ServiceError> {
        self.erased_memory()?.map(own(self, tensor)?, body)
    }
}

impl Kernels<NarrowTensor> for NarrowedOn<'_> {
    fn limits(&self) -> KernelLimits {
        self.device()
            .user_kernels()
            .map_or_else(|| KernelLimits::webgpu(Vec::new()), |kernels| kernels.limits())
    }

    fn load(&self, kernel: &UserKernel) -> Result<Box<dyn LoadedKernel<NarrowTensor>>, ServiceError> {
        let kernels = self.device().user_kernels();
        let kernels = kernels.ok_or(ServiceError::Unsupported { what: "the service kernels" })?;
        Ok(Box::new(NarrowUserKernel { kernel: kernels.load(kernel)?, holding: self.holding() }))
    }
}

/// A user's kernel, compiled by the backend.
struct NarrowUserKernel {
    kernel: Box<dyn LoadedKernel<ErasedTensor>>,
    holding: super::Holding,
}

impl LoadedKernel<NarrowTensor> for NarrowUserKernel {
    fn run(&self, call: &KernelCall<'_, NarrowTensor>) -> Result<Vec<NarrowTensor>, ServiceError> {
        let own = |x: &&NarrowTensor| {
            x.on_device().filter(|_| !self.holding.narrows(x.dtype())).cloned().ok_or(LACKING)
        };
        let inputs: Vec<ErasedTensor> = call.inputs.iter().map(own).collect::<Result<_, _>>()?;
        if call.outputs.iter().any(|output| self.holding.narrows(output.dtype)) {
            return Err(LACKING);
        }
        let inputs: Vec<&ErasedTensor> = inputs.iter().collect();
        let results = self.kernel.run(&KernelCall::new(&inputs, call.outputs, call.immediates, call.grid))?;
        Ok(results.into_iter().map(Narrowed::adopt).collect())
    }

    fn workgroup(&self) -> Option<[u32; 3]> {
        self.kernel.workgroup()
    }
}

/// Returns an erased tensor with its actual type.
fn typed<T: Tensor>(x: &ErasedTensor) -> Result<T, ServiceError> {
    x.get().ok_or(ServiceError::Unsupported { what: "a tensor of another backend" })
}

impl<B: Backend> Owned<B> {
    fn typed_memory(&self) -> Result<&dyn Memory<B::Tensor>, ServiceError> {
        self.backend.memory().ok_or(ServiceError::Unsupported { what: "the service memory" })
    }
}

impl<B: Backend> Memory<ErasedTensor> for Owned<B> {
    fn statistics(&self) -> MemoryStatistics {
        self.backend.memory().map(|memory| memory.statistics()).unwrap_or_default()
    }

    fn set_limit(&self, bytes: Option<u64>) -> Result<(), ServiceError> {
        self.typed_memory()?.set_limit(bytes)
    }

    fn trim(&self, keep: u64) -> Result<u64, ServiceError> {
        self.typed_memory()?.trim(keep)
    }

    fn set_pressure_callback(&self, callback: Option<PressureCallback>) -> Result<(), ServiceError> {
        self.typed_memory()?.set_pressure_callback(callback)
    }

    fn import(&self, buffer: ForeignBuffer) -> Result<ErasedTensor, ServiceError> {
        Ok(ErasedTensor::new(self.typed_memory()?.import(buffer)?))
    }

    fn export(&self, tensor: &ErasedTensor) -> Result<ForeignBuffer, ServiceError> {
        self.typed_memory()?.export(&typed(tensor)?)
    }

    fn pools(&self) -> Vec<PoolStatistics> {
        self.backend.memory().map(|memory| memory.pools()).unwrap_or_default()
    }

    fn defragment(&self) -> Result<u64, ServiceError> {
        self.typed_memory()?.defragment()
    }

    fn allocate(
        &self,
        dtype: DataType,
        shape: &[usize],
        alignment: u64,
    ) -> Result<ErasedTensor, ServiceError> {
        Ok(ErasedTensor::new(self.typed_memory()?.allocate(dtype, shape, alignment)?))
    }

    fn map(&self, tensor: &ErasedTensor, body: &mut dyn FnMut(&[u8])) -> Result<(), ServiceError> {
        self.typed_memory()?.map(&typed(tensor)?, body)
    }

    fn map_mut(
        &self,
        tensor: &mut ErasedTensor,
        body: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), ServiceError> {
        let memory = self.typed_memory()?;
        changed(tensor, |tensor| memory.map_mut(tensor, body))
    }

    fn read_at(&self, tensor: &ErasedTensor, offset: usize, into: &mut [u8]) -> Result<(), ServiceError> {
        self.typed_memory()?.read_at(&typed(tensor)?, offset, into)
    }

    fn write_at(&self, tensor: &mut ErasedTensor, offset: usize, bytes: &[u8]) -> Result<(), ServiceError> {
        let memory = self.typed_memory()?;
        changed(tensor, |tensor| memory.write_at(tensor, offset, bytes))
    }

    fn copy_at(
        &self,
        from: &ErasedTensor,
        from_offset: usize,
        to: &mut ErasedTensor,
        to_offset: usize,
        count: usize,
    ) -> Result<(), ServiceError> {
        let (memory, from) = (self.typed_memory()?, typed(from)?);
        changed(to, |to| memory.copy_at(&from, from_offset, to, to_offset, count))
    }

    fn copy_within(
        &self,
        tensor: &mut ErasedTensor,
        from: usize,
        to: usize,
        count: usize,
    ) -> Result<(), ServiceError> {
        let memory = self.typed_memory()?;
        changed(tensor, |tensor| memory.copy_within(tensor, from, to, count))
    }

    fn call_into(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&ErasedTensor>],
        params: &[Param<'_>],
        out: &mut ErasedTensor,
    ) -> Result<bool, ServiceError> {
        let memory = self.typed_memory()?;
        let restored = |x: &Option<&ErasedTensor>| x.map(typed::<B::Tensor>).transpose();
        let inputs: Vec<Option<B::Tensor>> = inputs.iter().map(restored).collect::<Result<_, _>>()?;
        let inputs: Vec<Option<&B::Tensor>> = inputs.iter().map(Option::as_ref).collect();
        changed(out, |out| memory.call_into(op, &inputs, params, out))
    }
}

/// Changes an erased tensor as a tensor of its own type. During the change, that is the only handle.
fn changed<T: Tensor, R>(
    x: &mut ErasedTensor,
    change: impl FnOnce(&mut T) -> Result<R, ServiceError>,
) -> Result<R, ServiceError> {
    /// A tensor that is erased again when this is dropped, also after a panic.
    struct Taken<'a, T: Tensor>(Option<T>, &'a mut ErasedTensor);

    impl<T: Tensor> Drop for Taken<'_, T> {
        fn drop(&mut self) {
            if let Some(own) = self.0.take() {
                *self.1 = ErasedTensor::new(own);
            }
        }
    }

    let own = Some(typed(x)?);
    *x = ErasedTensor::placeholder();
    match &mut Taken(own, x).0 {
        Some(own) => change(own),
        None => Err(ServiceError::Unsupported { what: "a tensor of another backend" }),
    }
}

impl<B: Backend> Kernels<ErasedTensor> for Owned<B> {
    fn limits(&self) -> KernelLimits {
        self.backend.kernels().map_or_else(|| KernelLimits::webgpu(Vec::new()), |kernels| kernels.limits())
    }

    fn load(&self, kernel: &UserKernel) -> Result<Box<dyn LoadedKernel<ErasedTensor>>, ServiceError> {
        let kernels = self.backend.kernels();
        let kernels = kernels.ok_or(ServiceError::Unsupported { what: "the service kernels" })?;
        Ok(Box::new(Typed(kernels.load(kernel)?)))
    }
}

/// A user's kernel that runs on tensors of a known type.
struct Typed<T>(Box<dyn LoadedKernel<T>>);

impl<T: Tensor> LoadedKernel<ErasedTensor> for Typed<T> {
    fn run(&self, call: &service::KernelCall<'_, ErasedTensor>) -> Result<Vec<ErasedTensor>, ServiceError> {
        let inputs: Vec<T> = call.inputs.iter().map(|x| typed(x)).collect::<Result<_, _>>()?;
        let inputs: Vec<&T> = inputs.iter().collect();
        let results = self.0.run(&KernelCall::new(&inputs, call.outputs, call.immediates, call.grid))?;
        Ok(results.into_iter().map(ErasedTensor::new).collect())
    }

    fn workgroup(&self) -> Option<[u32; 3]> {
        self.0.workgroup()
    }
}
