//! Identifies the running backend that a value belongs to: a small number, and a table of all running
//! backends.
//!
//! A process never reuses a number. The table does not keep a backend alive.

use super::BackendRuntime;
use std::sync::{Arc, PoisonError, RwLock, Weak};

/// A running instance of a backend. Two instances of one backend have different ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BackendId(u32);

struct Entry {
    name: &'static str,
    /// How many instances of this name were opened before.
    before: usize,
    runtime: Weak<dyn BackendRuntime>,
}

static INSTANCES: RwLock<Vec<Entry>> = RwLock::new(Vec::new());

impl BackendId {
    /// Adds an instance to the table.
    pub(super) fn enter(name: &'static str, runtime: Weak<dyn BackendRuntime>) -> BackendId {
        let mut instances = INSTANCES.write().unwrap_or_else(PoisonError::into_inner);
        let before = instances.iter().filter(|e| e.name == name).count();
        let owner = BackendId(instances.len() as u32);
        instances.push(Entry { name, before, runtime });
        owner
    }

    fn with<R>(self, look: impl FnOnce(&Entry) -> R) -> Option<R> {
        INSTANCES.read().unwrap_or_else(PoisonError::into_inner).get(self.0 as usize).map(look)
    }

    /// Returns the name of the backend.
    pub fn name(self) -> &'static str {
        self.with(|e| e.name).unwrap_or("")
    }

    /// Returns the instance; `None` if it was dropped.
    pub(crate) fn runtime(self) -> Option<Arc<dyn BackendRuntime>> {
        self.with(|e| e.runtime.upgrade()).flatten()
    }
}

impl std::fmt::Display for BackendId {
    /// Writes the name; from the second instance of a name on, with a number.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.with(|e| (e.name, e.before)).unwrap_or_default() {
            (name, 0) => f.write_str(name),
            (name, before) => write!(f, "{name} #{}", before + 1),
        }
    }
}
