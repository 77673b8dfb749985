//! Tensor elements that are borrowed from an owner, for example ONNX Runtime, instead of copied.

use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Borrowed bytes.
#[derive(Debug)]
struct BorrowedBytes {
    first: *const u8,
    length: usize,
    /// A reference that keeps the [`Lending`] from ending.
    _held: Arc<()>,
}

// SAFETY: the bytes are not written while they are lent, so any thread may read them.
unsafe impl Send for BorrowedBytes {}
// SAFETY: as above.
unsafe impl Sync for BorrowedBytes {}

impl AsRef<[u8]> for BorrowedBytes {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the owner has `length` bytes. They are valid until the `Lending` is dropped, which waits for this.
        unsafe { std::slice::from_raw_parts(self.first, self.length) }
    }
}

/// A guard for borrowed elements. Dropping it blocks until all of them are dropped, because their owner may free or overwrite the memory
/// afterwards.
#[derive(Debug, Default)]
pub struct Lending(Arc<()>);

impl Lending {
    /// Lends bytes.
    ///
    /// # Safety
    ///
    /// The bytes are valid and are not written until this guard is dropped.
    pub unsafe fn lend(&self, first: *const u8, length: usize) -> Bytes {
        Bytes::from_owner(BorrowedBytes { first, length, _held: self.0.clone() })
    }
}

/// The time that a drop waits for borrowed elements before it aborts.
const PATIENCE: Duration = Duration::from_secs(10);

impl Drop for Lending {
    fn drop(&mut self) {
        let begun = Instant::now();
        while Arc::strong_count(&self.0) > 1 {
            if begun.elapsed() > PATIENCE {
                // Returning would leave dangling pointers in safe code.
                eprintln!(
                    "bb: the backend keeps elements after the end of a call, whose memory is not its own"
                );
                std::process::abort();
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}
