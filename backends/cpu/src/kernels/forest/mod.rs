//! Forests of decision trees.
//!
//! A single walk down a tree stalls at each node until the node is loaded and compared. Therefore several walks proceed
//! in parallel: several rows down one tree or, if there are few rows, one row down several trees. Nodes stay in the
//! cache, because a block of rows walks down one tree before the next tree. Weights are added in `f64`, in the order of
//! the trees, so that the sums of a row depend on nothing else.
//!
//! Tables are untrusted. If there are many walks, all nodes are checked before, and [`packed`] for fast walks; if the
//! tables are constants, this is done only once. If there are few walks, each walk checks the nodes that it reaches
//! ([`direct`]). If an index is out of range, the kernel stops, and the caller runs the body of the operation.

mod direct;
mod order;
mod packed;
mod top;
mod walks;

use self::packed::Key;
pub(crate) use self::packed::Packed;
use super::{Shared, walk};
use crate::error::Result;
use crate::pace::Pace;
use std::sync::atomic::{AtomicBool, Ordering};

/// The number of walks that proceed in parallel on a thread.
const LANES: usize = 8;
/// The number of rows whose keys are packed next to each other.
const TILE: usize = 16;
/// The maximum number of sums of a block of rows.
const SUMS: usize = 2048;
/// The maximum number of rows of a block.
const ROWS: usize = 256;
/// The number of steps of walks below which a second thread costs more than it saves.
const GRAIN: usize = 1 << 13;

/// The maximum number of targets that the kernel supports.
pub(crate) const MOST_TARGETS: usize = SUMS;

/// The element type of features and weights.
pub(crate) trait Real: Copy + PartialOrd + Sync {
    /// An integer type of the same size.
    type Key: Key;

    fn wide(self) -> f64;
    fn narrow(wide: f64) -> Self;
    fn is_nan(self) -> bool;
    /// Returns an integer key with the order of floats. Both zeros have the same key, and the key of NaN is `nan`.
    fn key(self, nan: Self::Key) -> Self::Key;
    fn bits(self) -> Self::Key;
    fn of_bits(bits: Self::Key) -> Self;
}

macro_rules! reals {
    ($($t:ident, $key:ident, $bits:literal;)*) => {$(
        impl Real for $t {
            type Key = $key;

            #[inline(always)]
            fn wide(self) -> f64 {
                self.into()
            }

            #[inline(always)]
            fn narrow(wide: f64) -> $t {
                wide as $t
            }

            #[inline(always)]
            fn is_nan(self) -> bool {
                $t::is_nan(self)
            }

            #[inline(always)]
            fn key(self, nan: $key) -> $key {
                // Adding 0 makes a negative zero positive. Larger negative floats have smaller bits, so the bits of
                // negative floats are inverted.
                let bits = (self + 0.0).to_bits().cast_signed();
                let key = bits ^ ((bits >> ($bits - 1)).cast_unsigned() >> 1).cast_signed();
                if $t::is_nan(self) { nan } else { key }
            }

            #[inline(always)]
            fn bits(self) -> $key {
                self.to_bits().cast_signed()
            }

            #[inline(always)]
            fn of_bits(bits: $key) -> $t {
                $t::from_bits(bits.cast_unsigned())
            }
        }
    )*};
}

reals! {
    f32, i32, 32;
    f64, i64, 64;
}

/// The aggregation of the weights of a row.
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

    /// Adds the weights of a leaf to the sums. NaN stays NaN.
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

/// The tests of nodes, as the operation's parameters and its sets define them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tests<'a, T> {
    pub(crate) modes: &'a [i64],
    pub(crate) missing: bool,
    /// The sets: the elements of all sets, the number of sets, and the number of elements of each set.
    pub(crate) members: Option<(&'a [T], usize, usize)>,
}

/// A forest in the layout of the operation. All slices have the extents that the operation requires.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Forest<'a, T> {
    /// For each node: the column, the test, and the next nodes for true and for false.
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

/// The conditions under which a test holds, for each mode of a node.
#[derive(Debug, Clone, Copy)]
struct ModeBits([u8; 8]);

impl ModeBits {
    // One bit each for an element that is less, equal, greater, or unordered, from the lowest bit on.
    const LESS: u8 = 0b0001;
    const LESS_OR_EQUAL: u8 = 0b0011;
    const GREATER: u8 = 0b0100;
    const GREATER_OR_EQUAL: u8 = 0b0110;
    const EQUAL: u8 = 0b0010;
    const NOT_EQUAL: u8 = 0b1101;
    /// The value for the test whether an element is in a set.
    const MEMBER: u8 = 0xff;

