//! A cache of values that are created once per process, even if several queries request a value at the same time.

use crate::error::Error;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

type Made<V> = Arc<OnceLock<Result<Arc<V>, Arc<Error>>>>;

/// Values by key. The least recently used values are dropped first.
pub(crate) struct Cache<K, V> {
    /// The maximum number of values.
    most: usize,
    /// The maximum total size of the values in bytes. The newest value always stays.
    most_bytes: usize,
    /// The entries, with the most recently used last.
    entries: Mutex<Vec<(K, Made<V>)>>,
}

impl<K: PartialEq, V: Weigh> Cache<K, V> {
    pub(crate) const fn new(most: usize, most_bytes: usize) -> Cache<K, V> {
        Cache { most, most_bytes, entries: Mutex::new(Vec::new()) }
    }

    /// Returns the value of a key. Creates it if it is missing. Threads that request the same key wait until one of them has created the
    /// value. An error is returned to all of them, and not cached.
    pub(crate) fn get(&self, key: K, make: impl FnOnce() -> Result<V, Error>) -> Result<Arc<V>, Error>
    where
        K: Clone,
    {
        let slot = self.slot(key.clone());
        let made = slot.get_or_init(|| make().map(Arc::new).map_err(Arc::new)).clone();
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if made.is_err() {
            entries.retain(|(_, other)| !Arc::ptr_eq(other, &slot));
        }
        let weight = |made: &Made<V>| made.get().and_then(|v| v.as_ref().ok()).map_or(0, |v| v.weight());
        let mut bytes: usize = entries.iter().map(|(_, made)| weight(made)).fold(0, usize::saturating_add);
        while entries.len() > 1 && (entries.len() > self.most || bytes > self.most_bytes) {
            let (_, dropped) = entries.remove(0);
            bytes = bytes.saturating_sub(weight(&dropped));
        }
        made.map_err(Error::Shared)
    }

    /// Returns the slot of a key, and marks it as the most recently used.
    fn slot(&self, key: K) -> Made<V> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let known = entries.iter().position(|(known, _)| *known == key);
        let entry = known.map_or_else(|| (key, Made::default()), |index| entries.remove(index));
        let slot = entry.1.clone();
        entries.push(entry);
        slot
    }
}

/// Types with an approximate size in bytes.
pub(crate) trait Weigh {
    fn weight(&self) -> usize;
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    impl Weigh for usize {
        fn weight(&self) -> usize {
            *self
        }
    }

    fn nothing() -> Error {
        Error::NotLiteral { input: "x".to_owned() }
    }

    #[test]
    fn threads_that_ask_together_share_one_making() {
        static CACHE: Cache<u8, usize> = Cache::new(4, 1000);
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let make = || {
            std::thread::sleep(std::time::Duration::from_millis(50));
            Ok(MADE.fetch_add(1, Ordering::Relaxed))
        };
        std::thread::scope(|scope| {
            (0..8).for_each(|_| {
                scope.spawn(|| assert_eq!(*CACHE.get(1, make).unwrap(), 0));
            });
        });
        assert_eq!(MADE.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let cache: Cache<u8, usize> = Cache::new(2, 100);
        let (a, b, c) = (1, 2, 3);
        cache.get(a, || Ok(10)).unwrap();
        cache.get(b, || Ok(20)).unwrap();
        cache.get(a, || Err(nothing())).unwrap();
        cache.get(c, || Ok(30)).unwrap();
        cache.get(a, || Err(nothing())).unwrap();
        assert!(cache.get(b, || Err(nothing())).is_err());
        // The values of 95 and 10 bytes exceed the limit together, and the newer one stays.
        cache.get(b, || Ok(95)).unwrap();
        assert!(cache.get(a, || Err(nothing())).is_err());
        cache.get(b, || Err(nothing())).unwrap();
    }

    #[test]
    fn an_error_is_not_kept() {
        let cache: Cache<u8, usize> = Cache::new(2, 100);
        assert!(cache.get(1, || Err(nothing())).is_err());
        assert_eq!(*cache.get(1, || Ok(5)).unwrap(), 5);
    }
}
