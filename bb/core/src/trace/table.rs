//! Tables whose entries are accessed only by typed indices.
//!
//! An index without an entry is a bug in `bb`, [`Internal::NoEntry`], because no input can cause it. Every accessor
//! reports it.

use crate::Error;
use crate::error::Internal;
use std::marker::PhantomData;

/// The index of an entry of a [`Table`].
pub trait TableIndex: Copy + Eq + std::fmt::Debug {
    /// The noun for the indexed entries in error messages, as in `value`.
    const WHAT: &'static str;

    /// Returns the index for a position. A position beyond `u32::MAX` becomes `u32::MAX`, which is outside every table.
    fn at(position: usize) -> Self;

    /// Returns the position.
    fn position(self) -> usize;
}

/// Declares index types.
macro_rules! indices {
    ($( $(#[$doc:meta])* $visible:vis $name:ident = $what:literal; )*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        $visible struct $name(u32);

        impl $crate::trace::TableIndex for $name {
            const WHAT: &'static str = $what;

            #[inline]
            fn at(position: usize) -> Self {
                $name(u32::try_from(position).unwrap_or(u32::MAX))
            }

            #[inline]
            fn position(self) -> usize {
                // This cannot truncate: on all targets with `std`, a `usize` has at least 32 bits.
                self.0 as usize
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    )* };
}

pub(crate) use indices;

impl TableIndex for bb_ir::graph::ValueId {
    const WHAT: &'static str = "value of the graph";

    fn at(position: usize) -> Self {
        bb_ir::graph::ValueId(u32::try_from(position).unwrap_or(u32::MAX))
    }

    fn position(self) -> usize {
        self.index()
    }
}

/// A list whose entries are accessed by its own index type.
#[derive(Debug, Clone)]
pub struct Table<I, T> {
    entries: Vec<T>,
    index: PhantomData<fn(I)>,
}

impl<I, T> Default for Table<I, T> {
    fn default() -> Self {
        Table { entries: Vec::new(), index: PhantomData }
    }
}

impl<I: TableIndex, T> Table<I, T> {
    /// Creates a table of `len` entries.
    pub(crate) fn with(len: usize, entry: impl FnMut() -> T) -> Table<I, T> {
        let mut entries = Vec::with_capacity(len);
        entries.resize_with(len, entry);
        Table { entries, index: PhantomData }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds an entry and returns its index.
    pub(crate) fn push(&mut self, entry: T) -> I {
        self.entries.push(entry);
        I::at(self.entries.len() - 1)
    }

    /// Returns an entry.
    ///
    /// # Errors
    ///
    /// [`Internal::NoEntry`] if the table has no entry with this index.
    #[inline]
    pub fn get(&self, index: I) -> Result<&T, Error> {
        match self.entries.get(index.position()) {
            Some(entry) => Ok(entry),
            None => Err(no_entry(I::WHAT, index.position(), self.entries.len())),
        }
    }

    /// Returns a mutable reference to an entry.
    ///
    /// # Errors
    ///
    /// [`Internal::NoEntry`] if the table has no entry with this index.
    #[inline]
    pub(crate) fn get_mut(&mut self, index: I) -> Result<&mut T, Error> {
        let len = self.entries.len();
        match self.entries.get_mut(index.position()) {
            Some(entry) => Ok(entry),
            None => Err(no_entry(I::WHAT, index.position(), len)),
        }
    }

    /// Replaces an entry.
    ///
    /// # Errors
    ///
    /// [`Internal::NoEntry`] if the table has no entry with this index.
    #[inline]
    pub(crate) fn set(&mut self, index: I, entry: T) -> Result<(), Error> {
        *self.get_mut(index)? = entry;
        Ok(())
    }

    /// Iterates over the entries with their indices. Inside [`paced`](crate::RunOptions::paced) work, stops when the
    /// run must end.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (I, &T)> + ExactSizeIterator {
        /// The number of entries between two checks of whether the run must end. Passes take some microseconds per
        /// entry.
        const STRETCH: usize = 256;
        let entries = self.entries.iter().enumerate();
        entries.map(|(position, entry)| (I::at(position), entry)).inspect(|(index, _)| {
            if index.position() % STRETCH == 0 {
                bb_ir::pace::ask();
            }
        })
    }

    /// Iterates mutably over the entries with their indices.
    pub(crate) fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (I, &mut T)> + ExactSizeIterator {
        self.entries.iter_mut().enumerate().map(|(position, entry)| (I::at(position), entry))
    }

    /// Iterates over the entries without their indices.
    pub(crate) fn entries(&self) -> std::slice::Iter<'_, T> {
        self.entries.iter()
    }

    /// Returns the entries without their indices.
    pub(crate) fn into_entries(self) -> Vec<T> {
        self.entries
    }

    /// Removes the entries from a position on, and returns them.
    pub(crate) fn split_off(&mut self, from: usize) -> Vec<T> {
        self.entries.split_off(from.min(self.entries.len()))
    }

    /// Truncates the table to `len` entries.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.entries.truncate(len);
    }
}

impl<I, T> FromIterator<T> for Table<I, T> {
    fn from_iter<A: IntoIterator<Item = T>>(entries: A) -> Self {
        Table { entries: entries.into_iter().collect(), index: PhantomData }
    }
}

/// Returns the content of an entry that must not be empty.
///
/// # Errors
///
/// [`Internal::Empty`] if the entry is empty.
#[inline]
pub(crate) fn held<I: TableIndex, T>(entry: Option<T>, index: I) -> Result<T, Error> {
    match entry {
        Some(held) => Ok(held),
        None => Err(empty(I::WHAT, index.position())),
    }
}

#[cold]
#[inline(never)]
fn no_entry(what: &'static str, index: usize, len: usize) -> Error {
    Error::Internal(Internal::NoEntry { what, index, len })
}

#[cold]
#[inline(never)]
fn empty(what: &'static str, index: usize) -> Error {
    Error::Internal(Internal::Empty { what, index })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    indices! {
        /// An index type for these tests.
        pub(crate) Letter = "letter";
    }

    #[test]
    fn a_table_is_read_by_the_indices_that_it_gave() {
        let mut table: Table<Letter, char> = Table::default();
        let (a, b) = (table.push('a'), table.push('b'));
        assert_eq!((*table.get(a).unwrap(), *table.get(b).unwrap()), ('a', 'b'));
        table.set(a, 'c').unwrap();
        assert_eq!(table.iter().map(|(_, c)| *c).collect::<String>(), "cb");
        assert_eq!(table.iter().map(|(i, _)| i).collect::<Vec<_>>(), [a, b]);
    }

    #[test]
    fn an_index_that_a_table_does_not_have_is_an_internal_error() {
        let mut table: Table<Letter, char> = ['a'].into_iter().collect();
        let error = table.get(Letter::at(1)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "internal error: there is no letter 1 among 1; this is a mistake in bb"
        );
        assert!(table.set(Letter::at(1), 'b').is_err());
        assert!(table.get(Letter::at(usize::MAX)).is_err());
        let error = held(None::<char>, Letter::at(0)).unwrap_err();
        assert_eq!(error.to_string(), "internal error: letter 0 holds nothing; this is a mistake in bb");
    }
}
