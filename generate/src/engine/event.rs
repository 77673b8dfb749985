//! The limits, the requests and the events of an engine.

use crate::Error;
use crate::answer::Piece;
use std::sync::Arc;

/// The limits of an engine.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct EngineOptions {
    /// The maximum number of sequences that run at the same time. Other sequences wait.
    pub sequences: usize,
    /// The maximum number of waiting requests. Further requests are refused.
    pub waiting: usize,
    /// The maximum number of tokens that a step runs, over all sequences. Each sequence runs at least one
    /// token.
    pub tokens: usize,
    /// The maximum size of the keys and values of all sequences, in bytes. There is always room for one
    /// block.
    pub bytes: usize,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions { sequences: 16, waiting: 64, tokens: 256, bytes: 1 << 30 }
    }
}

/// How the states of a text's tokens are combined into one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pooling {
    /// The mean of all states.
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
        /// The number of prompt tokens whose results were reused from other requests.
        reused: usize,
    },
    /// The next token. The last piece contains the reason for the end.
    Piece(Piece),
    /// The embedding of a text. This is the request's last event.
    Embedding(Vec<f32>),
    /// The request failed. This is its last event.
    Failed(Arc<Error>),
}

/// The receiver of a request's events.
pub trait Listener: Send {
    /// Receives the next event. It must not block, because it would block all sequences.
    fn receive(&mut self, event: Event);

    /// Returns whether the listener no longer receives events, which ends the request.
    fn is_gone(&self) -> bool;
}

/// The present load of an engine, and the work that it has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EngineStatistics {
    /// The number of running sequences.
    pub running: usize,
    /// The number of waiting requests.
    pub waiting: usize,
    /// The number of prompt tokens that were run.
    pub prompt_tokens: u64,
    /// The number of prompt tokens whose results were reused from other requests.
    pub reused_tokens: u64,
    /// The number of generated tokens.
    pub answer_tokens: u64,
    /// The number of steps.
    pub steps: u64,
    /// How often a sequence lost its blocks to other sequences, and started again.
    pub evictions: u64,
    /// The size of the keys and values that sequences use, in bytes.
    pub bytes: usize,
}
