//! Forests of decision trees.
//!
//! One walk down a tree waits for memory and for comparisons at each node. So several walks go on at the same time: those
//! of several rows down one tree, or, where there are few rows, those of one row down several trees. Nodes stay in the
//! cache, because a block of rows walks down one tree before the next. Weights are added in `f64`, in the order of the
//! trees, so that the sums of a row depend on nothing else.
//!
//! Tables come from strangers. A walk that meets a number which no table has ends the kernel, and the caller lets the body
//! of the operation decide.

use super::{Shared, walk};
use crate::pace::Pace;
use std::sync::atomic::{AtomicBool, Ordering};

/// How many walks go on at the same time.
const LANES: usize = 8;
/// The number of sums that a block of rows has.
const SUMS: usize = 2048;
/// The most rows of a block.
const ROWS: usize = 256;
/// The number of steps of walks below which a second thread costs more than it saves.
const GRAIN: usize = 1 << 13;

/// The most targets that the kernel serves.
pub(crate) const MOST_TARGETS: usize = SUMS;

/// The element type of features and weights.
pub(crate) trait Real: Copy + PartialOrd + Sync {
    fn wide(self) -> f64;
    fn narrow(wide: f64) -> Self;
}

impl Real for f32 {
    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn narrow(wide: f64) -> f32 {
        wide as f32
    }
}

impl Real for f64 {
    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }

    #[inline(always)]
    fn narrow(wide: f64) -> f64 {
        wide
    }
}

/// How the weights of a row become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aggregate {
    Sum,
    Average,
    Min,
    Max,
}

impl Aggregate {
    #[inline(always)]
    fn start(self) -> f64 {
        match self {
            Aggregate::Sum | Aggregate::Average => 0.0,
            Aggregate::Min => f64::INFINITY,
            Aggregate::Max => f64::NEG_INFINITY,
        }
    }

    /// Adds the weights of a leaf. NaN stays.
    #[inline(always)]
    fn add<T: Real>(self, sums: &mut [f64], weights: &[T]) {
        let each = sums.iter_mut().zip(weights);
        match self {
            Aggregate::Sum | Aggregate::Average => each.for_each(|(sum, w)| *sum += w.wide()),
            Aggregate::Min => each.for_each(|(least, w)| {
                let w = w.wide();
                *least = if w < *least || w.is_nan() { w } else { *least };
            }),
            Aggregate::Max => each.for_each(|(most, w)| {
                let w = w.wide();
                *most = if w > *most || w.is_nan() { w } else { *most };
            }),
        }
    }
}

/// The tests of nodes, as the operation's parameters and its set members say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tests<'a, T> {
    pub(crate) modes: &'a [i64],
    pub(crate) missing: bool,
    /// The sets: their elements, how many there are, and the elements of each.
    pub(crate) members: Option<(&'a [T], usize, usize)>,
}

/// A forest in the layout of the operation, all slices having the extents that it names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Forest<'a, T> {
    /// Column, test, and the nodes for true and false.
    pub(crate) nodes: &'a [[i32; 4]],
    pub(crate) thresholds: &'a [T],
    pub(crate) roots: &'a [i32],
    pub(crate) weights: &'a [T],
    /// The number of weights of a leaf; not zero.
    pub(crate) targets: usize,
    pub(crate) depth: usize,
    pub(crate) aggregate: Aggregate,
    pub(crate) tests: Tests<'a, T>,
}

/// What a test says of an element.
trait Test<T>: Copy + Sync {
    /// Returns whether the test holds; `None` if it is none.
    fn holds(self, x: T, threshold: T, test: i32) -> Option<bool>;
}

/// `<=` at all nodes.
#[derive(Clone, Copy)]
struct LessOrEqual;

impl<T: Real> Test<T> for LessOrEqual {
    #[inline(always)]
    fn holds(self, x: T, threshold: T, _: i32) -> Option<bool> {
        Some(x <= threshold)
    }
}

/// `<` at all nodes.
#[derive(Clone, Copy)]
struct Less;

impl<T: Real> Test<T> for Less {
    #[inline(always)]
    fn holds(self, x: T, threshold: T, _: i32) -> Option<bool> {
        Some(x < threshold)
    }
}

/// Another test, at nodes that say something of elements that are NaN.
#[derive(Clone, Copy)]
struct OrMissing<C>(C);

