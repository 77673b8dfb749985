//! The services of a running backend.

use super::loaded::DeclaredKernel;
use super::{Runtime, Value, bridge};
use crate::contract::catch;
use crate::erased::ErasedTensor;
use crate::service::{
    ForeignBuffer, KernelCall, KernelInfo, KernelLimits, KernelProblem, Kernels, Memory, MemoryStatistics,
    OutputSpec, PoolStatistics, PressureCallback, Service, ServiceError, UserKernel, check_call,
    check_kernel,
};
use crate::{Error, Tensor};
use bb_ir::op::{OpSpec, Param};
use bb_ir::{DataType, Shape};
use std::sync::{Arc, PoisonError};

fn refused(name: &str, problem: KernelProblem) -> ServiceError {
    ServiceError::Kernel { name: name.to_owned(), problem }
}

impl Runtime {
    /// Returns a service, or the error that names it.
    fn offered<S>(&self, service: Service, found: Option<S>) -> Result<S, Error> {
        found.ok_or(Error::NoService { backend: self.name, service })
    }

    /// Calls the memory service of the backend. This also works after the backend was shut down, so that its memory use
    /// can still be queried.
    fn with_memory<R>(
        &self,
        op: &'static str,
        body: impl FnOnce(&dyn Memory<ErasedTensor>) -> Result<R, ServiceError>,
    ) -> Result<R, Error> {
        bridge::contain(&self.counters, self.owner(), op, || {
            let memory = self.offered(Service::Memory, self.on.memory())?;
            body(memory).map_err(|error| self.service_failure(Service::Memory, error))
        })
    }

    /// Calls a part of the service of memory on tensors. Returns false if the backend does not offer it.
    fn part(
        &self,
        op: &'static str,
        body: impl FnOnce(&dyn Memory<ErasedTensor>) -> Result<bool, ServiceError>,
    ) -> Result<bool, Error> {
        self.enter(op, || {
            let Some(memory) = self.on.memory() else { return Ok(false) };
            match body(memory) {
                Err(ServiceError::Unsupported { .. }) => Ok(false),
                done => done.map_err(|error| self.service_failure(Service::Memory, error)),
            }
        })
    }

    /// Calls a method of the memory service that changes a tensor. The tensor is moved out of `value` during the call,
    /// so that the backend can change the tensor in place if there is no other handle.
    fn change(
        &self,
        op: &'static str,
        value: &mut Value,
        body: impl FnOnce(&dyn Memory<ErasedTensor>, &mut ErasedTensor) -> Result<bool, ServiceError>,
    ) -> Result<bool, Error> {
        let mut tensor = self.tensor(op, value)?.clone();
        *value = self.value(ErasedTensor::placeholder());
        let changed = self.part(op, |memory| body(memory, &mut tensor));
        *value = self.value(tensor);
        changed
    }

    fn with_kernels<R>(
        &self,
        op: &'static str,
        body: impl FnOnce(&dyn Kernels<ErasedTensor>) -> Result<R, ServiceError>,
    ) -> Result<R, Error> {
        self.enter(op, || {
            let kernels = self.offered(Service::Kernels, self.on.user_kernels())?;
            body(kernels).map_err(|error| self.service_failure(Service::Kernels, error))
        })
    }
}

/// The services. Users call the corresponding methods of [`BackendHandle`](crate::BackendHandle).
///
/// Every method returns [`Error::NoService`] if the backend does not have the service, and [`Error::Service`] with the
/// service's own error; a panic becomes [`Error::Panicked`]. Methods that return a `bool` return false if the backend
/// does not support the call. Ranges must be within their tensors, and tensors must not be of strings.
#[expect(missing_docs, reason = "as the methods of the same name in `bb::services`")]
impl Runtime {
    pub fn has(&self, service: Service) -> bool {
        let has = || match service {
            Service::Lifecycle => self.on.lifecycle().is_some(),
            Service::Memory => self.on.memory().is_some(),
            Service::Kernels => self.on.user_kernels().is_some(),
        };
        catch(has).unwrap_or(false)
    }

