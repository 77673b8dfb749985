//! Token counts and times of a generation.

use std::time::Duration;

/// The numbers of tokens and their run times. The times are 0 if the target has no clock, as in a browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// The number of prompt tokens.
    pub prompt_tokens: usize,
    /// The number of prompt tokens that the sequence already contained.
    pub reused_tokens: usize,
    /// The run time of the other prompt tokens.
    pub prompt_time: Duration,
    /// The number of generated tokens.
    pub answer_tokens: usize,
    /// The run time of the generated tokens.
    pub answer_time: Duration,
}

impl Statistics {
    /// Returns the number of prompt tokens that were run per second.
    pub fn prompt_speed(&self) -> f64 {
        (self.prompt_tokens - self.reused_tokens) as f64 / self.prompt_time.as_secs_f64().max(1e-9)
    }

    /// Returns the number of tokens that were generated per second.
    pub fn answer_speed(&self) -> f64 {
        self.answer_tokens as f64 / self.answer_time.as_secs_f64().max(1e-9)
    }
}
