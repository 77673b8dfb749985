//! Limits the memory of a program's plans, and selects the plans that are dropped first.
//!
//! A program keeps its plans as long as they fit into its own limit, and the plans of all programs fit into the limit of the
//! process. The least recently used plan is dropped first, but never before the plans that follow it.

use super::program::{Program, Segment, Specialization};
use super::segment_end::End;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The bytes of the plans of all programs of the process.
static PROCESS: AtomicUsize = AtomicUsize::new(0);

/// The limit of [`PROCESS`].
static PROCESS_LIMIT: AtomicUsize = AtomicUsize::new(1 << 30);

/// Limits the total memory of the plans of all compiled graphs in this process. The default is 1 GiB.
///
/// A compiled graph keeps a plan for each combination of input types and shapes that it has met, so that it does not plan the
/// same combination twice. When a new plan does not fit, its graph drops its least recently used plans. The newest plan is
/// always kept.
/// [`CompileOptions::plan_bytes`](crate::CompileOptions::plan_bytes) limits one graph.
///
/// Units: bytes. The count is an estimate of the memory that plans take in addition to the model's weights.
pub fn limit_process_plans(bytes: usize) {
    PROCESS_LIMIT.store(bytes, Ordering::Relaxed);
}

/// The bytes of the plans of one program, and their limit.
#[derive(Debug)]
pub(super) struct PlanMemory {
    limit: usize,
    /// An upper bound of the bytes of the plans; exact after each recount.
    bytes: AtomicUsize,
    /// The number of plans built so far.
    made: AtomicU64,
    /// The time of the next recount, if the last recount found no plan to drop.
    again: AtomicU64,
}

impl PlanMemory {
    pub(super) fn new(limit: usize) -> PlanMemory {
        PlanMemory { limit, bytes: AtomicUsize::new(0), made: AtomicU64::new(0), again: AtomicU64::new(0) }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the current time, which is the number of plans built so far. All uses between two new plans get the same time.
    pub(super) fn now(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Counts a new plan, and returns the new time.
    pub(super) fn begin(&self) -> u64 {
        self.made.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn set(&self, bytes: usize) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        PROCESS.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
    }

    fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        PROCESS.fetch_add(bytes, Ordering::Relaxed);
    }

    fn is_exceeded(&self) -> bool {
        let all = PROCESS.load(Ordering::Relaxed);
        self.bytes.load(Ordering::Relaxed) > self.limit || all > PROCESS_LIMIT.load(Ordering::Relaxed)
    }
}

impl Drop for PlanMemory {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl Program {
    /// Counts a new plan, and drops old ones until the rest fits.
    pub(super) fn count_plan(&self, made: &Specialization) {
        self.memory.add(made.overhead() + made.holds().map(|(_, bytes)| bytes).sum::<usize>());
        while self.memory.is_exceeded() && self.memory.now() >= self.memory.again.load(Ordering::Relaxed) {
            let plans = self.plans();
            let bytes = plans.iter().map(|plan| plan.bytes()).sum();
            self.memory.set(bytes);
            if !self.memory.is_exceeded() {
                return;
            }
            let now = self.memory.now();
            let idle =
                plans.iter().filter(|plan| plan.used() < now && plan.following().all(Segment::is_empty));
            let Some(oldest) = idle.min_by_key(|plan| plan.used()).cloned() else {
                // After a vain recount, the next one waits for more plans; a recount for each new plan would take quadratic
                // time.
                self.memory.again.store(now + plans.len() as u64 / 8, Ordering::Relaxed);
                return;
            };
            drop(plans);
            self.first.forget(&oldest);
            for plan in self.plans() {
                plan.following().for_each(|segment| segment.forget(&oldest));
            }
        }
    }

    /// Returns all plans of the program.
    fn plans(&self) -> Vec<Arc<Specialization>> {
        let mut plans = self.first.plans();
        let mut at = 0;
        while let Some(plan) = plans.get(at).cloned() {
            plans.extend(plan.following().flat_map(Segment::plans));
            at += 1;
        }
        plans
    }
}

impl Specialization {
    /// Iterates over the segments that follow the plan.
    pub(super) fn following(&self) -> impl Iterator<Item = &Segment> {
        let (bodies, after) = match &self.end {
            End::Done => (&[][..], None),
            End::Read { next, .. } => (&[][..], Some(next)),
            End::Host(host) => (&[][..], Some(&host.at.after)),
            End::Sequence(sequence) => (&[][..], Some(&sequence.at.after)),
            End::Repeat(node) => (&node.bodies[..], Some(&node.at.after)),
        };
        bodies.iter().map(|body| &body.first).chain(after)
    }

    /// Returns the bytes that dropping the plan would free: its own bytes, and the bytes of constants and kernels that no other
    /// plan uses.
    fn bytes(&self) -> usize {
        let own = self.holds().filter(|(plans, _)| *plans == 1);
        self.overhead() + own.map(|(_, bytes)| bytes).sum::<usize>()
    }
}
