//! Waiting for a device, ending its work, and noticing that it is lost.

use super::ServiceError;

/// The lifecycle of a backend whose device works on its own.
///
/// A backend that computes within its calls needs nothing of this.
pub trait Lifecycle: Send + Sync {
    /// Blocks until the device has done everything that was submitted to it.
    ///
    /// The runtime has waited for the dispatched graphs before.
    ///
    /// # Errors
    ///
    /// [`ServiceError::Lost`] if the device was lost; the backend's own error.
    fn synchronize(&self) -> Result<(), ServiceError> {
        Ok(())
    }

    /// Finishes all submitted work and releases the resources of the device.
    ///
    /// The runtime calls this once. Before, it refuses new calls, and waits for running calls and dispatched graphs.
    ///
    /// # Errors
    ///
    /// The errors of [`synchronize`](Self::synchronize).
    fn shut_down(&self) -> Result<(), ServiceError> {
        self.synchronize()
    }

    /// Returns why the device is lost; `None` while it works.
    ///
    /// The runtime queries this after each failed call, and before it hands out an open instance again. Once this
    /// returned a reason, each call is refused with [`Error::DeviceLost`](crate::Error::DeviceLost), and the registry
    /// opens the backend anew for the next caller.
    fn lost(&self) -> Option<String> {
        None
    }

    /// Returns whether calls return before the device has computed.
    fn is_asynchronous(&self) -> bool {
        false
    }

    /// Returns the number of submissions that the device has not finished; `None` if the backend does not count them.
    fn queued(&self) -> Option<u64> {
        None
    }
}
