//! Combines several errors of a model into one.

use super::Error;

/// The errors of a model, in the order of discovery.
#[derive(Debug)]
pub struct Problems(pub Vec<Error>);

/// The maximum number of errors that a message lists.
const LISTED: usize = 50;

impl std::fmt::Display for Problems {
    /// Writes each error with its causes, because a combined error cannot return several sources.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for problem in self.0.iter().take(LISTED) {
            write!(f, "\n  {problem}")?;
            let mut cause = std::error::Error::source(problem);
            while let Some(error) = cause {
                write!(f, ": {error}")?;
                cause = error.source();
            }
        }
        match self.0.len().checked_sub(LISTED) {
            None | Some(0) => Ok(()),
            Some(more) => write!(f, "\n  and {more} more"),
        }
    }
}