impl<T: Real, C: Test<T>> Test<T> for OrMissing<C> {
    #[inline(always)]
    fn holds(self, x: T, threshold: T, test: i32) -> Option<bool> {
        // A negative test has no meaning.
        let holds = self.0.holds(x, threshold, test)? & (test >= 0);
        let missing = x.partial_cmp(&x).is_none() & (test & 8 != 0) & (test >= 0);
        if test < 0 { None } else { Some(holds | missing) }
    }
}

/// Any tests.
#[derive(Clone, Copy)]
struct Any<'a, T> {
    /// For each mode of a node: whether the test holds if the element is less, equal or greater, or if neither can be
    /// said, as bits; or `MEMBER`.
    modes: [u8; 8],
    missing: bool,
    members: Option<(&'a [T], usize, usize)>,
}

const MEMBER: u8 = 0xff;

impl<'a, T: Real> Any<'a, T> {
    /// Returns the tests; `None` for modes that do not exist, or sets that are not given.
    fn new(tests: &Tests<'a, T>) -> Option<Any<'a, T>> {
        let bits = |mode: i64| {
            Some(match mode {
                0 => 0b0011,
                1 => 0b0001,
                2 => 0b0110,
                3 => 0b0100,
                4 => 0b0010,
                5 => 0b1101,
                6 if tests.members.is_some_and(|(_, sets, _)| sets > 0) => MEMBER,
                _ => return None,
            })
        };
        let (&first, others) = tests.modes.split_first()?;
        let mut modes = [bits(first)?; 8];
        for &mode in others {
            let bits = bits(mode)?;
            *modes.get_mut(usize::try_from(mode).ok()?)? = bits;
        }
        let members = tests.members.filter(|_| tests.modes.contains(&6));
        Some(Any { modes, missing: tests.missing, members })
    }
}

impl<T: Real> Test<T> for Any<'_, T> {
    #[inline(always)]
    fn holds(self, x: T, threshold: T, test: i32) -> Option<bool> {
        let test = usize::try_from(test).ok()?;
        let member = match self.members {
            None => false,
            Some((elements, sets, width)) => {
                let set = Some(test >> 4).filter(|set| *set < sets)?;
                elements.get(set * width..(set + 1) * width)?.contains(&x)
            }
        };
        if self.missing && x.partial_cmp(&x).is_none() {
            return Some(test & 8 != 0);
        }
        let bits = *self.modes.get(test & 7)?;
        if bits == MEMBER {
            return Some(member);
        }
        let class = match x.partial_cmp(&threshold) {
            Some(std::cmp::Ordering::Less) => 0b0001,
            Some(std::cmp::Ordering::Equal) => 0b0010,
            Some(std::cmp::Ordering::Greater) => 0b0100,
            None => 0b1000,
        };
        Some(bits & class != 0)
    }
}

/// Walks all rows down all trees; returns whether every walk came to a leaf. Otherwise `out` is not filled.
///
/// # Safety
///
/// `x` holds `rows * columns` elements, and `out` has room for `rows * targets`.
pub(crate) unsafe fn run<T: Real>(
    forest: &Forest<'_, T>,
    [rows, columns]: [usize; 2],
    out: *mut T,
    x: *const T,
) -> bool {
    let tests = &forest.tests;
    // SAFETY: the caller's promise.
    unsafe {
        match (tests.modes, tests.missing) {
            ([0], false) => walked(forest, LessOrEqual, [rows, columns], out, x),
            ([1], false) => walked(forest, Less, [rows, columns], out, x),
            ([0], true) => walked(forest, OrMissing(LessOrEqual), [rows, columns], out, x),
            ([1], true) => walked(forest, OrMissing(Less), [rows, columns], out, x),
            _ => match Any::new(tests) {
                Some(any) => walked(forest, any, [rows, columns], out, x),
                None => false,
            },
        }
    }
}

/// Does what [`run`] does, with tests of one kind.
///
/// # Safety
///
/// That of [`run`].
unsafe fn walked<T: Real, C: Test<T>>(
    forest: &Forest<'_, T>,
    test: C,
    [rows, columns]: [usize; 2],
    out: *mut T,
    x: *const T,
) -> bool {
    let targets = forest.targets;
    let lost = AtomicBool::new(false);
    let shared = Shared((out, x));
    let block = (SUMS / targets).clamp(1, ROWS);
    let steps = forest.roots.len().saturating_mul(forest.depth + 1 + targets / 8);
    walk::split(rows, steps, GRAIN, |from, to| {
        let (out, x) = shared.get();
        let mut sums = [0.0; SUMS];
        let mut pace = Pace::new();
        for from in (from..to).step_by(block) {
            let count = block.min(to - from);
            // SAFETY: the rows are in both arrays, and no other call writes these.
            let (out, x) = unsafe {
                (
                    std::slice::from_raw_parts_mut(out.add(from * targets), count * targets),
                    std::slice::from_raw_parts(x.add(from * columns), count * columns),
                )
            };
            let Some(sums) = sums.get_mut(..count * targets) else { return };
            sums.fill(forest.aggregate.start());
            if forest.block(test, x, columns, sums, &mut pace).is_none() {
                lost.store(true, Ordering::Relaxed);
                return;
            }
            forest.finish(out, sums);
        }
    });
    !lost.into_inner()
}

