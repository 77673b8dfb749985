//! Identifies the running backend that a value belongs to, so that errors can name it.

use std::sync::{PoisonError, RwLock};

/// A running instance of a backend. Two instances of one backend have different ids.
///
/// A process never reuses an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BackendId(u32);

#[derive(Clone, Copy, Default)]
struct Entry {
    name: &'static str,
    /// How many instances of this name were opened before.
    before: usize,
}

static INSTANCES: RwLock<Vec<Entry>> = RwLock::new(Vec::new());

impl BackendId {
    /// Makes the id of a new instance.
    pub(crate) fn of_new(name: &'static str) -> BackendId {
        let mut instances = INSTANCES.write().unwrap_or_else(PoisonError::into_inner);
        let before = instances.iter().filter(|e| e.name == name).count();
        let id = BackendId(instances.len() as u32);
        instances.push(Entry { name, before });
        id
    }

    /// Returns the number of instances that were opened before this one.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    fn entry(self) -> Entry {
        INSTANCES
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(self.index())
            .copied()
            .unwrap_or_default()
    }

    /// Returns the name of the backend.
    pub fn name(self) -> &'static str {
        self.entry().name
    }
}

impl std::fmt::Display for BackendId {
    /// Writes the name; from the second instance of a name on, with a number.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.entry() {
            Entry { name, before: 0 } => f.write_str(name),
            Entry { name, before } => write!(f, "{name} #{}", before + 1),
        }
    }
}
