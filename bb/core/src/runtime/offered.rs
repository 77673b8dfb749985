//! The services of a running backend whose type is erased.

use super::Value;
use super::erased::Sealed;
use crate::Error;
use crate::erased::ErasedTensor;
use crate::service::{
    ForeignBuffer, KernelInfo, KernelLimits, LoadedKernel, MemoryStatistics, OutputSpec, PoolStatistics,
    PressureCallback, Service, UserKernel,
};
use crate::sync::RwLock;
use bb_ir::DataType;
use bb_ir::op::{OpSpec, Param};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

/// The services of a running backend whose type is erased. Users call the corresponding methods of
/// [`BackendHandle`](crate::BackendHandle).
///
/// Every method returns [`Error::NoService`] if the backend does not have the service, and [`Error::Service`] with the
/// service's own error; a panic becomes [`Error::Panicked`]. Methods that return a `bool` return false if the backend
/// does not support the call. Ranges must be within their tensors, and tensors must not be of strings.
#[expect(missing_docs, reason = "as the methods of the same name in `bb::services`")]
pub trait OfferedServices: Sealed + Send + Sync {
    fn has(&self, service: Service) -> bool;
    fn memory_statistics(&self) -> Result<MemoryStatistics, Error>;
    fn set_memory_limit(&self, bytes: Option<u64>) -> Result<(), Error>;
    fn trim_memory(&self, keep: u64) -> Result<u64, Error>;
    fn set_pressure_callback(&self, callback: Option<PressureCallback>) -> Result<(), Error>;
    fn import(&self, buffer: ForeignBuffer) -> Result<Value, Error>;
    fn export(&self, value: &Value) -> Result<ForeignBuffer, Error>;
    fn pools(&self) -> Result<Vec<PoolStatistics>, Error>;
    fn defragment(&self) -> Result<u64, Error>;
    fn allocate(&self, dtype: DataType, shape: &[usize], alignment: u64) -> Result<Value, Error>;
    fn map(&self, value: &Value, body: &mut dyn FnMut(&[u8])) -> Result<bool, Error>;
    fn map_mut(&self, value: &mut Value, body: &mut dyn FnMut(&mut [u8])) -> Result<bool, Error>;
    fn read_at(&self, value: &Value, offset: usize, into: &mut [u8]) -> Result<bool, Error>;
    fn write_at(&self, value: &mut Value, offset: usize, bytes: &[u8]) -> Result<bool, Error>;
    fn copy_at(
        &self,
        from: &Value,
        from_offset: usize,
        to: &mut Value,
        to_offset: usize,
        count: usize,
    ) -> Result<bool, Error>;
    fn copy_within(&self, value: &mut Value, from: usize, to: usize, count: usize) -> Result<bool, Error>;
    fn call_into(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&Value>],
        params: &[Param<'_>],
        out: &mut Value,
    ) -> Result<bool, Error>;
    fn kernel_info(&self, name: &str) -> Result<KernelInfo, Error>;
    fn kernel_limits(&self) -> Result<KernelLimits, Error>;
    fn loaded_kernels(&self) -> Result<Vec<String>, Error>;
    fn load_kernel(&self, kernel: UserKernel) -> Result<(), Error>;
    fn unload_kernel(&self, name: &str) -> Result<(), Error>;
    fn run_kernel(
        &self,
        name: &str,
        inputs: &[&Value],
        outputs: &[OutputSpec],
        immediates: &[u8],
        grid: [u32; 3],
    ) -> Result<Vec<Value>, Error>;
}

/// A loaded kernel and its declaration.
pub(super) struct DeclaredKernel {
    pub(super) declared: UserKernel,
    pub(super) compiled: Box<dyn LoadedKernel<ErasedTensor>>,
}

/// The loaded kernels of a running backend, by name.
#[derive(Default)]
pub(super) struct KernelTable(pub(super) RwLock<BTreeMap<String, Arc<DeclaredKernel>>>);

impl KernelTable {
    pub(super) fn names(&self) -> Vec<String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    pub(super) fn find(&self, name: &str) -> Option<Arc<DeclaredKernel>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Removes all kernels.
    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut *self.0.write().unwrap_or_else(PoisonError::into_inner));
        // Dropping the kernels runs the backend's code, so the lock is released first.
        drop(all);
    }
}
