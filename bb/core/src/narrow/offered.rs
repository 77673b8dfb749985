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