impl<T: Real> Forest<'_, T> {
    /// Adds the weights of a block of rows to their sums; `None` if a walk got lost.
    fn block<C: Test<T>>(
        &self,
        test: C,
        x: &[T],
        columns: usize,
        sums: &mut [f64],
        pace: &mut Pace,
    ) -> Option<()> {
        let together = x.len() / columns / LANES * LANES;
        let (x, x_rest) = x.split_at_checked(together * columns)?;
        let (sums, sums_rest) = sums.split_at_mut_checked(together * self.targets)?;
        for &root in self.roots {
            pace.step(together * (self.depth + 1));
            let sums = sums.chunks_exact_mut(LANES * self.targets);
            for (x, sums) in x.chunks_exact(LANES * columns).zip(sums) {
                let mut rows = [x; LANES];
                for (row, x) in rows.iter_mut().zip(x.chunks_exact(columns)) {
                    *row = x;
                }
                let at = self.leaves(test, rows, [root; LANES], columns)?;
                self.add(sums.chunks_exact_mut(self.targets).zip(at))?;
            }
        }
        let rest = x_rest.chunks_exact(columns).zip(sums_rest.chunks_exact_mut(self.targets));
        for (row, sums) in rest {
            for roots in self.roots.chunks(LANES) {
                pace.step(LANES * (self.depth + 1));
                let mut starts = [*roots.first()?; LANES];
                for (start, root) in starts.iter_mut().zip(roots) {
                    *start = *root;
                }
                let at = self.leaves(test, [row; LANES], starts, columns)?;
                for leaf in at.into_iter().take(roots.len()) {
                    self.add(std::iter::once((&mut *sums, leaf)))?;
                }
            }
        }
        Some(())
    }

    /// Adds the weights of leaves, of which each has its sums.
    #[inline(always)]
    fn add<'s>(&self, each: impl Iterator<Item = (&'s mut [f64], usize)>) -> Option<()> {
        for (sums, leaf) in each {
            let weights = self.weights.get(leaf * self.targets..(leaf + 1) * self.targets)?;
            self.aggregate.add(sums, weights);
        }
        Some(())
    }

    /// Walks from `at` to leaves, each walk with a row of its own; returns the numbers of the leaves.
    #[inline(always)]
    fn leaves<C: Test<T>>(
        &self,
        test: C,
        rows: [&[T]; LANES],
        at: [i32; LANES],
        columns: usize,
    ) -> Option<[usize; LANES]> {
        let inner = self.nodes.len();
        // Negative numbers become great ones, which no table has.
        let mut at = at.map(|at| at as u32 as usize);
        for _ in 0..self.depth.min(inner) {
            let mut under_way = false;
            for (at, row) in at.iter_mut().zip(rows) {
                let walking = *at < inner;
                // A walk that has ended looks at the first node, and stays.
                let here = if walking { *at } else { 0 };
                let &[column, kind, yes, no] = self.nodes.get(here)?;
                let threshold = *self.thresholds.get(here)?;
                let x = *row.get(..columns)?.get(column as u32 as usize)?;
                let next = if test.holds(x, threshold, kind)? { yes } else { no } as u32 as usize;
                *at = if walking { next } else { *at };
                under_way |= next < inner;
            }
            if !under_way {
                break;
            }
        }
        let leaf = |at: usize| at.checked_sub(inner);
        let mut leaves = [0; LANES];
        for (slot, at) in leaves.iter_mut().zip(at) {
            *slot = leaf(at)?;
        }
        Some(leaves)
    }

    /// Writes the sums in the type of the weights.
    fn finish(&self, out: &mut [T], sums: &[f64]) {
        let trees = self.roots.len() as f64;
        for (out, &sum) in out.iter_mut().zip(sums) {
            let narrow = T::narrow(sum);
            *out = if self.aggregate == Aggregate::Average { T::narrow(narrow.wide() / trees) } else { narrow };
        }
    }
}
