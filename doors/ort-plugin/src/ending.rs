//! Ends a run when the program sets `terminate` in the run's options.
//!
//! The interface has functions that set and unset this flag, but no function that reads it. The flag is a byte of the options. This module
//! finds its offset by setting and unsetting the flag in options of its own. If the offset is ambiguous, runs cannot be ended.

use crate::api::{Api, Result};
use crate::raw::OrtRunOptions;
use bb::RunOptions;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::ThreadId;

/// The number of bytes that are searched. The options are larger in each version: two integers, a string of at least 24 bytes, some flags,
/// a map, and a list of at least 40 bytes.
const LOOKED_AT: usize = 64;

/// The running runs of a session.
#[derive(Debug)]
pub(crate) struct Runs {
    /// The offset of `terminate` in the options of a run. `None` if it is ambiguous.
    place: Option<usize>,
    /// The threads that run the session, each with the address of its options.
    running: Mutex<Vec<(ThreadId, usize)>>,
}

impl Runs {
    pub(crate) fn new(api: &Api) -> Runs {
        Runs { place: place(api).ok().flatten(), running: Mutex::default() }
    }

    /// Records that this thread begins a run with the options.
    pub(crate) fn begin(&self, options: *const OrtRunOptions) {
        if !options.is_null() {
            let run = (std::thread::current().id(), options.expose_provenance());
            self.running.lock().unwrap_or_else(PoisonError::into_inner).push(run);
        }
    }

    /// Records that this thread's run with the options has ended.
    pub(crate) fn end(&self, options: *const OrtRunOptions) {
        let run = (std::thread::current().id(), options.addr());
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = running.iter().rposition(|known| *known == run) {
            running.remove(at);
        }
    }

    /// Returns a watch for the flag of this thread's run, or `None` if the run is unknown.
    ///
    /// A worker thread belongs to a run of another thread. It is known which one if there is only one run.
    pub(crate) fn watch(&self) -> Option<Watch> {
        let place = self.place?;
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let thread = std::thread::current().id();
        let own = running.iter().rev().find(|(of, _)| *of == thread).map(|(_, options)| *options);
        let options = own.or_else(|| {
            let (_, first) = running.first()?;
            running.iter().all(|(_, other)| other == first).then_some(*first)
        })?;
        Some(Watch(Arc::new(RwLock::new(Some(options + place)))))
    }
}

/// A watch for the flag of a run. Dropping it ends the watching.
#[derive(Debug)]
pub(crate) struct Watch(Arc<RwLock<Option<usize>>>);

impl Watch {
    /// Calls `f`. Runs that `f` starts end once the flag is set.
    ///
    /// # Safety
    ///
    /// The options of the run live until this is dropped.
    pub(crate) unsafe fn within<R>(&self, f: impl FnOnce() -> R) -> R {
        let flag = self.0.clone();
        let is_set = move || {
            let flag = flag.read().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the options live until `drop`, which takes the lock. The read is volatile, because another thread may write the byte.
            flag.is_some_and(|address| unsafe {
                std::ptr::with_exposed_provenance::<u8>(address).read_volatile() != 0
            })
        };
        RunOptions::default().with_watch(is_set).within(f)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Finds the offset of `terminate` in the options of a run. Returns `None` if it is ambiguous.
fn place(api: &Api) -> Result<Option<usize>> {
    let mut options: *mut OrtRunOptions = null_mut();
    // SAFETY: the output pointer is a local variable.
    api.checked(unsafe { api.table().create_run_options(&raw mut options) })?;
    if options.is_null() {
        return Ok(None);
    }
    let look = || -> [u8; LOOKED_AT] {
        // SAFETY: the options have at least `LOOKED_AT` bytes, and no other thread uses them.
        std::array::from_fn(|at| unsafe { options.cast::<u8>().add(at).read_volatile() })
    };
    let before = look();
    // SAFETY: the options were created above.
    let set = api.checked(unsafe { api.table().set_terminate(options) });
    let after = look();
    // SAFETY: as above.
    let unset = api.checked(unsafe { api.table().unset_terminate(options) });
    let again = look();
    // SAFETY: the options were created above and are released once.
    unsafe { api.table().release_run_options(options) };
    set.and(unset)?;
    Ok(changed(&before, &after, &again))
}

/// Returns the only index whose byte changed from 0 to 1 and back to 0. Returns `None` if any other byte changed.
fn changed(before: &[u8], after: &[u8], again: &[u8]) -> Option<usize> {
    let mut differ = (0..before.len()).filter(|&at| before.get(at) != after.get(at));
    let at = differ.next().filter(|_| differ.next().is_none())?;
    let values = (before.get(at)?, after.get(at)?, again.get(at)?);
    (before == again && values == (&0, &1, &0)).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_is_the_only_byte_that_changes() {
        assert_eq!(changed(&[7, 0, 3], &[7, 1, 3], &[7, 0, 3]), Some(1));
        assert_eq!(changed(&[7, 0, 3], &[7, 1, 4], &[7, 0, 3]), None);
        assert_eq!(changed(&[7, 0, 3], &[7, 2, 3], &[7, 0, 3]), None);
        assert_eq!(changed(&[7, 0, 3], &[7, 1, 3], &[7, 1, 3]), None);
        assert_eq!(changed(&[7, 0, 3], &[7, 0, 3], &[7, 0, 3]), None);
    }

    #[test]
    fn a_thread_is_in_its_own_run_or_in_the_only_one() {
        let flags = [[0u8; 2], [0u8; 2]];
        let runs = Runs { place: Some(1), running: Mutex::default() };
        let options = |at: usize| flags.as_ptr().wrapping_add(at).cast::<OrtRunOptions>();
        let address = |watch: Option<Watch>| {
            watch.and_then(|watch| *watch.0.read().unwrap_or_else(PoisonError::into_inner))
        };
        let elsewhere = || std::thread::scope(|s| s.spawn(|| address(runs.watch())).join().ok().flatten());
        assert_eq!(address(runs.watch()), None);
        runs.begin(options(0));
        assert_eq!(address(runs.watch()), Some(options(0).addr() + 1));
        assert_eq!(elsewhere(), Some(options(0).addr() + 1));
        runs.begin(options(1));
        assert_eq!(address(runs.watch()), Some(options(1).addr() + 1));
        assert_eq!(elsewhere(), None);
        runs.end(options(1));
        runs.end(options(0));
        assert_eq!(address(runs.watch()), None);
    }
}
