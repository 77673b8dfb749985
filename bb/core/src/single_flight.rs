//! Values that are built on demand: one thread builds a value, and the other threads that need it wait.

use crate::sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::sync::PoisonError;

/// The values that exist, and a lock that a thread holds while it builds another value.
///
/// A lookup that finds its value never waits for a thread that builds one.
#[derive(Debug, Default)]
pub(crate) struct SingleFlight<K> {
    known: RwLock<K>,
    making: Mutex<()>,
}

impl<K> SingleFlight<K> {
    /// Locks the existing values for reading. The lock must not be held while foreign code runs.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, K> {
        // A poisoned lock is valid: a panic leaves the list or option either unchanged or completely changed.
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the existing values for writing. The lock must not be held while foreign code runs.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, K> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the result of `find`. If `find` returns `None`, calls `make`, which builds a value and stores it.
    ///
    /// Only one thread builds at a time, and the other threads call `find` again afterwards, so nothing is built twice.
    /// If `make` fails or panics, the next thread calls its own `make`. Both functions get `state`.
    ///
    /// # Errors
    ///
    /// The errors of `find` and `make`.
    pub(crate) fn find_or_make<S: ?Sized, R, E>(
        &self,
        state: &mut S,
        mut find: impl FnMut(&mut S) -> Result<Option<R>, E>,
        make: impl FnOnce(&mut S) -> Result<R, E>,
    ) -> Result<R, E> {
        if let Some(found) = find(state)? {
            return Ok(found);
        }
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have built the value while this thread waited for the lock.
        match find(state)? {
            Some(found) => Ok(found),
            None => make(state),
        }
    }
}

#[cfg(all(test, bb_model))]
#[expect(clippy::unwrap_used, reason = "tests")]
mod model {
    use super::*;
    use crate::sync::atomic::{AtomicUsize, Ordering};
    use crate::sync::{check, thread};
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::Arc;

    /// A list, and the number of calls that began to build an item for it.
    #[derive(Default)]
    struct CountingList {
        made: SingleFlight<Vec<u32>>,
        begun: AtomicUsize,
    }

    impl CountingList {
        /// Returns an item of the list; `make` gets the number of earlier calls that began to build.
        fn get(&self, wanted: u32, make: impl FnOnce(usize) -> Result<(), ()>) -> Result<u32, ()> {
            let find = |_: &mut ()| Ok(self.made.read().iter().copied().find(|known| *known == wanted));
            self.made.find_or_make(&mut (), find, |_| {
                let before = self.begun.fetch_add(1, Ordering::SeqCst);
                thread::yield_now();
                make(before)?;
                self.made.write().push(wanted);
                Ok(wanted)
            })
        }
    }

    /// Calls `get` from three threads, and returns how many of the calls returned the value.
    fn from_three(counted: &Arc<CountingList>, get: fn(&CountingList) -> Result<u32, ()>) -> usize {
        let caller = |_| {
            let counted = counted.clone();
            thread::spawn(move || get(&counted) == Ok(7))
        };
        let callers: Vec<_> = (0..3).map(caller).collect();
        callers.into_iter().map(|caller| usize::from(caller.join().unwrap())).sum()
    }

    #[test]
    fn what_three_threads_miss_is_made_once() {
        check(|| {
            let counted = Arc::new(CountingList::default());
            assert_eq!(from_three(&counted, |counted| counted.get(7, |_| Ok(()))), 3);
            assert_eq!(*counted.made.read(), [7]);
            assert_eq!(counted.begun.load(Ordering::SeqCst), 1);
        });
    }

    #[test]
    fn after_a_failure_the_next_thread_makes_it() {
        check(|| {
            let counted = Arc::new(CountingList::default());
            let get =
                |counted: &CountingList| counted.get(7, |before| if before == 0 { Err(()) } else { Ok(()) });
            assert_eq!(from_three(&counted, get), 2);
            assert_eq!(*counted.made.read(), [7]);
            assert_eq!(counted.begun.load(Ordering::SeqCst), 2);
        });
    }

    #[test]
    fn after_a_panic_the_next_thread_makes_it() {
        check(|| {
            let counted = Arc::new(CountingList::default());
            let get = |counted: &CountingList| {
                let make =
                    |before| if before == 0 { resume_unwind(Box::new("made nothing")) } else { Ok(()) };
                catch_unwind(AssertUnwindSafe(|| counted.get(7, make))).unwrap_or(Err(()))
            };
            assert_eq!(from_three(&counted, get), 2);
            assert_eq!(*counted.made.read(), [7]);
            assert_eq!(counted.begun.load(Ordering::SeqCst), 2);
        });
    }

    #[test]
    fn who_finds_something_does_not_wait_for_who_makes_something() {
        check(|| {
            let counted = Arc::new(CountingList::default());
            counted.made.write().push(1);
            let (found, maker) = (Arc::new(AtomicUsize::new(0)), counted.clone());
            let awaited = found.clone();
            let maker = thread::spawn(move || {
                let make = |_| {
                    while awaited.load(Ordering::SeqCst) == 0 {
                        thread::yield_now();
                    }
                    Ok(())
                };
                maker.get(7, make)
            });
            assert_eq!(counted.get(1, |_| Err(())), Ok(1));
            found.store(1, Ordering::SeqCst);
            assert_eq!(maker.join().unwrap(), Ok(7));
        });
    }
}
