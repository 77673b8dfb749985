//! Schedules the tokens that the next step runs.
//!
//! Each sequence that generates runs its next token. The rest of the step is divided among prompts, so that a long prompt blocks neither
//! generating sequences nor later prompts.

use super::pool::{BlockPool, HeldBlock};
use super::sequence::{Sequence, Store, Work};
use crate::Error;
use crate::blocks::BLOCK;
use std::collections::VecDeque;

/// The minimum number of tokens of a prompt that a step runs.
const LEAST: usize = 8;

/// Adds to a sequence the pool's blocks that already contain its next tokens. The last token is always run, for its logits.
pub(super) fn share(sequence: &mut Sequence, pool: &mut BlockPool) {
    let Sequence { tokens, computed, store: Store::Blocks(blocks), work: Work::Answer(_), reused, .. } =
        sequence
    else {
        // This request needs the states of all tokens, or its caches are in the model's own layout.
        return;
    };
    if *computed != blocks.len() * BLOCK {
        return;
    }
    while *computed + BLOCK < tokens.len() {
        let behind = match blocks.last() {
            None => 0,
            Some(HeldBlock { serial: Some(serial), .. }) => *serial,
            Some(HeldBlock { serial: None, .. }) => return,
        };
        let next = tokens.get(*computed..*computed + BLOCK).unwrap_or_default();
        let Some(held) = pool.find(behind, next) else { return };
        blocks.push(held);
        *computed += BLOCK;
        if let Some(reused) = reused {
            *reused += BLOCK;
        }
    }
}

/// Returns whether an earlier sequence is about to compute the same next block as `sequence`. Then `sequence` waits, to avoid computing the
/// block twice.
fn waits(sequence: &Sequence, before: &[Sequence]) -> bool {
    let of = |sequence: &Sequence| {
        let next = sequence.tokens.get(sequence.computed..sequence.computed + BLOCK)?.to_vec();
        let behind = match sequence.blocks().last() {
            None => 0,
            Some(held) => held.serial?,
        };
        let whole = sequence.computed == sequence.blocks().len() * BLOCK;
        let shares = matches!((&sequence.work, &sequence.store), (Work::Answer(_), Store::Blocks(_)));
        (whole && shares).then_some((behind, next))
    };
    if sequence.left() <= BLOCK {
        return false;
    }
    let Some(own) = of(sequence) else { return false };
    before.iter().any(|other| other.next > 0 && of(other).is_some_and(|other| other == own))
}

/// Decides the number of tokens of each sequence that the next step runs, at most `most` in total.
pub(super) fn plan(running: &mut [Sequence], pool: &mut BlockPool, most: usize) {
    let mut left = most;
    for sequence in running.iter_mut() {
        sequence.next = usize::from(sequence.left() == 1 && left > 0);
        left -= sequence.next;
        if sequence.left() > 1 {
            share(sequence, pool);
        }
    }
    let mut prompts = running.iter().filter(|sequence| sequence.next == 0).count();
    for at in 0..running.len() {
        let Some((sequence, before)) = running.get_mut(..=at).and_then(<[Sequence]>::split_last_mut) else {
            return;
        };
        if sequence.next > 0 {
            continue;
        }
        if !waits(sequence, before) {
            let part = (left / prompts.max(1)).max(LEAST);
            sequence.next = sequence.left().min(part).min(left);
            left -= sequence.next;
        }
        prompts = prompts.saturating_sub(1);
    }
}

/// Allocates blocks for the next step. If there are too few, the last sequence releases its blocks and waits again.
pub(super) fn reserve(
    running: &mut Vec<Sequence>,
    waiting: &mut VecDeque<Sequence>,
    pool: &mut BlockPool,
) -> Result<(), Error> {
    let mut at = 0;
    while let Some(sequence) = running.get_mut(at) {
        let needed = (sequence.computed + sequence.next).div_ceil(BLOCK);
        let Store::Blocks(blocks) = &mut sequence.store else {
            at += 1;
            continue;
        };
        if blocks.len() >= needed {
            at += 1;
            continue;
        }
        if let Some(block) = pool.take()? {
            blocks.push(HeldBlock { block, serial: None });
        } else if let Some(mut last) = running.pop() {
            give_up(&mut last, pool);
            waiting.push_front(last);
        }
    }
    Ok(())
}

/// Releases all blocks of a sequence.
pub(super) fn give_up(sequence: &mut Sequence, pool: &mut BlockPool) {
    if let Store::Blocks(blocks) = &mut sequence.store {
        pool.release(blocks);
        blocks.clear();
        (sequence.computed, sequence.next) = (0, 0);
    }
    // If the number of reused tokens has not been reported yet, it is now 0, because the tokens are computed again.
    sequence.reused = sequence.reused.map(|_| 0);
    if let Work::Embedding { sum, count, .. } = &mut sequence.work {
        sum.clear();
        *count = 0;
    }
}
