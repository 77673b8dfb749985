//! Runs calls on threads of their own and returns their results as futures.

use super::{Completer, CompletionHandle, ContractResponse, RunOptions};
use crate::Error;
use std::sync::{Arc, Mutex, PoisonError};

/// Starts a call on its own thread, and returns its result as a future. The caller can also block on the future.
///
/// The call ends when the [`RunOptions`] of the calling thread end it, or when the future is dropped. If no thread can
/// be started, as in WebAssembly, the call runs to its end before this function returns.
pub(crate) fn on_own_thread<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> ContractResponse<T, Error> {
    let (answer, completer) = CompletionHandle::new().later();
    let waiting = Arc::new(Mutex::new(Some(completer)));
    let given_up = {
        let waiting = waiting.clone();
        move || {
            let waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.as_ref().is_none_or(Completer::is_abandoned)
        }
    };
    let options = RunOptions::current().with_watch(given_up);
    // If no thread can be started, the thread's closure is dropped. The call is shared, so that this thread can still
    // run it.
    let call = Arc::new(Mutex::new(Some(call)));
    let there = call.clone();
    let take = |call: &Mutex<Option<_>>| call.lock().unwrap_or_else(PoisonError::into_inner).take();
    let started = std::thread::Builder::new().name("bb-run".to_owned()).spawn(move || {
        let Some(call) = take(&there) else { return };
        let result = options.within(|| RunOptions::check_current().and_then(|()| call()));
        if let Some(completer) = waiting.lock().unwrap_or_else(PoisonError::into_inner).take() {
            completer.complete(result);
        }
    });
    match started {
        Ok(_) => answer,
        Err(_) => match take(&call) {
            Some(call) => ContractResponse::Now(call()),
            None => answer,
        },
    }
}
