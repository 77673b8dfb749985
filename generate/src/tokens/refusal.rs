//! Why a tokenizer is refused before the library reads it.

/// Why a tokenizer, or a text for it, is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    /// A part of the file is of a kind that is not known.
    #[error("its {section} has the type `{found}`, expected a known one")]
    Component { section: &'static str, found: String },

    /// A part of the file has more elements than is allowed.
    #[error("it has {found} {what}, expected at most {most}")]
    Count { what: &'static str, found: u64, most: u64 },

    /// A value of the file is not of the form that its key needs.
    #[error("its {section} has no {expected}")]
    Form { section: &'static str, expected: &'static str },

    /// A number of the file is not finite.
    #[error("the score of token {token} is {found}, expected a number")]
    Score { token: usize, found: f64 },

    /// The number of a token is not one of the vocabulary.
    #[error("its {what} token is {found}, expected at most {most}")]
    Id { what: &'static str, found: u64, most: u64 },

    /// A pair of tokens has another form than two tokens that make a third one.
    #[error("the pair `{pair}` {problem}")]
    Pair { pair: String, problem: &'static str },

    /// A pattern looks around or back, so that its search may take very long.
    #[error("the pattern `{pattern}` looks around or back, expected `(?!\\S)` behind spaces at most")]
    Pattern { pattern: String },

    /// A text would take too long, because the patterns of the tokenizer are its own.
    #[error("it has patterns of its own, so that a text may have at most {most} bytes, found {found}")]
    Text { found: usize, most: usize },

    /// The library panicked.
    #[error("it makes the library `tokenizers` panic")]
    Panic,
}

impl Refusal {
    /// Compares a number with its bound.
    pub(super) fn at_most(what: &'static str, found: usize, most: usize) -> Result<(), Refusal> {
        let (found, most) = (found as u64, most as u64);
        if found > most { Err(Refusal::Count { what, found, most }) } else { Ok(()) }
    }
}
