//! Several errors of a model as one.

use super::Error;

/// The errors of a model, in the order of discovery.
#[derive(Debug)]
pub struct Problems(pub Vec<Error>);

/// The number of errors that a message lists; the others are only counted.
const LISTED: usize = 50;

impl std::fmt::Display for Problems {
    /// Writes each error with its causes, because an error can only have one source.
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
