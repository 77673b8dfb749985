//! The service that waits for a device, ends its work, and detects its loss.

use super::ServiceError;

/// The lifecycle service of a backend whose device works asynchronously.
///
/// A backend that computes within its calls does not need to implement it.
pub trait Lifecycle: Send + Sync {
    /// Blocks until the device has finished all submitted work.
    ///
    /// Before this call, the runtime has already waited for the dispatched graphs.
    ///
    /// # Errors
    ///
    /// [`ServiceError::Lost`] if the device was lost; the backend's own error.
    fn synchronize(&self) -> Result<(), ServiceError> {
        Ok(())
    }

    /// Finishes all submitted work and releases the resources of the device.
    ///
    /// The runtime calls this once, after it refuses new calls and has waited for running calls and dispatched
    /// graphs.
    ///
    /// # Errors
    ///
    /// The errors of [`synchronize`](Self::synchronize).
    fn shut_down(&self) -> Result<(), ServiceError> {
        self.synchronize()
    }

    /// Returns the reason why the device is lost; `None` while it works.
    ///
    /// The runtime queries this after each failed call, and before it returns an open instance again. After this has
    /// returned a reason, each call fails with [`Error::DeviceLost`](crate::Error::DeviceLost), and the registry
    /// opens a new instance for the next caller.
    fn lost(&self) -> Option<String> {
        None
    }

    /// Returns whether calls return before the device has finished computing.
    fn is_asynchronous(&self) -> bool {
        false
    }

    /// Returns the number of submissions that the device has not finished; `None` if the backend does not count them.
    fn queued(&self) -> Option<u64> {
        None
    }
}
