//! A sequence of an engine: a prompt and its continuation, or a text to be embedded.

use super::pool::HeldBlock;
use super::{Event, Listener, Pooling};
use crate::answer::Answer;
use crate::onnx::Past;

/// The result that a sequence computes.
#[derive(Debug)]
pub(super) enum Work {
    Answer(Box<Answer>),
    /// The sum of the states so far, and their number.
    Embedding {
        pooling: Pooling,
        sum: Vec<f64>,
        count: usize,
    },
}

/// The storage of a sequence's keys and values.
#[derive(Debug)]
pub(super) enum Store {
    Blocks(Vec<HeldBlock>),
    Past(Past),
}

/// A sequence.
pub(super) struct Sequence {
    /// The prompt, followed by the generated tokens.
    pub(super) tokens: Vec<u32>,
    /// The number of tokens whose keys and values are computed.
    pub(super) computed: usize,
    pub(super) store: Store,
    pub(super) work: Work,
    pub(super) listener: Box<dyn Listener>,
    /// The number of tokens that the next step runs.
    pub(super) next: usize,
    /// The number of prompt tokens that were already cached; `None` after it was reported.
    pub(super) reused: Option<usize>,
}

impl std::fmt::Debug for Sequence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Sequence { tokens, computed, next, .. } = self;
        write!(f, "Sequence({} tokens, {computed} of them computed, {next} next)", tokens.len())
    }
}

impl Sequence {
    /// Returns the number of tokens whose keys and values are not computed yet.
    pub(super) fn left(&self) -> usize {
        self.tokens.len() - self.computed
    }

    pub(super) fn blocks(&self) -> &[HeldBlock] {
        match &self.store {
            Store::Blocks(blocks) => blocks,
            Store::Past(_) => &[],
        }
    }

    /// Sends the number of cached prompt tokens to the listener, once.
    pub(super) fn begun(&mut self) {
        if let Some(reused) = self.reused.take() {
            self.listener.receive(Event::Prompt { reused });
        }
    }
}
