//! A table of the running instances by backend id. The table does not keep instances alive; an instance that
//! is dropped is removed.

use super::{BackendId, Runtime};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, Weak};

static INSTANCES: RwLock<BTreeMap<BackendId, Weak<Runtime>>> = RwLock::new(BTreeMap::new());

/// The entry of an instance in the table. Dropping it removes the entry.
#[derive(Debug)]
pub(super) struct Entered(BackendId);

impl Entered {
    /// Returns the id of the instance.
    #[inline]
    pub(super) fn id(&self) -> BackendId {
        self.0
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let left = INSTANCES.write().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
        // The memory of the instance is freed after the lock is released.
        drop(left);
    }
}

/// Adds an instance to the table, under a new id.
pub(super) fn enter(name: &'static str, runtime: Weak<Runtime>) -> Entered {
    let id = BackendId::of_new(name);
    INSTANCES.write().unwrap_or_else(PoisonError::into_inner).insert(id, runtime);
    Entered(id)
}

/// Returns an instance; `None` if it was dropped.
pub(super) fn running(id: BackendId) -> Option<Arc<Runtime>> {
    INSTANCES.read().unwrap_or_else(PoisonError::into_inner).get(&id)?.upgrade()
}
