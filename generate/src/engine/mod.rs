//! Runs many sequences together: each step runs a batch of new tokens of all sequences.

mod event;
mod pool;
mod run;
mod schedule;
mod sequence;
mod step;
mod ticket;

pub use event::{EngineOptions, EngineStatistics, Event, Listener, Pooling};
pub use ticket::{Received, Ticket};

use crate::answer::Answer;
use crate::blocks::BLOCK;
use crate::network::Network;
use crate::onnx::Past;
use crate::{Error, GenerateOptions, Generator};
use pool::BlockPool;
use sequence::{Sequence, Store, Work};
use std::collections::VecDeque;
use std::sync::Arc;

/// Runs many sequences of one model in batches.
///
/// # Examples
///
/// ```no_run
/// use bb_generate::{Engine, EngineOptions, GenerateOptions, Generator, OpenOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let generator = Generator::open("model.gguf", &bb::backend("cpu")?, &OpenOptions::default())?;
/// let mut engine = Engine::new(&generator, EngineOptions::default());
/// let mut tickets = Vec::new();
/// for prompt in ["The sun is", "The moon is"] {
///     tickets.push(engine.generate(&generator.tokens().encode(prompt)?, &GenerateOptions::default())?);
/// }
/// while engine.step() {}
/// for ticket in &mut tickets {
///     println!("{}", ticket.text()?);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Engine {
    generator: Generator,
    options: EngineOptions,
    pool: Option<BlockPool>,
    waiting: VecDeque<Sequence>,
    running: Vec<Sequence>,
    statistics: EngineStatistics,
}

impl Engine {
    /// Creates an engine without requests.
    pub fn new(generator: &Generator, options: EngineOptions) -> Engine {
        let pool = match generator.network() {
            Network::Gguf(decoder) => {
                let memory = decoder.blocks();
                let most = (options.bytes / memory.bytes_of(1).max(1)).max(1);
                Some(BlockPool::new(memory, most))
            }
            Network::Onnx(_) => None,
        };
        let generator = generator.clone();
        let statistics = EngineStatistics::default();
        Engine { generator, options, pool, waiting: VecDeque::new(), running: Vec::new(), statistics }
    }

    /// Returns the maximum number of tokens of a sequence, as limited by the model and by the memory.
    pub fn context(&self) -> usize {
        let room = self.pool.as_ref().map_or(usize::MAX, |pool| pool.most() * BLOCK);
        self.generator.context().min(room)
    }

    /// Returns the present load, and the work done so far.
    pub fn statistics(&self) -> EngineStatistics {
        let (running, waiting) = (self.running.len(), self.waiting.len());
        let bytes = match &self.pool {
            Some(pool) => pool.memory().bytes_of(pool.in_use()),
            None => self
                .running
                .iter()
                .map(|sequence| match &sequence.store {
                    Store::Past(past) => past.bytes(),
                    Store::Blocks(_) => 0,
                })
                .sum(),
        };
        EngineStatistics { running, waiting, bytes, ..self.statistics }
    }

    /// Adds a request to generate the continuation of a prompt. Dropping the ticket ends the request.
    ///
    /// # Errors
    ///
    /// The errors of [`add`](Self::add).
    pub fn generate(&mut self, prompt: &[u32], options: &GenerateOptions) -> Result<Ticket, Error> {
        let (ticket, listener) = ticket::pair();
        self.add(prompt, options, Box::new(listener))?;
        Ok(ticket)
    }

    /// Adds a request to generate the continuation of a prompt. Each step runs at most [`EngineOptions::tokens`] tokens of the
    /// prompt, regardless of [`GenerateOptions::chunk`].
    ///
    /// # Errors
    ///
    /// [`Error::NoTokens`], [`Error::Token`], [`Error::Context`], [`Error::Option`] and [`Error::GrammarModel`] for invalid requests;
    /// [`Error::Busy`] if too many requests wait. Later errors are sent to the listener.
    pub fn add(
        &mut self,
        prompt: &[u32],
        options: &GenerateOptions,
        listener: Box<dyn Listener>,
    ) -> Result<(), Error> {
        if options.tokens == 0 {
            return Err(Error::Option { option: "tokens", found: 0.0, expected: "1 or more" });
        }
        let (matcher, longest) = (self.generator.matcher(options)?, self.generator.longest_answer());
        let work = Work::Answer(Box::new(Answer::new(prompt, options, matcher, longest)?));
        self.enter(prompt, work, listener)
    }

