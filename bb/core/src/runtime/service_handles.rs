//! The handles through which users call the services of a running backend.

use super::{BackendHandle, Value};
use crate::service::{
    BufferFault, Fingerprint, ForeignBuffer, KernelInfo, KernelLimits, MemoryStatistics, OutputSpec,
    PoolStatistics, Pressure, Service, UserKernel,
};
use crate::{ContractResponse, Error};
use bb_ir::{DataType, TensorData};
use std::sync::Arc;

/// The memory of a running backend: see [`BackendHandle::memory`].
#[derive(Debug, Clone)]
pub struct MemoryHandle(BackendHandle);

/// The kernels that users load into a running backend: see [`BackendHandle::kernels`].
#[derive(Debug, Clone)]
pub struct KernelsHandle(BackendHandle);

/// Returns a handle of the backend if it has a service, otherwise an error.
fn needs(on: &BackendHandle, service: Service) -> Result<BackendHandle, Error> {
    match on.runtime().has(service) {
        true => Ok(on.clone()),
        false => Err(Error::NoService { backend: on.name(), service }),
    }
}

impl BackendHandle {
    /// Blocks until every dispatched graph has ended and the device has finished all submitted work.
    ///
    /// # Errors
    ///
    /// [`Error::DeviceLost`]; [`Error::Service`] with the backend's own error.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.runtime().synchronize()
    }

    /// Shuts the backend down: refuses later calls, waits for running calls, dispatched graphs and the device, and
    /// unloads kernels.
    ///
    /// Tensors stay alive until their handles are dropped. The registry opens a new instance for the next caller.
    ///
    /// # Errors
    ///
    /// The errors of [`synchronize`](Self::synchronize). The backend is shut down even if an error is returned.
    pub fn shut_down(&self) -> Result<(), Error> {
        self.runtime().shut_down()
    }

    /// Returns the fingerprint, which a compiled model or a peer compares with its own.
    pub fn fingerprint(&self) -> Fingerprint {
        self.runtime().fingerprint()
    }

    /// Compares the fingerprint that a peer sent ([`Fingerprint::to_bytes`]) with the fingerprint of this backend.
    ///
    /// # Errors
    ///
    /// [`Error::Fingerprint`] with the differences; [`Error::PeerFingerprint`] if the bytes are not a fingerprint.
    pub fn check_peer(&self, fingerprint: &[u8]) -> Result<(), Error> {
        self.fingerprint().check(&Fingerprint::from_bytes(fingerprint)?, "the peer")
    }

    /// Copies a tensor to the host on its own thread, and returns the copy as a future. The caller can also block on
    /// the future.
    ///
    /// # Errors
    ///
    /// The future returns the errors of [`to_host`](Self::to_host).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn both(on: &bb::BackendHandle, x: &bb::Value, y: &bb::Value) -> Result<(), bb::Error> {
    /// let (first, second) = (on.to_host_async(x), on.to_host_async(y));
    /// let copies = [first.await?, second.await?];
    /// # Ok(())
    /// # }
    /// ```
    pub fn to_host_async(&self, value: &Value) -> ContractResponse<TensorData, Error> {
        let (on, value) = (self.clone(), value.clone());
        crate::contract::on_own_thread(move || on.to_host(&value))
    }

    /// Creates a tensor from host elements on its own thread, and returns it as a future.
    ///
    /// # Errors
    ///
    /// The future returns the backend's own errors.
    pub fn tensor_async(&self, data: TensorData) -> ContractResponse<Value, Error> {
        let on = self.clone();
        crate::contract::on_own_thread(move || on.runtime().constant(&data))
    }

    /// Returns the memory service of the backend.
    ///
    /// # Errors
    ///
    /// [`Error::NoService`] if the backend has no memory service.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> Result<(), bb::Error> {
    /// let memory = bb::backend("cpu")?.memory()?;
    /// memory.set_limit(Some(1 << 30))?;
    /// println!("{} bytes are in use", memory.statistics()?.live);
    /// # Ok(())
    /// # }
    /// ```
    pub fn memory(&self) -> Result<MemoryHandle, Error> {
        needs(self, Service::Memory).map(MemoryHandle)
    }

    /// Returns the service for kernels that users load into the backend.
    ///
    /// # Errors
    ///
    /// [`Error::NoService`] if the backend lacks the service.
    pub fn kernels(&self) -> Result<KernelsHandle, Error> {
        needs(self, Service::Kernels).map(KernelsHandle)
    }
}

