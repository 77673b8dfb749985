//! The kernels that users loaded into a running backend.

use crate::erased::ErasedTensor;
use crate::service::{LoadedKernel, UserKernel};
use crate::sync::RwLock;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

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
