//! The bytes of a tensor in one of several states: ready; not yet compared with a checksum or not yet copied to an aligned
//! buffer; or computed on use.
//!
//! Bytes that have not been checked are private to this file. All access goes through [`Elements::checked`], which runs the check
//! and reports a failure. So callers cannot use the bytes of a damaged file, in whatever order they call the accessors.

use super::{aligned_copy, made::ComputedBytes, mapped};
use crate::Error;
use bytes::Bytes;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// A function that compares bytes with facts about them, for example a checksum.
pub(crate) type Check = Box<dyn Fn(&[u8]) -> Result<(), ErrorMaker> + Send + Sync>;

/// A function that creates the error of a failed check. It is called each time the bytes are requested.
pub(crate) type ErrorMaker = Box<dyn Fn() -> Error + Send + Sync>;

/// The bytes of a tensor. Clones share deferred work, so the work is done only once.
#[derive(Clone)]
pub(super) enum Elements {
    /// Checked and aligned.
    Ready(Bytes),
    Deferred(Arc<Deferred>),
    Made(Arc<ComputedBytes>),
}

/// Bytes that must be checked or copied before they are used.
pub(super) struct Deferred {
    /// The bytes, of any alignment. They may be damaged.
    raw: Bytes,
    align: usize,
    check: Option<Check>,
    /// The result of the check. The check runs once: concurrent callers block until it ends, and a failure is permanent.
    found: OnceLock<Result<(), ErrorMaker>>,
    /// The checked bytes in an aligned buffer.
    aligned: OnceLock<Bytes>,
    /// An aligned copy that is freed when its last handle is dropped; see [`Elements::lent`].
    lent: Mutex<Weak<Bytes>>,
}

/// Bytes that are shared by all tensors that use them, and freed with the last tensor.
pub(super) struct SharedBytes(pub(super) Arc<Bytes>);

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Returns whether bytes must be copied, because they are not aligned to `align`.
fn moves(bytes: &Bytes, align: usize) -> bool {
    !bytes.is_empty() && bytes.as_ptr().align_offset(align) != 0
}

impl Elements {
    /// Wraps bytes that need no check. If they are not aligned to `align`, they are copied to an aligned buffer on first use.
    pub(super) fn unchecked(bytes: Bytes, align: usize) -> Elements {
        if moves(&bytes, align) { Elements::deferred(bytes, align, None) } else { Elements::Ready(bytes) }
    }

    fn deferred(raw: Bytes, align: usize, check: Option<Check>) -> Elements {
        let (found, aligned) = (OnceLock::new(), OnceLock::new());
        Elements::Deferred(Arc::new(Deferred { raw, align, check, found, aligned, lent: Mutex::default() }))
    }

    /// Returns the same bytes with a check that runs before they are used.
    ///
    /// # Errors
    ///
    /// The error of an earlier check.
    pub(super) fn with_check(self, align: usize, check: Check) -> Result<Elements, Error> {
        let raw = self.checked()?.clone();
        Ok(Elements::deferred(raw, align, Some(check)))
    }

    /// Returns the number of bytes.
    pub(super) fn len(&self) -> usize {
        match self {
            Elements::Ready(bytes) => bytes.len(),
            Elements::Deferred(deferred) => deferred.raw.len(),
            Elements::Made(made) => made.len(),
        }
    }

    /// Returns the address of the bytes, and the identity of their check. Together, these identify the bytes without reading
    /// them.
    pub(super) fn place(&self) -> (usize, Option<usize>) {
        match self {
            Elements::Ready(bytes) => (bytes.as_ptr().addr(), None),
            Elements::Deferred(deferred) => {
                let check = deferred.check.is_some().then(|| Arc::as_ptr(deferred).addr());
                (deferred.raw.as_ptr().addr(), check)
            }
            // Computed elements have no address, so the address of the shared state identifies them.
            Elements::Made(made) => (Arc::as_ptr(made).addr(), Some(Arc::as_ptr(made).addr())),
        }
    }

    /// Runs the check and returns the bytes, of any alignment.
    pub(super) fn checked(&self) -> Result<&Bytes, Error> {
        match self {
            Elements::Ready(bytes) => Ok(bytes),
            Elements::Deferred(deferred) => deferred.checked(),
            Elements::Made(made) => made.kept(),
        }
    }

    /// Runs the check and returns the bytes in an aligned buffer.
    pub(super) fn aligned(&self) -> Result<&Bytes, Error> {
        match self {
            Elements::Ready(bytes) => Ok(bytes),
            Elements::Deferred(deferred) => deferred.aligned(),
            Elements::Made(made) => made.kept(),
        }
    }