impl MemoryHandle {
    /// Returns the current memory use of the backend. This also works after the backend was shut down.
    ///
    /// # Errors
    ///
    /// [`Error::Panicked`].
    pub fn statistics(&self) -> Result<MemoryStatistics, Error> {
        self.0.runtime().memory_statistics()
    }

    /// Sets the maximum number of bytes that the backend allocates; `None` removes the limit.
    ///
    /// If an allocation would exceed the limit, the backend first frees unused buffers, then calls the pressure
    /// callback. If that does not help, the allocation fails with an error whose [`Error::memory_pressure`] returns the
    /// requested bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Service`] if the backend does not support a limit.
    pub fn set_limit(&self, bytes: Option<u64>) -> Result<(), Error> {
        self.0.runtime().set_memory_limit(bytes)
    }

    /// Frees unused buffers until at most `keep` bytes of unused buffers remain. Returns the number of freed bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Service`].
    pub fn trim(&self, keep: u64) -> Result<u64, Error> {
        self.0.runtime().trim_memory(keep)
    }

    /// Sets the function that is called before an allocation fails because of the limit. It replaces the previous
    /// function.
    ///
    /// The backend holds no lock during the call, so the function may drop tensors. If an allocation inside the
    /// function fails, the function is not called again.
    ///
    /// # Errors
    ///
    /// [`Error::Service`] if the backend does not support a limit.
    pub fn on_pressure(&self, callback: impl Fn(&Pressure) + Send + Sync + 'static) -> Result<(), Error> {
        self.0.runtime().set_pressure_callback(Some(Arc::new(callback)))
    }

    /// Removes the function that [`on_pressure`](Self::on_pressure) set.
    ///
    /// # Errors
    ///
    /// As [`on_pressure`](Self::on_pressure).
    pub fn ignore_pressure(&self) -> Result<(), Error> {
        self.0.runtime().set_pressure_callback(None)
    }

    /// Returns the statistics of each pool of the backend.
    ///
    /// # Errors
    ///
    /// [`Error::Panicked`].
    pub fn pools(&self) -> Result<Vec<PoolStatistics>, Error> {
        self.0.runtime().pools()
    }

    /// Moves buffers so that free memory becomes contiguous. Returns the number of bytes that became free.
    ///
    /// # Errors
    ///
    /// [`Error::Service`] with [`ServiceError::NotNeeded`](crate::services::ServiceError::NotNeeded) if the memory is
    /// not fragmented, and with [`ServiceError::Unsupported`](crate::services::ServiceError::Unsupported) if the
    /// backend cannot defragment.
    pub fn defragment(&self) -> Result<u64, Error> {
        self.0.runtime().defragment()
    }

    /// Creates a tensor of zeros whose memory begins at a multiple of `alignment` bytes.
    ///
    /// # Errors
    ///
    /// [`Error::BufferFault`] if `alignment` is not a power of two; [`Error::Service`] if the backend does not support
    /// this alignment.
    pub fn allocate(&self, dtype: DataType, shape: &[usize], alignment: u64) -> Result<Value, Error> {
        super::buffers::size(dtype, shape)?;
        if !alignment.is_power_of_two() {
            return Err(Error::BufferFault(BufferFault::Alignment { got: alignment }));
        }
        self.0.runtime().allocate(dtype, shape, alignment)
    }

    /// Calls `body` with the bytes of a tensor, in row-major order as in [`TensorData`]. If the backend uses host
    /// memory, nothing is copied; otherwise `body` gets a copy.
    ///
    /// # Errors
    ///
    /// [`Error::BufferFault`] for a tensor of strings; [`Error::ForeignTensor`]; the backend's own errors.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> Result<(), bb::Error> {
    /// let cpu = bb::backend("cpu")?;
    /// let x = cpu.tensor(&[3], &[1u8, 2, 3])?;
    /// assert_eq!(cpu.memory()?.map(&x, |bytes| bytes.iter().sum::<u8>())?, 6);
    /// # Ok(())
    /// # }
    /// ```
    pub fn map<R>(&self, value: &Value, body: impl FnOnce(&[u8]) -> R) -> Result<R, Error> {
        super::buffers::size(value.dtype(), value.shape())?;
        let (mut body, mut result) = (Some(body), None);
        let mut once = |bytes: &[u8]| {
            if let Some(body) = body.take() {
                result = Some(body(bytes));
            }
        };
        if !self.0.runtime().map(value, &mut once)? {
            once(self.0.to_host(value)?.unaligned_bytes()?);
        }
        result.ok_or_else(|| Error::excluded("memory to be mapped once"))
    }

