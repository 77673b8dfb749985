//! A cache of tables that operators build from their parameters.
//!
//! An operator on the host is a function of its operands and parameters, and building a table of many words takes longer than
//! looking up a row of them. So the most recently used tables are cached together with the parameters that they were built from.

use bb_ir::TensorData;
use std::sync::{Arc, Mutex};

/// The maximum number of tables of one kind that are cached.
const TABLES: usize = 8;
/// The maximum size of the parameters of a cached table, in bytes.
pub(super) const BYTES: usize = 16 << 20;

/// Tables of one kind, the most recently used last.
#[derive(Debug)]
pub struct Kept<T>(Mutex<Vec<Arc<T>>>);

impl<T> Default for Kept<T> {
    fn default() -> Kept<T> {
        Kept::new()
    }
}

impl<T> Kept<T> {
    /// Creates a cache without tables.
    pub const fn new() -> Kept<T> {
        Kept(Mutex::new(Vec::new()))
    }

    /// Returns the cached table that `fits`, or builds one. `bytes` is the size of the new table's parameters; the table is
    /// cached only if this is small enough.
    pub fn get<E>(
        &self,
        bytes: usize,
        fits: impl Fn(&T) -> bool,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        if let Some(found) = self.find(fits) {
            return Ok(found);
        }
        let made = Arc::new(make()?);
        if bytes <= BYTES
            && let Ok(mut kept) = self.0.lock()
        {
            if kept.len() == TABLES {
                kept.remove(0);
            }
            kept.push(made.clone());
        }
        Ok(made)
    }

    fn find(&self, fits: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let mut kept = self.0.lock().ok()?;
        let at = kept.iter().rposition(|table| fits(table))?;
        let found = kept.remove(at);
        kept.push(found.clone());
        Some(found)
    }
}

/// Returns whether two tensors have the same elements.
pub fn same(a: &TensorData, b: &TensorData) -> bool {
    let (Ok(left), Ok(right)) = (a.unaligned_bytes(), b.unaligned_bytes()) else { return false };
    a.dtype() == b.dtype() && a.len() == b.len() && (left.as_ptr() == right.as_ptr() || left == right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[test]
    fn the_tables_that_were_used_last_are_kept() {
        let kept = Kept::new();
        let made = std::cell::Cell::new(0);
        let get = |number: usize, bytes: usize| {
            let make = || {
                made.set(made.get() + 1);
                Ok::<_, Infallible>(number)
            };
            assert_eq!(*kept.get(bytes, |&own| own == number, make).unwrap(), number);
        };
        for number in 0..TABLES {
            get(number, 0);
        }
        assert_eq!(made.get(), TABLES);
        get(0, 0);
        assert_eq!(made.get(), TABLES);
        // One more table evicts number 1, the least recently used.
        get(TABLES, 0);
        get(0, 0);
        assert_eq!(made.get(), TABLES + 1);
        get(1, 0);
        assert_eq!(made.get(), TABLES + 2);
        // A table that is too large is never cached, so each call builds it.
        get(99, BYTES + 1);
        get(99, BYTES + 1);
        assert_eq!(made.get(), TABLES + 4);
    }
}
