//! Accounts for the bytes, steps and time of one rendering of a template.
//!
//! Filters of the template library receive no state, so the account is stored in a thread-local variable during a
//! rendering.

use bb::Budget;
use minijinja::{Error, ErrorKind};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The number of bytes that a rendering may allocate, in addition to the part that is proportional to its input.
const BYTES: u64 = 32 << 20;
/// The number of bytes that a rendering may allocate for each byte of the template and the messages.
const BYTES_PER_BYTE: u64 = 64;
/// The number of steps that a rendering may take, in addition to the part that is proportional to its input. A step
/// corresponds to about 16 bytes that are compared, or two characters that are examined.
const STEPS: u64 = 8 << 20;
/// The number of steps for each byte of the template and the messages.
const STEPS_PER_BYTE: u64 = 16;
/// The maximum weight of a list or dictionary, without the part that is proportional to the input. The weight is about
/// the size in bytes.
const WEIGHT: u64 = 16 << 20;
/// The additional weight for each byte of the template and the messages.
const WEIGHT_PER_BYTE: u64 = 8;

/// The bytes and steps that one rendering has used and may still use.
#[derive(Debug)]
pub(super) struct Account {
    budget: Budget,
    heaviest: u64,
    macros: Cell<u64>,
}

impl Account {
    /// Returns an account for an input of `size` bytes, with the deadline of this thread.
    pub(super) fn new(size: usize) -> Account {
        let size = size as u64;
        let steps = size.saturating_mul(STEPS_PER_BYTE).saturating_add(STEPS);
        let bytes = size.saturating_mul(BYTES_PER_BYTE).saturating_add(BYTES);
        Account {
            budget: Budget::new("the template", bytes, steps),
            heaviest: size.saturating_mul(WEIGHT_PER_BYTE).saturating_add(WEIGHT),
            macros: Cell::new(0),
        }
    }

    /// Calls a function that charges its work to this account.
    pub(super) fn within<T>(self, call: impl FnOnce() -> T) -> T {
        let _restore = Restore(CURRENT.replace(Some(Rc::new(self))));
        call()
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Account>>> = const { RefCell::new(None) };
}

/// Restores the thread's previous account, even after a panic.
struct Restore(Option<Rc<Account>>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

fn current<T>(take: impl FnOnce(&Account) -> Result<T, bb::Error>) -> Result<T, Error> {
    CURRENT.with_borrow(|account| match account {
        Some(account) => take(account).map_err(refused),
        None => Err(Error::new(ErrorKind::InvalidOperation, "no template is being rendered")),
    })
}

/// Wraps an error of the budget, which becomes the source.
fn refused(error: bb::Error) -> Error {
    Error::new(ErrorKind::InvalidOperation, "the template takes more than is allowed").with_source(error)
}

/// Charges bytes that are about to be allocated.
pub(super) fn bytes(bytes: usize) -> Result<(), Error> {
    current(|account| account.budget.take_bytes(bytes))
}

/// Charges steps of work.
pub(super) fn steps(steps: u64) -> Result<(), Error> {
    current(|account| account.budget.take_steps(steps))
}

/// Refuses a list or dictionary whose weight exceeds the maximum.
pub(super) fn weight(weight: u64) -> Result<(), Error> {
    current(|account| {
        let most = account.heaviest;
        let refused = bb::Error::Budget { what: "a list of the template", most, unit: "bytes" };
        if weight > most { Err(refused) } else { Ok(()) }
    })
}

/// Counts a macro that is about to be built, and returns the number of macros before it.
pub(super) fn next_macro() -> Result<u64, Error> {
    current(|account| {
        let before = account.macros.get();
        account.macros.set(before.saturating_add(1));
        Ok(before)
    })
}

/// Returns the budget's error that ended a rendering, if there is one.
pub(super) fn cause(error: &Error) -> Option<&bb::Error> {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        if let Some(found) = error.downcast_ref::<bb::Error>() {
            return Some(found);
        }
        source = error.source();
    }
    None
}
