//! The bounds, the requests and the events of an engine.

use crate::Error;
use crate::answer::Piece;
use std::sync::Arc;

/// The bounds of an engine.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct EngineOptions {
    /// How many sequences run at the same time; others wait.
    pub sequences: usize,
    /// How many requests may wait; the next one is refused.
    pub waiting: usize,
    /// How many tokens a step runs, of all sequences together, at least one for each of them.
    pub tokens: usize,
    /// The size of the keys and values of all sequences, in bytes. There is always room for one block.
    pub bytes: usize,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions { sequences: 16, waiting: 64, tokens: 256, bytes: 1 << 30 }
    }
}

/// How the states of a text's tokens become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pooling {
    /// The mean of all.
    Mean,
    /// The state of the last token.
    Last,
}

/// An event of a request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// The prompt was run.
    Prompt {
        /// How many of its tokens had been run for others.
        reused: usize,
    },
    /// The next token came. The last one says why it is the last.
    Piece(Piece),
    /// The state of a text, which is the last event.
    Embedding(Vec<f32>),
    /// The request failed. This is its last event.
    Failed(Arc<Error>),
}

/// The receiver of a request's events.
pub trait Listener: Send {
    /// Takes the next event. It must not wait, because all sequences would.
    fn receive(&mut self, event: Event);

    /// Returns whether the listener has gone, which ends the request.
    fn is_gone(&self) -> bool;
}

/// How much an engine has to do, and has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EngineStatistics {
    /// The sequences that run.
    pub running: usize,
    /// The requests that wait.
    pub waiting: usize,
    /// The tokens of prompts that were run.
    pub prompt_tokens: u64,
    /// The tokens of prompts that had been run for others.
    pub reused_tokens: u64,
    /// The tokens that were generated.
    pub answer_tokens: u64,
    /// The steps.
    pub steps: u64,
    /// How often a sequence had to give its memory to others, and began again.
    pub evictions: u64,
    /// The size of the keys and values that sequences use, in bytes.
    pub bytes: usize,
}
