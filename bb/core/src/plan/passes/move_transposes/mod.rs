//! Moves transposes past element-wise steps, so that they meet other transposes and cancel them.
//!
//! Models that were exported with the channels last have transposes around each convolution, and element-wise steps between
//! them. A transpose is rarely free: its consumer reads with strides, or copies. Element-wise steps and `concat` compute the
//! same bits in any order of dimensions, so they may run before or after the transpose. Sums may not, because their bits depend
//! on the order of the terms.
//!
//! A *region* is a set of these steps that have one rank and feed each other (`regions.rs`). The steps of a region run either
//! unchanged, or all with permuted dimensions. The choice depends on the number of elements that transposes at the region's
//! border move (`weigh.rs`). If fewer elements move with permuted dimensions, the region is rewritten (`rewrite.rs`). Extents
//! of 1 are considered only in constants, because other extents may differ between runs.

mod regions;
mod rewrite;
mod weigh;

use self::regions::Facts;
use super::{Pass, PassOptions};
use crate::Error;
use crate::plan::engine::Engine;
use crate::trace::{StepId, Trace};
use std::collections::HashSet;

pub(super) const PASS: Pass =
    Pass { name: "move-transposes", engines: &[Engine::Interpreter, Engine::WholeGraph], run };

/// The maximum number of rounds. Regions that share a transpose are not rewritten in the same round, and become one region if
/// the transpose is removed. Each round reduces the number of elements that transposes move, so the pass would end without this
/// limit. The limit keeps its time proportional to the number of steps.
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

/// Rewrites each region whose transposes then move fewer elements, unless the region shares a transpose with another one that
/// was rewritten in this round. Returns the number of steps whose dimensions were permuted.
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