    pub fn memory_statistics(&self) -> Result<MemoryStatistics, Error> {
        self.with_memory("memory", |memory| Ok(memory.statistics()))
    }

    pub fn set_memory_limit(&self, bytes: Option<u64>) -> Result<(), Error> {
        self.with_memory("set_limit", |memory| memory.set_limit(bytes))
    }

    pub fn trim_memory(&self, keep: u64) -> Result<u64, Error> {
        self.with_memory("trim", |memory| memory.trim(keep))
    }

    pub fn set_pressure_callback(&self, callback: Option<PressureCallback>) -> Result<(), Error> {
        self.with_memory("set_pressure_callback", |memory| memory.set_pressure_callback(callback))
    }

    pub fn import(&self, buffer: ForeignBuffer) -> Result<Value, Error> {
        let _running = self.counters.begin(self.owner())?;
        self.with_memory("import", |memory| Ok(self.value(memory.import(buffer)?)))
    }

    pub fn export(&self, value: &Value) -> Result<ForeignBuffer, Error> {
        self.enter("export", || {
            let tensor = self.tensor("export", value)?;
            let memory = self.offered(Service::Memory, self.on.memory())?;
            memory.export(tensor).map_err(|error| self.service_failure(Service::Memory, error))
        })
    }

    pub fn pools(&self) -> Result<Vec<PoolStatistics>, Error> {
        self.with_memory("pools", |memory| Ok(memory.pools()))
    }

    pub fn defragment(&self) -> Result<u64, Error> {
        self.with_memory("defragment", |memory| memory.defragment())
    }

    pub fn allocate(&self, dtype: DataType, shape: &[usize], alignment: u64) -> Result<Value, Error> {
        let _running = self.counters.begin(self.owner())?;
        self.with_memory("allocate", |memory| Ok(self.value(memory.allocate(dtype, shape, alignment)?)))
    }

    pub fn map(&self, value: &Value, body: &mut dyn FnMut(&[u8])) -> Result<bool, Error> {
        let tensor = self.tensor("map", value)?;
        self.part("map", |memory| memory.map(tensor, body).map(|()| true))
    }

    pub fn map_mut(&self, value: &mut Value, body: &mut dyn FnMut(&mut [u8])) -> Result<bool, Error> {
        self.change("map_mut", value, |memory, tensor| memory.map_mut(tensor, body).map(|()| true))
    }

    pub fn read_at(&self, value: &Value, offset: usize, into: &mut [u8]) -> Result<bool, Error> {
        let tensor = self.tensor("read_at", value)?;
        self.part("read_at", |memory| memory.read_at(tensor, offset, into).map(|()| true))
    }

    pub fn write_at(&self, value: &mut Value, offset: usize, bytes: &[u8]) -> Result<bool, Error> {
        self.change("write_at", value, |memory, tensor| memory.write_at(tensor, offset, bytes).map(|()| true))
    }

    pub fn copy_at(
        &self,
        from: &Value,
        from_offset: usize,
        to: &mut Value,
        to_offset: usize,
        count: usize,
    ) -> Result<bool, Error> {
        let source = self.tensor("copy_at", from)?;
        self.change("copy_at", to, |memory, tensor| {
            memory.copy_at(source, from_offset, tensor, to_offset, count).map(|()| true)
        })
    }

    pub fn copy_within(
        &self,
        value: &mut Value,
        from: usize,
        to: usize,
        count: usize,
    ) -> Result<bool, Error> {
        self.change("copy_within", value, |memory, tensor| {
            memory.copy_within(tensor, from, to, count).map(|()| true)
        })
    }

    pub fn call_into(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&Value>],
        params: &[Param<'_>],
        out: &mut Value,
    ) -> Result<bool, Error> {
        let operands = bridge::operands(op.method, self.owner(), inputs)?;
        self.change(op.method, out, |memory, out| memory.call_into(op, &operands, params, out))
    }

