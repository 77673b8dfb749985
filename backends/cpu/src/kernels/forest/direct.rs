//! Walks that check each node that they reach.

use super::{Forest, LANES, ModeBits, Real};
use crate::pace::Pace;

/// The test of a node, applied to an element.
trait Test<T>: Copy + Sync {
    /// Returns whether the test holds; `None` if the test is invalid.
    fn holds(self, x: T, threshold: T, test: i32) -> Option<bool>;
}

/// The test `<=` at all nodes.
#[derive(Clone, Copy)]
struct LessOrEqual;

impl<T: Real> Test<T> for LessOrEqual {
    #[inline(always)]
    fn holds(self, x: T, threshold: T, _: i32) -> Option<bool> {
        Some(x <= threshold)
    }
}

/// The test `<` at all nodes.
#[derive(Clone, Copy)]
struct Less;

impl<T: Real> Test<T> for Less {
    #[inline(always)]
    fn holds(self, x: T, threshold: T, _: i32) -> Option<bool> {
        Some(x < threshold)
    }
}

/// Another test that also holds for NaN at nodes with the flag for missing values.
#[derive(Clone, Copy)]
struct OrMissing<C>(C);

impl<T: Real, C: Test<T>> Test<T> for OrMissing<C> {
    #[inline(always)]
    fn holds(self, x: T, threshold: T, test: i32) -> Option<bool> {
        let holds = self.0.holds(x, threshold, test)?;
        // A negative test is invalid.
        if test < 0 { None } else { Some(holds | (x.is_nan() & (test & 8 != 0))) }
    }
}

/// Any tests, which the node selects.
#[derive(Clone, Copy)]
struct Any<'a, T> {
    bits: ModeBits,
    missing: bool,
    /// If nodes test sets: the elements of all sets, the number of sets, and the number of elements of each set.
    members: Option<(&'a [T], usize, usize)>,
}

impl<T: Real> Test<T> for Any<'_, T> {
    #[inline(always)]
    fn holds(self, x: T, threshold: T, test: i32) -> Option<bool> {
        let bits = self.bits.get(test)?;
        let member = match self.members {
            None => false,
            Some((elements, sets, width)) => {
                let set = usize::try_from(test >> 4).ok().filter(|set| *set < sets)?;
                elements.get(set * width..(set + 1) * width)?.contains(&x)
            }
        };
        if self.missing && x.is_nan() {
            return Some(test & 8 != 0);
        }
        if bits == ModeBits::MEMBER {
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

impl<T: Real> Forest<'_, T> {
    /// Adds the weights of a block of rows to their sums. Returns `None` if a walk does not end at a leaf.
    pub(super) fn block(&self, x: &[T], columns: usize, sums: &mut [f64], pace: &mut Pace) -> Option<()> {
        let tests = &self.tests;
        match (tests.modes, tests.missing) {
            ([0], false) => self.walked(LessOrEqual, x, columns, sums, pace),
            ([1], false) => self.walked(Less, x, columns, sums, pace),
            ([0], true) => self.walked(OrMissing(LessOrEqual), x, columns, sums, pace),
            ([1], true) => self.walked(OrMissing(Less), x, columns, sums, pace),
            _ => {
                let members = tests.members.filter(|_| tests.modes.contains(&6));
                let any = Any { bits: ModeBits::of(tests)?, missing: tests.missing, members };
                self.walked(any, x, columns, sums, pace)
            }
        }
    }

    /// Computes [`block`](Forest::block) with one type of tests.
    fn walked<C: Test<T>>(
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

    /// Adds the weights of each leaf to the leaf's sums.
    #[inline(always)]
    fn add<'s>(&self, each: impl Iterator<Item = (&'s mut [f64], usize)>) -> Option<()> {
        for (sums, leaf) in each {
            let weights = self.weights.get(leaf * self.targets..(leaf + 1) * self.targets)?;
            self.aggregate.add(sums, weights);
        }
        Some(())
    }

    /// Walks from the nodes `at` to leaves. Each walk has its own row. Returns the indices of the leaves.
    #[inline(always)]
    fn leaves<C: Test<T>>(
        &self,
        test: C,
        rows: [&[T]; LANES],
        at: [i32; LANES],
        columns: usize,
    ) -> Option<[usize; LANES]> {
        let inner = self.nodes.len();
        // Negative indices become large ones, which are out of range in every table.
        let mut at = at.map(|at| at as u32 as usize);
        for _ in 0..self.depth.min(inner) {
            let mut under_way = false;
            for (at, row) in at.iter_mut().zip(rows) {
                let walking = *at < inner;
                // A walk that has ended reads the first node, and does not move.
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
}
