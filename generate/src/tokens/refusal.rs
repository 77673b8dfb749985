//! The reasons why a tokenizer is refused before the library reads it.

/// The reason why a tokenizer, or a text for it, is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    /// A component of the file is of an unknown kind.
    #[error("its {section} has the type `{found}`, expected a known one")]
    Component { section: &'static str, found: String },

    /// A part of the file has more elements than is allowed.
    #[error("it has {found} {what}, expected at most {most}")]
    Count { what: &'static str, found: u64, most: u64 },

    /// A value of the file does not have the form that its key requires.
    #[error("its {section} has no {expected}")]
    Form { section: &'static str, expected: &'static str },

    /// A number of the file is not finite.
    #[error("the score of token {token} is {found}, expected a number")]
    Score { token: usize, found: f64 },

    /// The id of a token is not in the vocabulary.
    #[error("its {what} token is {found}, expected at most {most}")]
    Id { what: &'static str, found: u64, most: u64 },

    /// A pair does not consist of two tokens that merge into a third token.
    #[error("the pair `{pair}` {problem}")]
    Pair { pair: String, problem: &'static str },

    /// A pattern has look-around or back-references, so its search may take very long.
    #[error("the pattern `{pattern}` looks around or back, expected `(?!\\S)` behind spaces at most")]
    Pattern { pattern: String },

    /// A text would take too long, because the tokenizer has unknown patterns.
    #[error("it has patterns of its own, so that a text may have at most {most} bytes, found {found}")]
    Text { found: usize, most: usize },

    /// The library panicked.
    #[error("it makes the library `tokenizers` panic")]
    Panic,
}

impl Refusal {
    /// Checks a number against its limit.
    pub(super) fn at_most(what: &'static str, found: usize, most: usize) -> Result<(), Refusal> {
        let (found, most) = (found as u64, most as u64);
        if found > most { Err(Refusal::Count { what, found, most }) } else { Ok(()) }
    }
}
