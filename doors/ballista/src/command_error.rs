//! The error of a command.

/// An error of a command.
pub(crate) type CommandError = Box<dyn std::error::Error + Send + Sync>;