    /// Runs the check and returns the bytes in an aligned buffer. If they had to be copied, the copy is freed with its last
    /// handle.
    pub(super) fn lent(&self) -> Result<Bytes, Error> {
        match self {
            Elements::Ready(bytes) => Ok(bytes.clone()),
            Elements::Deferred(deferred) => deferred.lent(),
            Elements::Made(made) => made.lent(),
        }
    }

    /// Returns the memory of bytes in a mapped file to the system.
    pub(super) fn forget(&self) {
        match self {
            Elements::Ready(bytes) => mapped::forget(bytes),
            Elements::Deferred(deferred) => mapped::forget(&deferred.raw),
            Elements::Made(_) => {}
        }
    }
}

impl Deferred {
    fn checked(&self) -> Result<&Bytes, Error> {
        if let Some(aligned) = self.aligned.get() {
            return Ok(aligned);
        }
        if let Some(check) = &self.check {
            self.found.get_or_init(|| check(&self.raw)).as_ref().map_err(|refusal| refusal())?;
        }
        Ok(&self.raw)
    }

    fn aligned(&self) -> Result<&Bytes, Error> {
        if let Some(aligned) = self.aligned.get() {
            return Ok(aligned);
        }
        let checked = self.checked()?;
        let aligned = if moves(checked, self.align) {
            aligned_copy("aligning a tensor", checked)?
        } else {
            checked.clone()
        };
        // If another thread was faster, `get_or_init` returns the copy of that thread.
        Ok(self.aligned.get_or_init(|| aligned))
    }

