//! Converts errors of scalars to [`Error`].

use super::Error;
use crate::number::NumberError;

impl From<NumberError> for Error {
    fn from(error: NumberError) -> Error {
        Error::Number(Box::new(error))
    }
}