    /// Adds a request for the embedding of a text.
    ///
    /// # Errors
    ///
    /// The errors of [`add`](Self::add); [`Error::NoStates`] if the model returns no states.
    pub fn embed(
        &mut self,
        text: &[u32],
        pooling: Pooling,
        listener: Box<dyn Listener>,
    ) -> Result<(), Error> {
        if self.pool.is_none() {
            return Err(Error::NoStates);
        }
        self.enter(text, Work::Embedding { pooling, sum: Vec::new(), count: 0 }, listener)
    }

    fn enter(&mut self, tokens: &[u32], work: Work, listener: Box<dyn Listener>) -> Result<(), Error> {
        if tokens.is_empty() {
            return Err(Error::NoTokens);
        }
        self.generator.check(tokens)?;
        if tokens.len() > self.context() {
            return Err(Error::Context { needed: tokens.len(), most: self.context() });
        }
        if self.waiting.len() >= self.options.waiting {
            return Err(Error::Busy { most: self.options.waiting });
        }
        let store = match &self.pool {
            Some(_) => Store::Blocks(Vec::new()),
            None => Store::Past(Past::default()),
        };
        let tokens = tokens.to_vec();
        self.waiting.push_back(Sequence {
            tokens,
            computed: 0,
            store,
            work,
            listener,
            next: 0,
            reused: Some(0),
        });
        Ok(())
    }

    /// Returns an engine with the same model and limits, but without requests. The requests of this engine end without a last event.
    #[must_use]
    pub fn emptied(self) -> Engine {
        let statistics = self.statistics;
        Engine { statistics, ..Engine::new(&self.generator, self.options) }
    }

    /// Returns whether there are no running or waiting requests.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    /// Runs new tokens of all sequences, and sends the results to the listeners. Returns whether there is more work.
    pub fn step(&mut self) -> bool {
        self.leave();
        self.admit();
        let before = self.running.len();
        if let Err(error) = self.advance() {
            // After an error, the content of the sequences' blocks is unknown, so all sequences fail.
            let error = Arc::new(error);
            for mut sequence in std::mem::take(&mut self.running) {
                if let Some(pool) = &mut self.pool {
                    schedule::give_up(&mut sequence, pool);
                }
                sequence.listener.receive(Event::Failed(error.clone()));
            }
        }
        self.statistics.steps += u64::from(before > 0);
        !self.is_idle()
    }

    /// Ends the requests whose listener no longer receives events.
    fn leave(&mut self) {
        self.waiting.retain(|sequence| !sequence.listener.is_gone());
        let pool = &mut self.pool;
        self.running.retain_mut(|sequence| {
            let gone = sequence.listener.is_gone();
            if gone && let Some(pool) = pool {
                schedule::give_up(sequence, pool);
            }
            !gone
        });
    }

    /// Starts waiting sequences in their order, as long as there is room for their tokens and one more.
    fn admit(&mut self) {
        let most = self.options.sequences.clamp(1, self.options.tokens.max(1));
        while self.running.len() < most {
            let Some(sequence) = self.waiting.front_mut() else { return };
            if let Some(pool) = &mut self.pool {
                schedule::share(sequence, pool);
                let needed = (sequence.tokens.len() + 1).div_ceil(BLOCK).min(pool.most());
                let missing = needed.saturating_sub(sequence.blocks().len());
                // Reserve one block for each running sequence, because each will soon need one.
                let full = missing + self.running.len() > pool.available();
                if full && !self.running.is_empty() {
                    schedule::give_up(sequence, pool);
                    return;
                }
            }
            self.running.extend(self.waiting.pop_front());
        }
    }
}
