//! The cost of a call as data.

/// The cost of a call. A part is `None` if there is no formula for it, or if it exceeds 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// The number of operations on scalars.
    pub flops: Option<u64>,
    /// The number of bytes that must be read.
    pub bytes_read: Option<u64>,
    /// The number of bytes that must be written.
    pub bytes_written: Option<u64>,
}

impl Cost {
    /// The cost of doing nothing.
    pub const ZERO: Cost = Cost { flops: Some(0), bytes_read: Some(0), bytes_written: Some(0) };

    /// An unknown cost.
    pub const UNKNOWN: Cost = Cost { flops: None, bytes_read: None, bytes_written: None };

    /// Returns the sum of the bytes read and written; `None` if either is unknown.
    pub fn bytes(&self) -> Option<u64> {
        self.bytes_read?.checked_add(self.bytes_written?)
    }

    /// Adds another cost; a part that is unknown in either is unknown in the sum.
    #[must_use]
    pub fn and(self, next: Cost) -> Cost {
        let sum = |a: Option<u64>, b: Option<u64>| a?.checked_add(b?);
        Cost {
            flops: sum(self.flops, next.flops),
            bytes_read: sum(self.bytes_read, next.bytes_read),
            bytes_written: sum(self.bytes_written, next.bytes_written),
        }
    }
}
