//! Walks down nodes that were checked and packed: 16 bytes each for `f32`, with leaves that lead to themselves.
//!
//! Elements and thresholds become integers in the same order, their *keys*, so that each test is `key(x) <= key`: a node
//! for `>` or `>=` has its children swapped. NaN has no place in the order; its key is the greatest in one copy of the
//! columns and the least in another, and each node reads the copy that leads where the node says.

use super::{Forest, LANES, ModeBits, Real};
use crate::error::Result;
use crate::pace::Pace;
use bb::ir::memory;

/// An integer that compares like a float.
pub(crate) trait Key: Copy + Ord + Sync + Send + Default {
    const LEAST: Self;
    const GREATEST: Self;

    /// Returns the next less key.
    fn below(self) -> Self;
}

impl Key for i32 {
    const LEAST: i32 = i32::MIN;
    const GREATEST: i32 = i32::MAX;

    #[inline(always)]
    fn below(self) -> i32 {
        self.wrapping_sub(1)
    }
}

impl Key for i64 {
    const LEAST: i64 = i64::MIN;
    const GREATEST: i64 = i64::MAX;

    #[inline(always)]
    fn below(self) -> i64 {
        self.wrapping_sub(1)
    }
}

/// A node. Distances are in bytes: of the element in a tile of rows, and of the next nodes from the first one.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Node<K> {
    /// The key that an element is compared with; at a leaf the bits of its only weight.
    key: K,
    column: u32,
    /// The next node if the test holds, and, in the upper half, if not: one number, so that a walk selects between two
    /// registers and does not wait for another load.
    next: u64,
}

/// Nodes whose distances are those of elements and nodes that exist.
#[derive(Debug)]
pub(crate) struct Packed<K> {
    nodes: Vec<Node<K>>,
    /// The distance of the first leaf in bytes.
    leaves: u32,
    roots: Vec<u32>,
    /// The number of keys that a row has.
    width: usize,
    /// Whether nodes read the copy of the columns in which NaN is least.
    both: bool,
}

/// How a mode and a flag for NaN become a comparison of keys.
struct Comparison<K> {
    key: K,
    /// Whether the children are swapped.
    swapped: bool,
    /// Whether the copy in which NaN is least is read.
    least: bool,
}

impl<K: Key> Comparison<K> {
    /// Returns the comparison; `None` if the test is none of the order.
    #[inline(always)]
    fn of<T: Real<Key = K>>(bits: u8, missing: bool, threshold: T) -> Option<Comparison<K>> {
        let (key, unordered) = (threshold.key(K::GREATEST), threshold.is_nan());
        let (key, swapped) = match bits {
            ModeBits::LESS_OR_EQUAL => (if unordered { K::LEAST } else { key }, false),
            ModeBits::LESS => (if unordered { K::LEAST } else { key.below() }, false),
            ModeBits::GREATER_OR_EQUAL => (key.below(), true),
            ModeBits::GREATER => (if unordered { key.below() } else { key }, true),
            _ => return None,
        };
        Some(Comparison { key, swapped, least: missing != swapped })
    }
}

/// Makes one number of two nodes.
fn both_next(yes: u32, no: u32) -> u64 {
    u64::from(yes) | u64::from(no) << 32
}

