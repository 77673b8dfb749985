//! The token that clients must have.

use crate::error::Error;
use axum::http::{HeaderMap, header};

/// The longest token, so that it fits the headers of a request.
const LONGEST: usize = 4096;

/// A text that clients send as `Authorization: Bearer TEXT`, by HTTP and as metadata of gRPC.
#[derive(Clone)]
pub struct Token(Box<str>);

impl Token {
    /// Makes a token of visible ASCII characters.
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

    /// Returns whether a request has the token. It takes as long for each wrong one of a length.
    pub(crate) fn is_in(&self, headers: &HeaderMap) -> bool {
        let Some(value) = headers.get(header::AUTHORIZATION) else { return false };
        let Some((scheme, given)) = value.as_bytes().split_at_checked(b"Bearer ".len()) else { return false };
        let (given, own) = (given.trim_ascii(), self.0.as_bytes());
        // The compiler must not end this at the first byte that differs.
        let differ = given.iter().zip(own).fold(0, |differ, (a, b)| std::hint::black_box(differ | (a ^ b)));
        scheme.eq_ignore_ascii_case(b"Bearer ") && given.len() == own.len() && differ == 0
    }
}

/// Does not show the token.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}
