//! Moves transposes past element-wise steps, so that they meet and cancel.
//!
//! Models that were exported with the channels last put transposes around each convolution, and element-wise steps between
//! them. A transpose is rarely free: a consumer then reads with strides, or copies. Element-wise steps
//! and `concat` compute the same bits in any order of dimensions, so that they may as well run before the transpose as behind
//! it. Sums may not, because their bits depend on the order of the terms.
//!
//! A *region* is a set of such steps of one rank that feed each other (`regions.rs`). Its steps run either as they are or all
//! with permuted dimensions. Which of both is better, the elements tell that transposes at the region's border move
//! (`weigh.rs`); where it is the latter, the region is rewritten (`rewrite.rs`). Only constants are looked at for extents of
//! 1, because other runs may bring other extents.

mod regions;
mod rewrite;
mod weigh;

use self::regions::Facts;
use super::{Pass, PassOptions};
use crate::Error;
use crate::plan::program::Engine;
use crate::trace::{StepId, Trace};
use std::collections::HashSet;

pub(super) const PASS: Pass =
    Pass { name: "move-transposes", engines: &[Engine::Interpreter, Engine::WholeGraph], run };

/// How often regions are looked for. Those that share a transpose are not rewritten at once, and become one region if the
/// transpose goes. Each round lessens what transposes move, so that the pass would end without a bound; with it, its time
/// stays proportional to the number of steps.
const ROUNDS: usize = 8;

fn run(trace: &mut Trace, _: PassOptions<'_>) -> Result<usize, Error> {
    let mut count = 0;
    for _ in 0..ROUNDS {
        match round(trace)? {
            0 => break,
            moved => count += moved,
        }
    }
    Ok(count)
}

/// Rewrites each region for which that is better, unless it shares a transpose with one that was rewritten in this round.
/// Returns how many steps have permuted dimensions now.
fn round(trace: &mut Trace) -> Result<usize, Error> {
    let Some(facts) = Facts::of(trace)? else { return Ok(0) };
    let mut taken: HashSet<StepId> = HashSet::new();
    let mut chosen = Vec::new();
    for region in facts.regions(trace)? {
        let Some(perm) = weigh::better(trace, &facts, &region)? else { continue };
        let border = facts.border(trace, &region)?;
        if border.iter().any(|id| taken.contains(id)) {
            continue;
        }
        taken.extend(border);
        chosen.push((region, perm));
    }
    let mut count = 0;
    let mut edit = trace.edit();
    for (region, perm) in &chosen {
        rewrite::region(&mut edit, &facts, region, perm)?;
        count += region.steps.len();
    }
    edit.finish()?;
    Ok(count)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests;
