//! The token that clients must have.

use crate::error::Error;
use axum::http::{HeaderMap, header};

/// The maximum length of a token in bytes, so that it fits into the headers of a request.
const LONGEST: usize = 4096;

/// A secret that clients send as `Authorization: Bearer TEXT`, in HTTP headers or gRPC metadata.
#[derive(Clone)]
pub struct Token(Box<str>);

impl Token {
    /// Creates a token from visible ASCII characters.
    ///
    /// # Errors
    ///
    /// [`Error::Token`] if it is empty, longer than 4096 characters, or has characters other than visible ASCII.
    pub fn new(text: &str) -> Result<Token, Error> {
        let visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        if text.is_empty() || text.len() > LONGEST || !visible {
            return Err(Error::Token);
        }
        Ok(Token(text.into()))
    }

    /// Returns whether a request has the token. All wrong tokens of the same length take the same time, so that the time reveals nothing.
    pub(crate) fn is_in(&self, headers: &HeaderMap) -> bool {
        let Some(value) = headers.get(header::AUTHORIZATION) else { return false };
        let Some((scheme, given)) = value.as_bytes().split_at_checked(b"Bearer ".len()) else { return false };
        let (given, own) = (given.trim_ascii(), self.0.as_bytes());
        // `black_box` prevents the compiler from ending the loop at the first byte that differs.
        let differ = given.iter().zip(own).fold(0, |differ, (a, b)| std::hint::black_box(differ | (a ^ b)));
        scheme.eq_ignore_ascii_case(b"Bearer ") && given.len() == own.len() && differ == 0
    }
}

/// Hides the token.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}
