//! Values that are made on demand: one thread makes a value, and the other threads that need it wait.

use crate::sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::sync::PoisonError;

/// Values that have been made, and a lock that a thread holds while it makes more.
///
/// A lookup that finds its value never waits for a thread that makes something.
#[derive(Debug, Default)]
pub(crate) struct SingleFlight<K> {
    known: RwLock<K>,
    making: Mutex<()>,
}

impl<K> SingleFlight<K> {
    /// Returns the values that have been made, to read them. The lock must not be held while foreign code runs.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, K> {
        // A panic leaves a list or an option as it was before or after the change, so that a poisoned lock is valid.
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the values that have been made, to change them. The lock must not be held while foreign code runs.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, K> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the result of `find`. If it finds nothing, calls `make`, which adds the value that it makes.
    ///
    /// One thread makes at a time, and the others look again after it, so nothing is made twice. If `make` fails or panics,
    /// the next thread calls its own. Both functions get `state`.
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
        // Another thread may have made it in the meantime.
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

    /// A list, and how often something was made for it.
    #[derive(Default)]
    struct CountingList {
        made: SingleFlight<Vec<u32>>,
        begun: AtomicUsize,
    }

    impl CountingList {
        /// Returns `wanted` from the list; `make` gets the number of earlier constructions.
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

    /// Calls `get` from three threads, and returns how many got the value.
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
