//! Converts panics of foreign code into errors.

use super::paced::Ended;
use crate::Error;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Runs foreign code. If it panics, returns the panic message as `Err`.
#[inline]
pub fn catch<R>(body: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(body)).map_err(message)
}

/// Runs a part of a plan and converts a panic to an error. The plan adds the name of the node to the error.
///
/// A loop that stops because its run must end unwinds too. That unwinding is not converted: it continues to the
/// enclosing [`RunOptions::paced`](crate::RunOptions::paced).
///
/// # Errors
///
/// The errors of `body`; [`Error::KernelPanicked`].
#[inline]
pub(crate) fn contained<R, E: From<Error>>(body: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
    contained_in(|| None, body)
}

/// Runs kernels of a plan like [`contained`]. `op` returns the name of the operation that panicked, if it is known.
///
/// # Errors
///
/// As [`contained`].
#[inline]
pub(crate) fn contained_in<R, E: From<Error>>(
    op: impl FnOnce() -> Option<&'static str>,
    body: impl FnOnce() -> Result<R, E>,
) -> Result<R, E> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| Err(kernel_panicked(op(), payload).into()))
}

#[cold]
fn kernel_panicked(op: Option<&'static str>, payload: Box<dyn Any + Send>) -> Error {
    if payload.is::<Ended>() {
        resume_unwind(payload);
    }
    Error::KernelPanicked { op, message: message(payload) }
}

/// Returns the message of a panic.
#[cold]
fn message(payload: Box<dyn Any + Send>) -> String {
    let payload = match payload.downcast::<String>() {
        Ok(text) => return *text,
        Err(payload) => payload,
    };
    match payload.downcast::<&'static str>() {
        Ok(text) => (*text).to_owned(),
        Err(other) => {
            // The payload is leaked, because dropping a value of unknown type might panic again.
            std::mem::forget(other);
            "the panic carried no message".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CancelToken, RunOptions};

    #[test]
    fn a_panic_is_an_error_with_its_message() {
        let said = |payload: Box<dyn Any + Send>| match contained(|| resume_unwind(payload)) {
            Ok(()) => "nothing".to_owned(),
            Err(Error::KernelPanicked { message, .. }) => message,
            Err(other) => other.to_string(),
        };
        assert_eq!(said(Box::new("broken")), "broken");
        assert_eq!(said(Box::new("broken".to_owned())), "broken");
        assert_eq!(said(Box::new(7)), "the panic carried no message");
    }

    #[test]
    fn a_panic_names_its_operation_if_it_is_known() {
        let payload = || Box::new("add fell over");
        let error = contained_in::<(), Error>(|| Some("add"), || resume_unwind(payload()));
        assert_eq!(
            error.map_err(|error| error.to_string()),
            Err("the kernel of `add` panicked: add fell over".into())
        );
        let error = contained::<(), Error>(|| resume_unwind(payload()));
        assert_eq!(
            error.map_err(|error| error.to_string()),
            Err("the kernel panicked: add fell over".into())
        );
    }

    #[test]
    fn the_end_of_a_run_is_no_panic() {
        let token = CancelToken::new();
        token.cancel();
        let ended = RunOptions::default().with_cancel(&token).within(|| {
            RunOptions::paced(|| {
                contained::<(), Error>(|| {
                    bb_ir::pace::ask();
                    Ok(())
                })
            })
        });
        assert!(matches!(ended, Err(Error::Cancelled)), "{ended:?}");
    }
}
