//! Token counts and times of a generation.

use std::time::Duration;

/// The numbers of tokens and their times. The times are 0 where the target has no clock, as in a browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// The tokens of the prompt.
    pub prompt_tokens: usize,
    /// The prompt tokens that the sequence had already.
    pub reused_tokens: usize,
    /// The time of the other prompt tokens.
    pub prompt_time: Duration,
    /// The tokens that were generated.
    pub answer_tokens: usize,
    /// The time of the generated tokens.
    pub answer_time: Duration,
}

impl Statistics {
    /// Returns how many tokens of the prompt were run in a second.
    pub fn prompt_speed(&self) -> f64 {
        (self.prompt_tokens - self.reused_tokens) as f64 / self.prompt_time.as_secs_f64().max(1e-9)
    }

    /// Returns how many tokens were generated in a second.
    pub fn answer_speed(&self) -> f64 {
        self.answer_tokens as f64 / self.answer_time.as_secs_f64().max(1e-9)
    }
}