    fn lent(&self) -> Result<Bytes, Error> {
        let checked = self.checked()?;
        if !moves(checked, self.align) {
            return self.aligned().cloned();
        }
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        let copy = match lent.upgrade() {
            Some(copy) => copy,
            None => {
                let copy = Arc::new(aligned_copy("aligning a tensor", checked)?);
                *lent = Arc::downgrade(&copy);
                mapped::forget(&self.raw);
                copy
            }
        };
        Ok(Bytes::from_owner(SharedBytes(copy)))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{DataType, TensorData};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Returns eight bytes whose address is a multiple of 64 plus `shift`.
    fn placed(shift: usize) -> Bytes {
        let store = Bytes::from((0u8..136).collect::<Vec<_>>());
        let start = store.as_ptr().align_offset(64) + shift;
        store.slice(start..start + 8)
    }

    /// Returns a tensor whose check counts how often it runs.
    fn checked(shift: usize, good: bool) -> (TensorData, Arc<AtomicUsize>) {
        let runs = Arc::new(AtomicUsize::new(0));
        let count = runs.clone();
        let check: Check = Box::new(move |bytes| {
            count.fetch_add(1, Ordering::Relaxed);
            assert_eq!(bytes.len(), 8);
            let refusal = || Error::SavedTensor { number: 3, expected: 1, got: 2 };
            if good { Ok(()) } else { Err(Box::new(refusal)) }
        });
        let x = TensorData::adopt(DataType::F32, &[2], placed(shift)).unwrap();
        (x.checked_later(Some(check)).unwrap(), runs)
    }

    fn refused<T>(result: Result<T, Error>) -> bool {
        matches!(result, Err(Error::SavedTensor { number: 3, expected: 1, got: 2 }))
    }

    /// An accessor of the elements: its name, and a function that returns whether the accessor reported the damage.
    type Way = (&'static str, fn(&TensorData) -> bool);

    const WAYS: &[Way] = &[
        ("prepare", |x| refused(x.prepare())),
        ("bytes", |x| refused(x.bytes())),
        ("unaligned_bytes", |x| refused(x.unaligned_bytes())),
        ("aligned", |x| refused(x.aligned())),
        ("as_slice", |x| refused(x.as_slice::<f32>())),
        ("unpacked", |x| refused(x.unpacked())),
        ("reshaped", |x| refused(x.reshaped(&[1, 2]).unwrap().bytes())),
        ("cast", |x| refused(crate::convert::cast(x, DataType::I32, Default::default()))),
        ("try_to_proto", |x| refused(x.try_to_proto("x"))),
        ("to_proto", |x| TensorData::from_proto(&x.to_proto("x")).is_err()),
        ("to_npy", |x| refused(x.to_npy())),
        ("encode", |x| refused(crate::wire::encode(x))),
        ("write", |x| refused(crate::wire::write(&mut Vec::new(), x, crate::wire::Checksum::Header))),
        ("equality", |x| *x != x.clone()),
        ("save", |x| {
            let mut content = crate::compact::Writer::default();
            crate::compact::Compact::write(x, &mut content);
            crate::compact::write(&content, &mut Vec::new()).is_err()
        }),
    ];

    #[test]
    fn every_way_to_damaged_elements_reports_it_whichever_comes_first() {
        for shift in [0, 1] {
            for (first, way) in WAYS {
                let (x, runs) = checked(shift, false);
                assert!(way(&x), "{first}, shifted by {shift}");
                // All accessors report the damage afterwards, also on clones, and the check does not run again.
                for (second, way) in WAYS {
                    assert!(way(&x.clone()), "{second} after {first}, shifted by {shift}");
                }
                assert_eq!(runs.load(Ordering::Relaxed), 1, "{first}, shifted by {shift}");
            }
        }
    }

    #[test]
    fn the_check_of_good_elements_runs_once() {
        for shift in [0, 1] {
            let (x, runs) = checked(shift, true);
            let plain = TensorData::adopt(DataType::F32, &[2], placed(0)).unwrap();
            assert_eq!(runs.load(Ordering::Relaxed), 0);
            for (way, damaged) in WAYS {
                assert!(!damaged(&x.clone()), "{way}, shifted by {shift}");
            }
            assert_eq!(x.bytes().unwrap().len(), plain.byte_len());
            assert_eq!(runs.load(Ordering::Relaxed), 1, "shifted by {shift}");
        }
    }

    #[test]
    fn threads_that_come_together_get_one_answer_of_one_check() {
        for good in [true, false] {
            let (x, runs) = checked(1, good);
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| assert_eq!(x.clone().bytes().is_ok(), good));
                }
            });
            assert_eq!(runs.load(Ordering::Relaxed), 1);
        }
    }

    /// [`TensorData::iter_bytes`] returns no `Result`, so strings must be checked before there is a tensor.
    #[test]
    fn strings_are_checked_and_aligned_at_once() {
        let text = TensorData::strings(&[1], &["ab"]).unwrap();
        let mut store = vec![0; 3];
        store.extend_from_slice(text.bytes().unwrap());
        for shift in [3, 2, 1] {
            let bytes = Bytes::from(store.split_off(0)).slice(shift..);
            store = [&vec![0; shift - 1], &bytes[..]].concat();
            let x = TensorData::adopt(DataType::String, &[1], bytes).unwrap();
            assert_eq!(x.bytes().unwrap().as_ptr().align_offset(8), 0);
            assert!(matches!(x.elements, Elements::Ready(_)));
        }
        let refusal = || Error::SavedTensor { number: 3, expected: 1, got: 2 };
        assert!(refused(text.checked_later(Some(Box::new(move |_| Err(Box::new(refusal)))))));
    }

    #[test]
    fn a_copy_for_alignment_lives_as_long_as_somebody_holds_it() {
        let moved = TensorData::adopt(DataType::U32, &[2], placed(1)).unwrap();
        let held = |x: &TensorData| match &x.elements {
            Elements::Deferred(deferred) => deferred.lent.lock().unwrap().strong_count(),
            Elements::Ready(_) | Elements::Made(_) => 0,
        };
        let [first, second] = [moved.aligned().unwrap(), moved.clone().aligned().unwrap()];
        let place = |x: &TensorData| x.bytes().unwrap().as_ptr();
        assert_eq!(first, moved);
        assert_eq!(place(&first), place(&second));
        assert_eq!(held(&moved), 2);
        drop((first, second));
        assert_eq!(held(&moved), 0);
        // After the elements were read, the tensor keeps a copy of its own.
        moved.as_slice::<u32>().unwrap();
        assert_eq!(place(&moved.aligned().unwrap()), place(&moved));
        let aligned = TensorData::new(&[2], &[1f32, 2.0]).unwrap();
        assert_eq!(place(&aligned.aligned().unwrap()), place(&aligned));
    }

    #[test]
    fn tensors_of_one_place_with_other_checks_are_told_apart() {
        let bytes = placed(0);
        let make = || TensorData::adopt(DataType::F32, &[2], bytes.clone()).unwrap();
        let good = || -> Option<Check> { Some(Box::new(|_| Ok(()))) };
        let (first, second) = (make().checked_later(good()).unwrap(), make().checked_later(good()).unwrap());
        assert_eq!(make().identity(), make().identity());
        assert_eq!(first.identity(), first.reshaped(&[2, 1]).unwrap().identity());
        assert_ne!(first.identity(), second.identity());
        assert_ne!(first.identity(), make().identity());
        let before = first.identity();
        first.prepare().unwrap();
        assert_eq!(first.identity(), before, "a check that has run does not change it");
    }
}