    /// Creates a tensor from a buffer of another library or device.
    ///
    /// # Errors
    ///
    /// [`Error::Service`] if the backend cannot use this buffer.
    pub fn import(&self, buffer: ForeignBuffer) -> Result<Value, Error> {
        self.0.runtime().import(buffer)
    }

    /// Returns the buffer of a tensor, for use by another library or device.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignTensor`]; [`Error::Service`] if the backend does not export this tensor.
    pub fn export(&self, value: &Value) -> Result<ForeignBuffer, Error> {
        self.0.runtime().export(value)
    }
}

impl KernelsHandle {
    /// Returns the limits of kernels on this backend.
    ///
    /// # Errors
    ///
    /// [`Error::Panicked`]; [`Error::ShutDown`].
    pub fn limits(&self) -> Result<KernelLimits, Error> {
        self.0.runtime().kernel_limits()
    }

    /// Returns the sorted names of the loaded kernels.
    ///
    /// # Errors
    ///
    /// None.
    pub fn loaded(&self) -> Result<Vec<String>, Error> {
        self.0.runtime().loaded_kernels()
    }

    /// Describes a loaded kernel: its bindings, immediates and workgroup.
    ///
    /// # Errors
    ///
    /// [`Error::Service`] if no kernel of this name is loaded.
    pub fn info(&self, name: &str) -> Result<KernelInfo, Error> {
        self.0.runtime().kernel_info(name)
    }

    /// Compiles a kernel and stores it under its name.
    ///
    /// # Errors
    ///
    /// [`Error::Service`] with [`ServiceError::Kernel`](crate::services::ServiceError::Kernel) if the kernel is refused.
    pub fn load(&self, kernel: UserKernel) -> Result<(), Error> {
        self.0.runtime().load_kernel(kernel)
    }

    /// Runs a kernel by name and returns its outputs. All arguments are validated before the backend gets the call.
    ///
    /// # Errors
    ///
    /// [`Error::Service`] with [`ServiceError::Kernel`](crate::services::ServiceError::Kernel) if no kernel of this
    /// name is loaded or the arguments do not match it; [`Error::ForeignTensor`].
    pub fn run(
        &self,
        name: &str,
        inputs: &[&Value],
        outputs: &[OutputSpec],
        immediates: &[u8],
        grid: [u32; 3],
    ) -> Result<Vec<Value>, Error> {
        self.0.runtime().run_kernel(name, inputs, outputs, immediates, grid)
    }

    /// Runs a kernel like [`run`](Self::run) on its own thread, and returns its outputs as a future. The caller can
    /// also block on the future. If the kernel is unloaded before its run begins, the future returns an error.
    ///
    /// # Errors
    ///
    /// The future returns the errors of [`run`](Self::run).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn twice(on: &bb::BackendHandle, x: &bb::Value) -> Result<(), bb::Error> {
    /// use bb::services::OutputSpec;
    /// let kernels = on.kernels()?;
    /// let out = OutputSpec::new(x.dtype(), x.shape());
    /// let running = kernels.run_async("scale", &[x], &[out], &2f32.to_le_bytes(), [1; 3]);
    /// let scaled = running.await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_async(
        &self,
        name: &str,
        inputs: &[&Value],
        outputs: &[OutputSpec],
        immediates: &[u8],
        grid: [u32; 3],
    ) -> ContractResponse<Vec<Value>, Error> {
        let (on, name, immediates) = (self.clone(), name.to_owned(), immediates.to_vec());
        let inputs: Vec<Value> = inputs.iter().map(|&x| x.clone()).collect();
        let outputs = outputs.to_vec();
        crate::contract::on_own_thread(move || {
            let inputs: Vec<&Value> = inputs.iter().collect();
            on.run(&name, &inputs, &outputs, &immediates, grid)
        })
    }

    /// Unloads a kernel. Calls that are running it finish normally; the kernel is dropped after the last of them.
    ///
    /// # Errors
    ///
    /// [`Error::Service`] if no kernel of this name is loaded.
    pub fn unload(&self, name: &str) -> Result<(), Error> {
        self.0.runtime().unload_kernel(name)
    }
}