    /// Returns the bits of the modes, or `None` if a mode does not exist, or if it needs sets and there are none.
    fn of<T>(tests: &Tests<'_, T>) -> Option<ModeBits> {
        let bits = |mode: i64| {
            Some(match mode {
                0 => ModeBits::LESS_OR_EQUAL,
                1 => ModeBits::LESS,
                2 => ModeBits::GREATER_OR_EQUAL,
                3 => ModeBits::GREATER,
                4 => ModeBits::EQUAL,
                5 => ModeBits::NOT_EQUAL,
                6 if tests.members.is_some_and(|(_, sets, _)| sets > 0) => ModeBits::MEMBER,
                _ => return None,
            })
        };
        // Modes that are not listed are treated as the first one.
        let (&first, others) = tests.modes.split_first()?;
        let mut modes = [bits(first)?; 8];
        for &mode in others {
            let bits = bits(mode)?;
            *modes.get_mut(usize::try_from(mode).ok()?)? = bits;
        }
        Some(ModeBits(modes))
    }

    /// Returns the bits of a test, or `None` if it is negative.
    #[inline(always)]
    fn get(&self, test: i32) -> Option<u8> {
        let test = usize::try_from(test).ok()?;
        self.0.get(test & 7).copied()
    }
}

/// Walks all rows down all trees. Returns whether every walk reached a leaf; otherwise `out` is incomplete.
///
/// # Safety
///
/// `x` points to `rows * columns` elements, neither number being zero, and `out` has room for `rows * targets`.
pub(crate) unsafe fn run<T: Real>(
    forest: &Forest<'_, T>,
    packed: Option<&Packed<T::Key>>,
    [rows, columns]: [usize; 2],
    out: *mut T,
    x: *const T,
) -> bool {
    let targets = forest.targets;
    let lost = AtomicBool::new(false);
    let shared = Shared((out, x));
    let most = packed.map_or(ROWS, Packed::rows).min(ROWS);
    let block = (SUMS / targets).clamp(1, most);
    let steps = forest.roots.len().saturating_mul(forest.usual_depth() + 1 + targets / 8);
    walk::split(rows, steps, GRAIN, |from, to| {
        let (out, x) = shared.get();
        let mut sums = [0.0; SUMS];
        let mut pace = Pace::new();
        for from in (from..to).step_by(block) {
            let count = block.min(to - from);
            // SAFETY: the rows are in both arrays, and no other call writes these rows.
            let (out, x) = unsafe {
                (
                    std::slice::from_raw_parts_mut(out.add(from * targets), count * targets),
                    std::slice::from_raw_parts(x.add(from * columns), count * columns),
                )
            };
            let Some(sums) = sums.get_mut(..count * targets) else { return };
            sums.fill(forest.aggregate.start());
            let done = match packed {
                Some(packed) => packed.block(forest, x, columns, sums, &mut pace),
                None => forest.block(x, columns, sums, &mut pace),
            };
            if done.is_none() {
                lost.store(true, Ordering::Relaxed);
                return;
            }
            forest.finish(out, sums);
        }
    });
    !lost.into_inner()
}

impl<T: Real> Forest<'_, T> {
    /// Packs the nodes, if they are valid and there are enough rows to pay for it.
    ///
    /// # Errors
    ///
    /// [`CpuError::Memory`](crate::CpuError::Memory).
    pub(crate) fn packed_for(&self, rows: usize) -> Result<Option<Packed<T::Key>>> {
        let steps = rows.saturating_mul(self.roots.len()).saturating_mul(self.usual_depth());
        if steps < self.nodes.len() + self.weights.len() / self.targets {
            return Ok(None);
        }
        self.packed()
    }

    /// Packs the nodes, if they are valid and all their tests compare by order.
    ///
    /// # Errors
    ///
    /// [`CpuError::Memory`](crate::CpuError::Memory).
    pub(crate) fn packed(&self) -> Result<Option<Packed<T::Key>>> {
        Packed::new(self)
    }

    /// Estimates the number of steps of a walk.
    fn usual_depth(&self) -> usize {
        let nodes = self.nodes.len() / self.roots.len().max(1);
        self.depth.min(2 + nodes.checked_ilog2().map_or(0, |depth| depth as usize))
    }

    /// Writes the sums in the type of the weights, divided by the number of trees for an average.
    fn finish(&self, out: &mut [T], sums: &[f64]) {
        let trees = self.roots.len() as f64;
        for (out, &sum) in out.iter_mut().zip(sums) {
            let narrow = T::narrow(sum);
            *out =
                if self.aggregate == Aggregate::Average { T::narrow(narrow.wide() / trees) } else { narrow };
        }
    }
}

#[cfg(test)]
mod tests;
