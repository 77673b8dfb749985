//! The names of the options that set limits, for messages.

use std::fmt::Display;
use std::sync::OnceLock;

/// The prefix of the options.
static PREFIX: OnceLock<&'static str> = OnceLock::new();

/// Sets the prefix of the options in this program. Only the first call has an effect.
pub(crate) fn set_prefix(prefix: &'static str) {
    PREFIX.get_or_init(|| prefix);
}

/// Returns the name of the option that sets a limit.
pub(crate) fn option(limit: impl Display) -> String {
    format!("{}{limit}", PREFIX.get().copied().unwrap_or_default())
}
