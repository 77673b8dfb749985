//! Ends work whose request is over.

use crate::refusal::Refusal;
use bb::{CancelToken, RunOptions};

/// Returns a refusal if the request of this thread's work is over: its deadline has passed, or its client has left.
pub(crate) fn check() -> Result<(), Refusal> {
    RunOptions::check_current().map_err(|ended| over(&ended))
}

/// Returns the refusal for a request whose work was ended.
pub(crate) fn over(ended: &bb::Error) -> Refusal {
    match ended {
        bb::Error::Cancelled => Refusal::Cancelled,
        _ => Refusal::Deadline,
    }
}

/// A guard that cancels work when its request is dropped, because its client has left or its deadline has passed.
pub(crate) struct CancelOnDrop(pub(crate) CancelToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
