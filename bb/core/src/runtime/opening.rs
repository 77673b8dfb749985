//! Tracks which thread opens which backend, so that each backend is opened once. If a constructor would wait for
//! itself, it gets an error.
//!
//! There is one table per process, because a constructor may use several registries. The table's lock is never held
//! while a constructor runs.

use super::OpenOptions;
use crate::Error;
use crate::sync::thread::{self, ThreadId};
use crate::sync::{Condvar, Mutex, MutexGuard};
use std::borrow::Cow;
use std::sync::PoisonError;

/// The identity of a backend to open: an entry of a registry, or a name with layers, with options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InstanceKey {
    /// The address of the registry's entry for the backend, or of the registry's table of backends with layers. The
    /// address does not change while the backend is opened.
    pub(super) entry: usize,
    pub(super) backend: Cow<'static, str>,
    pub(super) options: OpenOptions,
}

/// The backends that are being opened, oldest first, and the backends that threads wait for.
struct OpeningTable {
    opening: Vec<(ThreadId, InstanceKey)>,
    waiting: Vec<(ThreadId, InstanceKey)>,
}

static TABLE: Mutex<OpeningTable> = Mutex::new(OpeningTable { opening: Vec::new(), waiting: Vec::new() });
static ENDED: Condvar = Condvar::new();

fn table() -> MutexGuard<'static, OpeningTable> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A guard that marks a backend as being opened by this thread, until the guard is dropped.
#[derive(Debug)]
pub(super) struct Opening(InstanceKey);

/// Begins to open a backend. If another thread is opening it, waits until that ends, and returns `None`.
///
/// # Errors
///
/// [`Error::OpenCycle`] if the other thread waits for this thread, or is this thread.
pub(super) fn begin(place: &InstanceKey) -> Result<Option<Opening>, Error> {
    let me = thread::current().id();
    let mut table = table();
    if table.opener(place).is_none() {
        table.opening.push((me, place.clone()));
        return Ok(Some(Opening(place.clone())));
    }
    if let Some(path) = table.cycle(me, place) {
        let backend = match &place.backend {
            Cow::Borrowed(name) => name,
            Cow::Owned(name) => crate::layer::interned(name.clone()),
        };
        return Err(Error::OpenCycle { backend, path });
    }
    table.waiting.push((me, place.clone()));
    while table.opener(place).is_some() {
        table = ENDED.wait(table).unwrap_or_else(PoisonError::into_inner);
    }
    table.waiting.retain(|(thread, _)| *thread != me);
    Ok(None)
}

impl Drop for Opening {
    fn drop(&mut self) {
        table().opening.retain(|(_, place)| *place != self.0);
        ENDED.notify_all();
    }
}

impl OpeningTable {
    fn opener(&self, place: &InstanceKey) -> Option<ThreadId> {
        self.opening.iter().find(|(_, opened)| opened == place).map(|(thread, _)| *thread)
    }

    /// Returns the names of the backends in the cycle that would arise if the thread `me` waited for `place`; `None`
    /// if there is no cycle.
    fn cycle(&self, me: ThreadId, place: &InstanceKey) -> Option<Vec<String>> {
        let mut path = Vec::new();
        let mut wanted = place;
        // The loop ends: no cycle exists yet, so each step leads to another thread, until a thread that does not wait.
        loop {
            let opener = self.opener(wanted)?;
            let from_there = self.opening.iter().skip_while(|(_, opened)| opened != wanted);
            path.extend(from_there.filter(|(thread, _)| *thread == opener).map(|(_, opened)| opened.name()));
            if opener == me {
                path.push(place.name());
                return Some(path);
            }
            wanted = self.waiting.iter().find(|(thread, _)| *thread == opener).map(|(_, awaited)| awaited)?;
        }
    }
}

impl InstanceKey {
    fn name(&self) -> String {
        match &self.options.device {
            Some(device) => format!("{}:{device}", self.backend),
            None => self.backend.to_string(),
        }
    }
}
