//! A step of an engine: runs the scheduled tokens, and passes the results to their sequences.

use super::pool::BlockPool;
use super::run::run;
use super::sequence::{Sequence, Store, Work};
use super::{Engine, Event, Pooling, schedule};
use crate::Error;
use crate::blocks::BLOCK;
use crate::decoder::{Decoder, Ran};
use crate::network::Network;
use std::sync::Arc;

impl Engine {
    /// Runs a step.
    pub(super) fn advance(&mut self) -> Result<(), Error> {
        let generator = self.generator.clone();
        match (generator.network(), &mut self.pool) {
            (Network::Gguf(decoder), Some(pool)) => {
                schedule::plan(&mut self.running, pool, self.options.tokens.max(1));
                let before = self.running.len();
                schedule::reserve(&mut self.running, &mut self.waiting, pool)?;
                self.statistics.evictions += (before - self.running.len()) as u64;
                if self.running.iter().all(|sequence| sequence.next == 0) {
                    return Ok(());
                }
                let ran = run(decoder, &self.running, pool)?;
                self.take(decoder, ran)
            }
            (network, _) => {
                self.in_turn(network);
                Ok(())
            }
        }
    }

    /// Passes the results of a batched step to the sequences.
    fn take(&mut self, decoder: &Decoder, ran: Ran) -> Result<(), Error> {
        let Ran { logits, states, .. } = &ran;
        let mut logits = logits.as_slice::<f32>()?.chunks_exact(decoder.vocabulary().max(1));
        let mut states = states.as_slice::<f32>()?.chunks_exact(decoder.width().max(1));
        let missing = || Error::Internal { what: "a run gave too few rows" };
        let mut ended = Vec::with_capacity(self.running.len());
        for at in 0..self.running.len() {
            let Some(sequence) = self.running.get_mut(at) else { break };
            let (count, whole) = (sequence.next, sequence.next == sequence.left());
            self.statistics.prompt_tokens += if sequence.reused.is_some() { count as u64 } else { 0 };
            sequence.computed += count;
            if let Some(pool) = &mut self.pool {
                filled(sequence, pool);
            }
            ended.push(match &mut sequence.work {
                _ if count == 0 => false,
                Work::Embedding { pooling, sum, count: of } => {
                    let rows = if *pooling == Pooling::Mean { count } else { usize::from(whole) };
                    for _ in 0..rows {
                        let row = states.next().ok_or_else(missing)?;
                        sum.resize(row.len(), 0.0);
                        sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x));
                        *of += 1;
                    }
                    if whole {
                        let mean = sum.iter().map(|x| (x / *of as f64) as f32).collect();
                        sequence.begun();
                        sequence.listener.receive(Event::Embedding(mean));
                    }
                    whole
                }
                Work::Answer(_) if whole => {
                    let row = logits.next().ok_or_else(missing)?;
                    self.chosen(at, row)
                }
                Work::Answer(_) => false,
            });
        }
        self.end(&ended);
        Ok(())
    }

    /// Runs a model with its own cache layout, one sequence after another.
    fn in_turn(&mut self, network: &Network) {
        let most = self.options.tokens.max(1);
        let mut ended = Vec::with_capacity(self.running.len());
        for at in 0..self.running.len() {
            let Some(sequence) = self.running.get_mut(at) else { break };
            let (from, count) = (sequence.computed, sequence.left().min(most));
            let part = sequence.tokens.get(from..from + count).unwrap_or_default();
            let result = match (network, &mut sequence.store) {
                (Network::Onnx(decoder), Store::Past(past)) => decoder.step(part, &[count as i64 - 1], past),
                _ => Err(Error::Internal { what: "a sequence has the caches of another network" }),
            };
            self.statistics.prompt_tokens += if sequence.reused.is_some() { count as u64 } else { 0 };
            sequence.computed += count;
            ended.push(match result {
                Ok(_) if sequence.left() > 0 => false,
                Ok(logits) => match logits.as_slice::<f32>() {
                    Ok(logits) => self.chosen(at, logits),
                    Err(error) => {
                        sequence.listener.receive(Event::Failed(Arc::new(error.into())));
                        true
                    }
                },
                Err(error) => {
                    sequence.listener.receive(Event::Failed(Arc::new(error)));
                    true
                }
            });
        }
        self.end(&ended);
    }

    /// Chooses the next token of a sequence. Returns whether it is the last one.
    fn chosen(&mut self, at: usize, logits: &[f32]) -> bool {
        let context = self.context();
        let Some(sequence) = self.running.get_mut(at) else { return true };
        self.statistics.reused_tokens += sequence.reused.unwrap_or(0) as u64;
        sequence.begun();
        let full = sequence.tokens.len() >= context;
        let Work::Answer(answer) = &mut sequence.work else { return true };
        match answer.next(logits, self.generator.tokens(), full) {
            Ok(piece) => {
                self.statistics.answer_tokens += 1;
                let (token, ends) = (piece.token, piece.end.is_some());
                sequence.listener.receive(Event::Piece(piece));
                if !ends {
                    sequence.tokens.push(token);
                }
                ends
            }
            Err(error) => {
                sequence.listener.receive(Event::Failed(Arc::new(error)));
                true
            }
        }
    }

    /// Removes the sequences that have ended.
    fn end(&mut self, ended: &[bool]) {
        let mut ended = ended.iter();
        let pool = &mut self.pool;
        self.running.retain_mut(|sequence| {
            let ends = ended.next().copied().unwrap_or(false);
            if ends && let Some(pool) = pool {
                schedule::give_up(sequence, pool);
            }
            !ends
        });
    }
}

/// Records the content of those blocks of a sequence that have become full.
fn filled(sequence: &mut Sequence, pool: &mut BlockPool) {
    let Sequence { tokens, computed, store: Store::Blocks(blocks), .. } = sequence else { return };
    let full = *computed / BLOCK;
    let from = blocks.iter().position(|held| held.serial.is_none()).unwrap_or(full);
    for at in from..full {
        let behind = match at.checked_sub(1) {
            None => Some(0),
            Some(before) => blocks.get(before).and_then(|held| held.serial),
        };
        let part = tokens.get(at * BLOCK..(at + 1) * BLOCK).unwrap_or_default();
        if let (Some(held), Some(behind)) = (blocks.get_mut(at), behind) {
            held.serial = pool.fill(held.block, behind, part);
        }
    }
}
