//! Vectors that report an error when the system has no memory for them.
//!
//! The standard library ends the process when an allocation fails. If a model, a file or an extent determines the size of
//! a vector, these functions allocate the vector, so that a failed allocation is reported as [`Error::Memory`]. While they
//! fill a vector, they check for cancellation ([`pace`]).

pub use crate::error::ADDRESSABLE;
use crate::{Error, pace};

/// Converts a number to `usize`; numbers that are too large (only on 32-bit processors) become `usize::MAX`.
pub const fn at_most(count: u64) -> usize {
    if count > usize::MAX as u64 { usize::MAX } else { count as usize }
}

/// Creates an empty vector with room for `n` elements.
///
/// # Errors
///
/// [`Error::Memory`], which names `op`, if the allocation fails.
///
/// # Examples
///
/// ```
/// use bb_ir::{Error, memory};
/// let mut doubled = memory::room("double", 3)?;
/// doubled.extend([1, 2, 3].iter().map(|x| x * 2));
/// assert_eq!(doubled, [2, 4, 6]);
/// assert!(matches!(memory::room::<u64>("double", usize::MAX), Err(Error::Memory { op: "double", .. })));
/// # Ok::<(), Error>(())
/// ```
pub fn room<T>(op: &'static str, n: usize) -> Result<Vec<T>, Error> {
    let mut vec = Vec::new();
    reserve(op, &mut vec, n)?;
    Ok(vec)
}

/// Reserves room for exactly `n` more elements in `vec`.
///
/// # Errors
///
/// As [`room`].
pub fn reserve<T>(op: &'static str, vec: &mut Vec<T>, n: usize) -> Result<(), Error> {
    vec.try_reserve_exact(n).map_err(|_| out_of_memory::<T>(op, vec.len().saturating_add(n)))
}

/// Creates a vector of `n` elements that all equal `value`.
///
/// # Errors
///
/// As [`room`].
pub fn filled<T: Clone>(op: &'static str, value: T, n: usize) -> Result<Vec<T>, Error> {
    let mut vec = room(op, n)?;
    while vec.len() + part::<T>() < n {
        vec.resize(vec.len() + part::<T>(), value.clone());
        pace::ask();
    }
    vec.resize(n, value);
    Ok(vec)
}

/// Copies a slice into a vector.
///
/// # Errors
///
/// As [`room`].
pub fn copied<T: Clone>(op: &'static str, elements: &[T]) -> Result<Vec<T>, Error> {
    let mut vec = room(op, elements.len())?;
    extend(&mut vec, elements);
    Ok(vec)
}

/// Collects the elements of an iterator, as [`Iterator::collect`] does.
///
/// # Errors
///
/// As [`room`].
pub fn collected<T>(op: &'static str, elements: impl IntoIterator<Item = T>) -> Result<Vec<T>, Error> {
    let mut elements = elements.into_iter();
    let mut vec = room(op, elements.size_hint().0)?;
    // The lower bound of the size hint is reserved, so that many elements fit without growing.
    let promised = vec.capacity();
    while vec.len() < promised {
        let part = pace::STRETCH.min(promised - vec.len());
        let before = vec.len();
        vec.extend(elements.by_ref().take(part));
        if vec.len() < before + pace::STRETCH {
            break;
        }
        pace::ask();
    }
    let mut pace = pace::Pace::new();
    for element in elements {
        push(op, &mut vec, element)?;
        pace.step(1);
    }
    Ok(vec)
}

/// Collects the elements of an iterator until its first error.
///
/// # Errors
///
/// The first error of the iterator; otherwise as [`room`].
pub fn try_collected<T, E: From<Error>>(
    op: &'static str,
    elements: impl IntoIterator<Item = Result<T, E>>,
) -> Result<Vec<T>, E> {
    let elements = elements.into_iter();
    let mut vec = room(op, elements.size_hint().0)?;
    let mut pace = pace::Pace::new();
    for element in elements {
        push(op, &mut vec, element?)?;
        pace.step(1);
    }
    Ok(vec)
}

/// Appends one element. If the vector is full, its capacity at least doubles.
///
/// # Errors
///
/// As [`room`].
pub fn push<T>(op: &'static str, vec: &mut Vec<T>, element: T) -> Result<(), Error> {
    if vec.len() == vec.capacity() {
        vec.try_reserve(1).map_err(|_| out_of_memory::<T>(op, vec.len().saturating_add(1)))?;
    }
    vec.push(element);
    Ok(())
}

