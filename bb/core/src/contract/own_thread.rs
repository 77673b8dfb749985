//! Calls that run on a thread of their own and are awaited.

use super::{Completer, CompletionHandle, ContractResponse, RunOptions};
use crate::Error;
use std::sync::{Arc, Mutex, PoisonError};

/// Starts a call on its own thread, and returns its result as a future, which can also be waited for.
///
/// The call ends when the [`RunOptions`] of the calling thread end it, or when the future is dropped. If no thread can be
/// started, as in WebAssembly, the call has finished when this returns.
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
    // If no thread can be started, its closure is dropped, and the call must still be there.
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
