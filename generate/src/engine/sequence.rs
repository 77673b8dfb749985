//! A sequence of an engine: a prompt and its continuation, or a text to be embedded.

use super::pool::HeldBlock;
use super::{Event, Listener, Pooling};
use crate::answer::Answer;
use crate::onnx::Past;

/// The result that a sequence is run for.
#[derive(Debug)]
pub(super) enum Work {
    Answer(Box<Answer>),
    /// The sum of the states so far, and how many there were.
    Embedding {
        pooling: Pooling,
        sum: Vec<f64>,
        count: usize,
    },
}

/// Where the keys and values of a sequence are.
#[derive(Debug)]
pub(super) enum Store {
    Blocks(Vec<HeldBlock>),
    Past(Past),
}

/// A sequence.
pub(super) struct Sequence {
    /// The prompt, and the generated tokens.
    pub(super) tokens: Vec<u32>,
    /// How many of the tokens have keys and values.
    pub(super) computed: usize,
    pub(super) store: Store,
    pub(super) work: Work,
    pub(super) listener: Box<dyn Listener>,
    /// The tokens that the next step runs.
    pub(super) next: usize,
    /// How many tokens of the prompt were already cached; `None` after it was reported.
    pub(super) reused: Option<usize>,
}

impl std::fmt::Debug for Sequence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Sequence { tokens, computed, next, .. } = self;
        write!(f, "Sequence({} tokens, {computed} of them computed, {next} next)", tokens.len())
    }
}

impl Sequence {
    /// The tokens that have no keys and values yet.
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