/// Appends a slice. If the vector is too small, its capacity at least doubles.
///
/// # Errors
///
/// As [`room`].
pub fn append<T: Clone>(op: &'static str, vec: &mut Vec<T>, elements: &[T]) -> Result<(), Error> {
    vec.try_reserve(elements.len())
        .map_err(|_| out_of_memory::<T>(op, vec.len().saturating_add(elements.len())))?;
    extend(vec, elements);
    Ok(())
}

/// Appends a slice to a vector that already has room for it.
pub(crate) fn extend<T: Clone>(vec: &mut Vec<T>, elements: &[T]) {
    if elements.len() <= part::<T>() {
        return vec.extend_from_slice(elements);
    }
    for part in elements.chunks(part::<T>()) {
        vec.extend_from_slice(part);
        pace::ask();
    }
}

/// The number of elements that are copied between two checks for cancellation.
const fn part<T>() -> usize {
    let size = if size_of::<T>() == 0 { 1 } else { size_of::<T>() };
    if pace::BYTES < size { 1 } else { pace::BYTES / size }
}

/// Checks whether the system can allocate `bytes` bytes now.
///
/// Use this before code that allocates by itself and cannot report a failed allocation. Sizes up to 1 MiB are not checked.
///
/// # Errors
///
/// As [`room`].
pub fn probe(op: &'static str, bytes: usize) -> Result<(), Error> {
    const FEW: usize = 1 << 20;
    if bytes <= FEW { Ok(()) } else { room::<u8>(op, bytes).map(drop) }
}

/// Checks whether the system can allocate `count` strings, each in an allocation of its own, and a list of them. `bytes`
/// is the total length of the strings.
///
/// # Errors
///
/// As [`room`].
pub fn probe_strings(op: &'static str, count: usize, bytes: usize) -> Result<(), Error> {
    /// The bytes per string in addition to its text: the pointer and the lengths in the list, the reference counts, and an
    /// allocator's overhead and rounding for a small allocation.
    const EACH: usize = 80;
    probe(op, count.saturating_mul(EACH).saturating_add(bytes))
}

#[cold]
fn out_of_memory<T>(op: &'static str, n: usize) -> Error {
    Error::Memory { op, bytes: n.saturating_mul(size_of::<T>()) }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_failed_allocation_is_an_error_with_its_size() {
        let most = isize::MAX as usize / 8;
        for bytes in [
            room::<u64>("a", most).map(drop),
            filled("a", 1u64, most).map(drop),
            probe("a", most * 8),
            collected("a", std::iter::repeat_n(1u64, most)).map(drop),
        ] {
            assert!(matches!(bytes, Err(Error::Memory { op: "a", bytes }) if bytes == most * 8));
        }
    }

    #[test]
    fn filling_asks_whether_to_go_on() {
        thread_local! {
            static ASKED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
        }
        let asked = |work: &dyn Fn()| {
            ASKED.set(0);
            pace::asked(|| ASKED.set(ASKED.get() + 1), work);
            ASKED.get()
        };
        let (count, bytes) = (3 * pace::STRETCH, vec![7u8; 3 * pace::BYTES + 1]);
        assert_eq!(asked(&|| assert_eq!(collected("a", 0..count).unwrap().len(), count)), 3);
        let odd = || collected("a", (0..2 * count).filter(|i| i % 2 == 1)).unwrap();
        assert_eq!(asked(&|| assert_eq!(odd().last(), Some(&(2 * count - 1)))), 3);
        let fallible = || try_collected::<_, Error>("a", (0..count).map(Ok)).unwrap();
        assert_eq!(asked(&|| assert_eq!(fallible().len(), count)), 3);
        assert!(asked(&|| assert_eq!(copied("a", &bytes).unwrap(), bytes)) >= 3);
        assert!(asked(&|| assert_eq!(filled("a", 7u8, bytes.len()).unwrap(), bytes)) >= 3);
        assert!(asked(&|| append("a", &mut vec![1], &bytes).unwrap()) >= 3);
    }

    #[test]
    fn collecting_accepts_wrong_size_hints() {
        assert_eq!(collected("a", (0..10).filter(|x| x % 2 == 0)).unwrap(), [0, 2, 4, 6, 8]);
        let failing = [Ok(1), Err(Error::NoGraph), Ok(2)];
        assert!(matches!(try_collected("a", failing), Err(Error::NoGraph)));
    }
}