    pub fn kernel_info(&self, name: &str) -> Result<KernelInfo, Error> {
        self.with_kernels("kernel_info", |_| match self.loaded.find(name) {
            Some(kernel) => Ok(KernelInfo::of(&kernel.declared, kernel.compiled.workgroup())),
            None => Err(refused(name, KernelProblem::Unknown { loaded: self.loaded.names() })),
        })
    }

    pub fn kernel_limits(&self) -> Result<KernelLimits, Error> {
        self.with_kernels("kernels", |kernels| Ok(kernels.limits()))
    }

    pub fn loaded_kernels(&self) -> Result<Vec<String>, Error> {
        Ok(self.loaded.names())
    }

    pub fn load_kernel(&self, kernel: UserKernel) -> Result<(), Error> {
        self.with_kernels("load_kernel", |kernels| {
            let name = kernel.name.clone();
            check_kernel(&kernel, &kernels.limits()).map_err(|problem| refused(&name, problem))?;
            if self.loaded.find(&name).is_some() {
                return Err(refused(&name, KernelProblem::Loaded));
            }
            let compiled = kernels.load(&kernel)?;
            let mut kernels = self.loaded.0.write().unwrap_or_else(PoisonError::into_inner);
            // While this thread loaded the kernel without the lock, another thread may have loaded a kernel of the same
            // name.
            if kernels.contains_key(&name) {
                drop(kernels);
                return Err(refused(&name, KernelProblem::Loaded));
            }
            kernels.insert(name, Arc::new(DeclaredKernel { declared: kernel, compiled }));
            Ok(())
        })
    }

    pub fn unload_kernel(&self, name: &str) -> Result<(), Error> {
        self.with_kernels("unload_kernel", |_| {
            let removed = self.loaded.0.write().unwrap_or_else(PoisonError::into_inner).remove(name);
            match removed {
                Some(_dropped_unless_it_runs) => Ok(()),
                None => Err(refused(name, KernelProblem::Unknown { loaded: self.loaded.names() })),
            }
        })
    }

    pub fn run_kernel(
        &self,
        name: &str,
        inputs: &[&Value],
        outputs: &[OutputSpec],
        immediates: &[u8],
        grid: [u32; 3],
    ) -> Result<Vec<Value>, Error> {
        self.enter("run_kernel", || {
            let kernels = self.offered(Service::Kernels, self.on.user_kernels())?;
            let failed = |error| self.service_failure(Service::Kernels, error);
            let unknown = || failed(refused(name, KernelProblem::Unknown { loaded: self.loaded.names() }));
            // The kernel stays alive during the call, even if it is unloaded.
            let kernel = self.loaded.find(name).ok_or_else(unknown)?;
            let tensors = inputs
                .iter()
                .map(|value| self.tensor("run_kernel", value))
                .collect::<Result<Vec<_>, Error>>()?;
            let specs: Vec<_> = inputs.iter().map(|value| (value.dtype(), value.shape())).collect();
            check_call(&kernel.declared, &kernels.limits(), &specs, outputs, immediates, grid)
                .map_err(|problem| failed(refused(name, problem)))?;
            let made =
                kernel.compiled.run(&KernelCall::new(&tensors, outputs, immediates, grid)).map_err(failed)?;
            check_outputs(outputs, &made).map_err(|problem| failed(refused(name, problem)))?;
            Ok(made.into_iter().map(|tensor| self.value(tensor)).collect())
        })
    }
}

/// Compares the outputs of a kernel with the specifications in the call.
fn check_outputs(asked: &[OutputSpec], made: &[ErasedTensor]) -> Result<(), KernelProblem> {
    if asked.len() != made.len() {
        let (expected, got) = (asked.len(), made.len());
        return Err(KernelProblem::Count { what: "the number of results", expected, got });
    }
    let text = |dtype, shape: &[usize]| format!("{dtype}{:?}", Shape::from_slice(shape));
    for (index, (asked, made)) in asked.iter().zip(made).enumerate() {
        if asked.dtype != made.dtype() || *asked.shape != *made.shape() {
            return Err(KernelProblem::Output {
                index,
                expected: text(asked.dtype, &asked.shape),
                got: text(made.dtype(), made.shape()),
            });
        }
    }
    Ok(())
}
