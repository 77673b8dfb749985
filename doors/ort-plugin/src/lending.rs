//! Elements borrowed from an owner, for example ONNX Runtime, instead of copied.

use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Borrowed bytes.
#[derive(Debug)]
struct BorrowedBytes {
    first: *const u8,
    length: usize,
    /// Keeps the [`Lending`] from ending.
    _held: Arc<()>,
}

// SAFETY: the bytes are not written while they are lent, so that any thread may read them.
unsafe impl Send for BorrowedBytes {}
// SAFETY: as above.
unsafe impl Sync for BorrowedBytes {}

impl AsRef<[u8]> for BorrowedBytes {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the tensor has as many bytes, and they are valid until the `Lending` ends, which waits for this.
        unsafe { std::slice::from_raw_parts(self.first, self.length) }
    }
}

/// The borrowed elements. Dropping this blocks until the last of them is dropped, because their owner may free or write the memory
/// afterwards.
#[derive(Debug, Default)]
pub struct Lending(Arc<()>);

impl Lending {
    /// Lends bytes.
    ///
    /// # Safety
    ///
    /// The bytes are there, and are not written, until this is dropped.
    pub unsafe fn lend(&self, first: *const u8, length: usize) -> Bytes {
        Bytes::from_owner(BorrowedBytes { first, length, _held: self.0.clone() })
    }
}

/// How long the drop waits for borrowed elements.
const PATIENCE: Duration = Duration::from_secs(10);

impl Drop for Lending {
    fn drop(&mut self) {
        let begun = Instant::now();
        while Arc::strong_count(&self.0) > 1 {
            if begun.elapsed() > PATIENCE {
                // Returning would leave pointers to memory of others in safe code.
                eprintln!(
                    "bb: the backend keeps elements after the end of a call, whose memory is not its own"
                );
                std::process::abort();
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}
