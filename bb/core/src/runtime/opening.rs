//! Which thread opens which backend, so that each is opened once, and a constructor that waits for itself is an error.
//!
//! The table is one for the process, because a constructor may ask several registries. Its lock is never held while a
//! constructor runs.

use super::OpenOptions;
use crate::Error;
use crate::sync::thread::{self, ThreadId};
use crate::sync::{Condvar, Mutex, MutexGuard};
use std::sync::PoisonError;

/// A backend to open: an entry of a registry, with options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InstanceKey {
    /// The address of the registry's entry, which nothing moves while it is opened.
    pub(super) entry: usize,
    pub(super) backend: &'static str,
    pub(super) options: OpenOptions,
}

/// The places that are being opened, oldest first, and the places that threads wait for.
struct OpeningTable {
    opening: Vec<(ThreadId, InstanceKey)>,
    waiting: Vec<(ThreadId, InstanceKey)>,
}

static TABLE: Mutex<OpeningTable> = Mutex::new(OpeningTable { opening: Vec::new(), waiting: Vec::new() });
static ENDED: Condvar = Condvar::new();

fn table() -> MutexGuard<'static, OpeningTable> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A place that this thread opens, until it is dropped.
#[derive(Debug)]
pub(super) struct Opening(InstanceKey);

/// Begins to open a place. If another thread is opening it, waits until that ends, and returns `None`.
///
/// # Errors
///
/// [`Error::OpenCycle`] if that thread waits for this one, or is this one.
pub(super) fn begin(place: &InstanceKey) -> Result<Option<Opening>, Error> {
    let me = thread::current().id();
    let mut table = table();
    if table.opener(place).is_none() {
        table.opening.push((me, place.clone()));
        return Ok(Some(Opening(place.clone())));
    }
    if let Some(path) = table.cycle(me, place) {
        return Err(Error::OpenCycle { backend: place.backend, path });
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

    /// Returns the names of the backends that wait for each other if the thread `me` waits for `place`.
    fn cycle(&self, me: ThreadId, place: &InstanceKey) -> Option<Vec<String>> {
        let mut path = Vec::new();
        let mut wanted = place;
        // No cycle has been closed before, so that each step leads to another thread, and the last to one that waits
        // for nothing.
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
            None => self.backend.to_owned(),
        }
    }
}
