//! The services of a running backend, as users call them.

use super::{
    Fingerprint, ForeignBuffer, KernelLimits, MemoryStatistics, OutputSpec, Pressure, Service, UserKernel,
};
use crate::{BackendHandle, Error, Value};
use std::sync::Arc;

/// The memory of a running backend: see [`BackendHandle::memory`].
#[derive(Debug, Clone)]
pub struct MemoryHandle(BackendHandle);

/// The kernels that users load into a running backend: see [`BackendHandle::kernels`].
#[derive(Debug, Clone)]
pub struct KernelsHandle(BackendHandle);

/// Returns the error for a backend without a service.
fn needs(on: &BackendHandle, service: Service) -> Result<BackendHandle, Error> {
    match on.runtime().has(service) {
        true => Ok(on.clone()),
        false => Err(Error::NoService { backend: on.name(), service }),
    }
}

impl BackendHandle {
    /// Blocks until every dispatched graph has ended and the device has done everything that was submitted to it.
    ///
    /// # Errors
    ///
    /// [`Error::DeviceLost`]; [`Error::Service`] with the backend's own error.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.runtime().synchronize()
    }

    /// Refuses every later call, waits for running calls, dispatched graphs and the device, and unloads kernels.
    ///
    /// Tensors stay alive until their handles are dropped. The registry opens the backend anew for the next caller.
    ///
    /// # Errors
    ///
    /// The errors of [`synchronize`](Self::synchronize); the backend is shut down all the same.
    pub fn shut_down(&self) -> Result<(), Error> {
        self.runtime().shut_down()
    }

    /// Returns what a compiled model or a peer relies on.
    pub fn fingerprint(&self) -> Fingerprint {
        self.runtime().fingerprint()
    }

    /// Compares the fingerprint that a peer sent ([`Fingerprint::to_bytes`]) with that of this backend.
    ///
    /// # Errors
    ///
    /// [`Error::Fingerprint`] with what differs; [`Error::Ir`] if the bytes are no fingerprint.
    pub fn check_peer(&self, fingerprint: &[u8]) -> Result<(), Error> {
        self.fingerprint().check(&Fingerprint::from_bytes(fingerprint)?, "the peer")
    }

    /// Returns the memory of the backend.
    ///
    /// # Errors
    ///
    /// [`Error::NoService`].
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

    /// Returns the kernels that users loaded into the backend.
    ///
    /// # Errors
    ///
    /// [`Error::NoService`].
    pub fn kernels(&self) -> Result<KernelsHandle, Error> {
        needs(self, Service::Kernels).map(KernelsHandle)
    }
}

impl MemoryHandle {
    /// Returns how much memory the backend uses now; also after it was shut down.
    ///
    /// # Errors
    ///
    /// [`Error::Panicked`].
    pub fn statistics(&self) -> Result<MemoryStatistics, Error> {
        self.0.runtime().memory_statistics()
    }

    /// Sets the greatest number of bytes that the backend allocates; `None` removes the limit.
    ///
    /// An allocation that does not fit first frees unused buffers, then calls the pressure callback, and then fails with an
    /// error whose [`Error::memory_pressure`] says how much was asked for.
    ///
    /// # Errors
    ///
    /// [`Error::Service`] if the backend has no limit.
    pub fn set_limit(&self, bytes: Option<u64>) -> Result<(), Error> {
        self.0.runtime().set_memory_limit(bytes)
    }

    /// Frees unused buffers until at most `keep` bytes of them are left. Returns the number of freed bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Service`].
    pub fn trim(&self, keep: u64) -> Result<u64, Error> {
        self.0.runtime().trim_memory(keep)
    }

    /// Sets the function that is called before a limit fails an allocation. It replaces the one before.
    ///
    /// The backend holds no lock during the call, so the function may drop tensors; an allocation that fails within it does
    /// not call it again.
    ///
    /// # Errors
    ///
    /// [`Error::Service`] if the backend has no limit.
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

    /// Makes a tensor of a buffer of something else.
    ///
    /// # Errors
    ///
    /// [`Error::Service`] if the backend cannot use this buffer.
    pub fn import(&self, buffer: ForeignBuffer) -> Result<Value, Error> {
        self.0.runtime().import(buffer)
    }

    /// Returns the buffer of a tensor, for something else.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignTensor`]; [`Error::Service`] if the backend does not export this tensor.
    pub fn export(&self, value: &Value) -> Result<ForeignBuffer, Error> {
        self.0.runtime().export(value)
    }
}

impl KernelsHandle {
    /// Returns what kernels may use on this backend.
    ///
    /// # Errors
    ///
    /// [`Error::Panicked`]; [`Error::ShutDown`].
    pub fn limits(&self) -> Result<KernelLimits, Error> {
        self.0.runtime().kernel_limits()
    }

    /// Returns the names of the loaded kernels, sorted.
    ///
    /// # Errors
    ///
    /// None at present.
    pub fn loaded(&self) -> Result<Vec<String>, Error> {
        self.0.runtime().loaded_kernels()
    }

    /// Compiles a kernel and keeps it under its name.
    ///
    /// # Errors
    ///
    /// [`Error::Service`] with [`ServiceError::Kernel`](super::ServiceError::Kernel) if the kernel is refused.
    pub fn load(&self, kernel: UserKernel) -> Result<(), Error> {
        self.0.runtime().load_kernel(kernel)
    }

    /// Runs a kernel by name and returns its outputs. Everything is validated before the backend sees the call.
    ///
    /// # Errors
    ///
    /// [`Error::Service`] with [`ServiceError::Kernel`](super::ServiceError::Kernel) if no kernel of this name is loaded or
    /// the call does not fit it; [`Error::ForeignTensor`].
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

    /// Removes a kernel. Calls that run it end as usual; the kernel is dropped after the last of them.
    ///
    /// # Errors
    ///
    /// [`Error::Service`] if no kernel of this name is loaded.
    pub fn unload(&self, name: &str) -> Result<(), Error> {
        self.0.runtime().unload_kernel(name)
    }
}