impl<K: Key> Packed<K> {
    /// Packs a forest; `None` if it has a test of another kind, or a number that no table has.
    pub(super) fn new<T: Real<Key = K>>(forest: &Forest<'_, T>, columns: usize) -> Result<Option<Packed<K>>> {
        let (inner, leaves) = (forest.nodes.len(), forest.weights.len() / forest.targets);
        let size = size_of::<Node<K>>();
        let fits =
            |count: usize, size: usize| count.checked_mul(size).is_some_and(|n| u32::try_from(n).is_ok());
        let stride = LANES * size_of::<K>();
        let Some(bits) = ModeBits::of(&forest.tests) else { return Ok(None) };
        if !fits(inner + leaves, size) || !fits(columns, 2 * stride) {
            return Ok(None);
        }
        let mut nodes = memory::room("tree_ensemble", inner + leaves)?;
        let (total, mut both) = ((inner + leaves) as u32, false);
        for (&[column, test, yes, no], &threshold) in forest.nodes.iter().zip(forest.thresholds) {
            let [column, yes, no] = [column, yes, no].map(|number| number as u32);
            let missing = forest.tests.missing && test & 8 != 0;
            let comparison = bits.get(test).and_then(|bits| Comparison::of(bits, missing, threshold));
            let Some(Comparison { key, swapped, least }) = comparison else { return Ok(None) };
            if column as usize >= columns || yes >= total || no >= total {
                return Ok(None);
            }
            both |= least;
            let column = (column as usize + if least { columns } else { 0 }) * stride;
            let [yes, no] = if swapped { [no, yes] } else { [yes, no] }.map(|node| node * size as u32);
            nodes.push(Node { key, column: column as u32, next: both_next(yes, no) });
        }
        for (leaf, weights) in forest.weights.chunks_exact(forest.targets).enumerate() {
            let own = ((inner + leaf) * size) as u32;
            let key = weights.first().map_or(K::default(), |weight| weight.bits());
            nodes.push(Node { key, column: 0, next: both_next(own, own) });
        }
        let mut roots = memory::room("tree_ensemble", forest.roots.len())?;
        for &root in forest.roots {
            if root as u32 >= total {
                return Ok(None);
            }
            roots.push(root as u32 * size as u32);
        }
        let width = if both { 2 * columns } else { columns };
        Ok(Some(Packed { nodes, leaves: (inner * size) as u32, roots, width, both }))
    }

    /// Writes the keys of up to `LANES` rows to a tile, each column of all rows next to each other.
    fn fill<T: Real<Key = K>>(&self, tile: &mut [K], x: &[T], columns: usize) {
        let (greatest, least) = tile.split_at_mut(columns * LANES);
        // Rows that are missing at the end are like the first.
        let mut rows = [x.get(..columns).unwrap_or_default(); LANES];
        for (slot, row) in rows.iter_mut().zip(x.chunks_exact(columns)) {
            *slot = row;
        }
        keys(greatest, &rows, K::GREATEST);
        if self.both {
            keys(least, &rows, K::LEAST);
        }
    }

    /// Walks from `at` to leaves. Walk `i` reads row `i` of the tile, or, if `SAME`, all read row `lane`.
    ///
    /// # Safety
    ///
    /// `at` are distances of nodes, `tile` has `width * LANES` keys, and `lane` is below `LANES`.
    #[inline(always)]
    unsafe fn leaves<const SAME: bool>(
        &self,
        tile: &[K],
        lane: usize,
        mut at: [u32; LANES],
        depth: usize,
    ) -> [u32; LANES] {
        let nodes = self.nodes.as_ptr().cast::<u8>();
        let x = tile.as_ptr().cast::<u8>().wrapping_add(lane * size_of::<K>());
        let step = |at: u32, lane: usize| {
            // SAFETY: `new` checked that the distances of nodes are those of nodes, and that columns are in the tile; `at`
            // is the distance of a node, by the caller's promise or because it comes from a node.
            unsafe {
                let node = &*nodes.add(at as usize).cast::<Node<K>>();
                let lane = if SAME { 0 } else { lane * size_of::<K>() };
                let x = *x.add(node.column as usize + lane).cast::<K>();
                (if x <= node.key { node.next } else { node.next >> 32 }) as u32
            }
        };
        let next = |at: [u32; LANES]| {
            let mut next = at;
            for (lane, at) in next.iter_mut().enumerate() {
                *at = step(*at, lane);
            }
            next
        };
        if depth <= 2 * LOOKS {
            for _ in 0..depth {
                at = next(at);
            }
            return at;
        }
        for _ in 0..depth.div_ceil(LOOKS) {
            let mut last = at;
            for _ in 0..LOOKS {
                last = at;
                at = next(at);
            }
            if last == at {
                break;
            }
        }
        at
    }

