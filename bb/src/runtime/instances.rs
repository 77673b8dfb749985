//! The running instance of each backend id. The table does not keep an instance alive.

use super::{BackendId, BackendRuntime};
use std::sync::{Arc, PoisonError, RwLock, Weak};

static INSTANCES: RwLock<Vec<Option<Weak<dyn BackendRuntime>>>> = RwLock::new(Vec::new());

/// Adds an instance to the table, under a new id.
pub(super) fn enter(name: &'static str, runtime: Weak<dyn BackendRuntime>) -> BackendId {
    let id = BackendId::of_new(name);
    let mut instances = INSTANCES.write().unwrap_or_else(PoisonError::into_inner);
    // Ids that other threads made at the same time may enter later.
    if instances.len() <= id.index() {
        instances.resize(id.index() + 1, None);
    }
    if let Some(place) = instances.get_mut(id.index()) {
        *place = Some(runtime);
    }
    id
}

/// Returns an instance; `None` if it was dropped.
pub(super) fn running(id: BackendId) -> Option<Arc<dyn BackendRuntime>> {
    INSTANCES.read().unwrap_or_else(PoisonError::into_inner).get(id.index())?.as_ref()?.upgrade()
}