    /// Adds the weights of a leaf; `None` if it is none.
    #[inline(always)]
    fn add<T: Real<Key = K>>(&self, forest: &Forest<'_, T>, at: u32, sums: &mut [f64]) -> Option<()> {
        if at < self.leaves {
            return None;
        }
        let node = at as usize / size_of::<Node<K>>();
        if let [sum] = sums {
            let weight = T::of_bits(self.nodes.get(node)?.key);
            forest.aggregate.add(std::slice::from_mut(sum), &[weight]);
            return Some(());
        }
        let first = (node - forest.nodes.len()) * forest.targets;
        forest.aggregate.add(sums, forest.weights.get(first..first + forest.targets)?);
        Some(())
    }

    /// Adds the weights of a block of rows to their sums; `None` if a walk did not end, or without memory.
    pub(super) fn block<T: Real<Key = K>>(
        &self,
        forest: &Forest<'_, T>,
        x: &[T],
        columns: usize,
        sums: &mut [f64],
        pace: &mut Pace,
    ) -> Option<()> {
        let depth = forest.depth.min(forest.nodes.len());
        let (tile, group) = (self.width * LANES, LANES * forest.targets);
        let rows = x.chunks(columns * LANES);
        let mut tiles = memory::filled("tree_ensemble", K::default(), rows.len() * tile).ok()?;
        for (tile, rows) in tiles.chunks_exact_mut(tile).zip(rows) {
            self.fill(tile, rows, columns);
        }
        let (whole, rest) = sums.split_at_mut_checked(sums.len() / group * group)?;
        for &root in &self.roots {
            pace.step(whole.len() / forest.targets * (depth + 1));
            for (tile, sums) in tiles.chunks_exact(tile).zip(whole.chunks_exact_mut(group)) {
                // SAFETY: the tile has a key for each column and lane, and this is a root.
                let at = unsafe { self.leaves::<false>(tile, 0, [root; LANES], depth) };
                for (sums, at) in sums.chunks_exact_mut(forest.targets).zip(at) {
                    self.add(forest, at, sums)?;
                }
            }
        }
        // Few rows walk down several trees at the same time.
        let Some(tile) = tiles.chunks_exact(tile).nth(whole.len() / group) else { return Some(()) };
        for (lane, sums) in rest.chunks_exact_mut(forest.targets).enumerate() {
            for roots in self.roots.chunks(LANES) {
                pace.step(LANES * (depth + 1));
                let mut at = [*roots.first()?; LANES];
                at.iter_mut().zip(roots).for_each(|(at, root)| *at = *root);
                // SAFETY: the tile has a key for each column and lane, there are less rows than lanes, and these are roots.
                let at = unsafe { self.leaves::<true>(tile, lane, at, depth) };
                for at in at.into_iter().take(roots.len()) {
                    self.add(forest, at, sums)?;
                }
            }
        }
        Some(())
    }
}

/// Writes the keys of each column of all rows next to each other.
fn keys<T: Real>(tile: &mut [T::Key], rows: &[&[T]; LANES], nan: T::Key) {
    let [a, b, c, d, e, f, g, h] = rows;
    let columns = a.iter().zip(*b).zip(*c).zip(*d).zip(*e).zip(*f).zip(*g).zip(*h);
    for (keys, (((((((a, b), c), d), e), f), g), h)) in
        tile.as_chunks_mut::<LANES>().0.iter_mut().zip(columns)
    {
        *keys = [a, b, c, d, e, f, g, h].map(|x| x.key(nan));
    }
}

/// After so many steps, walks look whether all have ended.
const LOOKS: usize = 4;
