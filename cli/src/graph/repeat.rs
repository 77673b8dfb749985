//! Finds consecutive repeated blocks of nodes, for example the layers of a transformer.

use std::ops::Range;

/// The maximum length of a block, in nodes.
const LONGEST: usize = 2048;
/// The minimum number of nodes that are saved by drawing a block once.
const LEAST: usize = 4;
/// The maximum number of nodes that the search visits, so that every graph is drawn in a short time. Comparing a node's operands counts as
/// several visits.
const BUDGET: usize = 1 << 26;
/// The number of visits that comparing the operands of a node counts as.
const COMPARED: usize = 16;

/// A sequence of boxes with their hashes and operands.
pub(super) struct Row<'a> {
    /// For each box, a hash. Nodes with equal hashes look the same, apart from their operands.
    pub(super) looks: &'a [u64],
    /// The boxes that each box reads, in ascending order.
    pub(super) reads: &'a [Vec<usize>],
    /// The range of boxes that are nodes.
    pub(super) nodes: Range<usize>,
}

/// A block with `copies` consecutive occurrences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Repeat {
    pub(super) start: usize,
    pub(super) length: usize,
    pub(super) copies: usize,
}

impl Repeat {
    /// Returns the range of the boxes in all copies.
    pub(super) fn all(&self) -> Range<usize> {
        self.start..self.start + self.length * self.copies
    }

    /// Returns the number of the copy that contains a box, and the index of the box in it.
    pub(super) fn place(&self, at: usize) -> Option<(usize, usize)> {
        let from = at.checked_sub(self.start)?;
        self.all().contains(&at).then_some((from / self.length, from % self.length))
    }

    /// Returns the number of nodes that are saved by drawing the block once.
    fn saved(&self) -> usize {
        self.length * (self.copies - 1)
    }
}

/// Returns repeats that do not overlap. Those that save the most nodes are selected first.
pub(super) fn find(row: &Row<'_>) -> Vec<Repeat> {
    let mut found = Vec::new();
    let mut budget = BUDGET;
    for length in 1..=LONGEST.min(row.nodes.len() / 2) {
        let Some(left) = budget.checked_sub(row.nodes.len()) else { break };
        budget = left;
        let mut start = row.nodes.start;
        while start + length < row.nodes.end {
            let equal = (start..row.nodes.end - length)
                .take_while(|&at| row.looks.get(at) == row.looks.get(at + length));
            let run = equal.count();
            if run >= length {
                found.extend(best(row, start, length, run, &mut budget));
            }
            start += run + 1;
        }
    }
    found.sort_by_key(|repeat| (std::cmp::Reverse(repeat.saved()), repeat.length, repeat.start));
    let mut kept: Vec<Repeat> = Vec::new();
    for repeat in found {
        let apart = |other: &Repeat| other.all().end <= repeat.start || repeat.all().end <= other.start;
        if kept.iter().all(apart) {
            kept.push(repeat);
        }
    }
    kept.sort_by_key(|repeat| repeat.start);
    kept
}

/// Selects the start of the copies in a run of nodes that look the same as the nodes `length` further on. Prefers the start with the most
/// copies, then the one where the fewest values pass from one copy to the next.
fn best(row: &Row<'_>, start: usize, length: usize, run: usize, budget: &mut usize) -> Option<Repeat> {
    let mut chosen: Option<(usize, Repeat)> = None;
    for first in start..(start + length).min(start + run + 1 - length) {
        let most = 1 + (start + run - first) / length;
        *budget = budget.checked_sub(COMPARED * length * most)?;
        let copies = 1 + (1..most).take_while(|&copy| alike(row, first, length, copy)).count();
        let repeat = Repeat { start: first, length, copies };
        if copies < 2 || repeat.saved() < LEAST {
            continue;
        }
        let passed = passed(row, &repeat);
        let better = chosen.is_none_or(|(fewest, best)| {
            (repeat.copies, std::cmp::Reverse(passed)) > (best.copies, std::cmp::Reverse(fewest))
        });
        if better {
            chosen = Some((passed, repeat));
        }
    }
    chosen.map(|(_, repeat)| repeat)
}

/// Returns whether a copy has the same operands as the previous copy: nodes of the same copy, nodes of the previous copy, or boxes before
/// all copies that look the same, for example its own weights. The first copy may read any boxes before itself.
fn alike(row: &Row<'_>, first: usize, length: usize, copy: usize) -> bool {
    let (this, before) = (first + copy * length, first + (copy - 1) * length);
    (0..length).all(|place| {
        let (Some(new), Some(old)) = (row.reads.get(this + place), row.reads.get(before + place)) else {
            return false;
        };
        if new.len() != old.len() {
            return false;
        }
        let inside = |reads: &[usize], start: usize| -> Vec<usize> {
            reads.iter().filter_map(|from| from.checked_sub(start)).collect()
        };
        if copy == 1 {
            return inside(new, this) == inside(old, before);
        }
        let outside = |reads: &[usize]| -> Vec<u64> {
            let outside = reads.iter().filter(|from| **from < first);
            let mut looks: Vec<u64> = outside.filter_map(|from| row.looks.get(*from)).copied().collect();
            looks.sort_unstable();
            looks
        };
        inside(new, first + length) == inside(old, first) && outside(new) == outside(old)
    })
}

/// Counts the values that pass from the first copy to the second.
fn passed(row: &Row<'_>, repeat: &Repeat) -> usize {
    let second = repeat.start + repeat.length..repeat.start + 2 * repeat.length;
    let mut from: Vec<usize> = second
        .filter_map(|at| row.reads.get(at))
        .flatten()
        .copied()
        .filter(|from| (repeat.start..repeat.start + repeat.length).contains(from))
        .collect();
    from.sort_unstable();
    from.dedup();
    from.len()
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;

    fn found(looks: &str, edges: &[(usize, usize)]) -> Vec<Repeat> {
        let looks: Vec<u64> = looks.bytes().map(u64::from).collect();
        let mut reads = vec![Vec::new(); looks.len()];
        edges.iter().for_each(|&(from, to)| reads[to].push(from));
        reads.iter_mut().for_each(|reads| reads.sort_unstable());
        find(&Row { looks: &looks, reads: &reads, nodes: 0..looks.len() })
    }

    fn chain(count: usize) -> Vec<(usize, usize)> {
        (1..count).map(|to| (to - 1, to)).collect()
    }

    #[test]
    fn layers_are_found_between_what_is_before_and_after() {
        let repeats = found("xabcabcabcy", &chain(11));
        assert_eq!(repeats, [Repeat { start: 1, length: 3, copies: 3 }]);
        assert_eq!(
            (repeats[0].place(0), repeats[0].place(5), repeats[0].place(10)),
            (None, Some((1, 1)), None)
        );
    }

    #[test]
    fn a_block_begins_where_the_fewest_values_pass() {
        // Each block reads its input twice, because there is a residual connection from the `a` before the block.
        let mut edges = chain(13);
        edges.extend([(0, 3), (3, 6), (6, 9), (9, 12)]);
        // If the blocks begin with `b`, one value passes from block to block; otherwise two.
        assert_eq!(found("abcabcabcabca", &edges), [Repeat { start: 1, length: 3, copies: 4 }]);
    }

    #[test]
    fn what_is_wired_otherwise_is_no_repeat() {
        let mut edges = chain(10);
        assert_eq!(found("xabcabcabc", &edges), [Repeat { start: 1, length: 3, copies: 3 }]);
        // In the last block, `c` reads `a` instead of `b`.
        edges.retain(|edge| *edge != (8, 9));
        edges.push((7, 9));
        assert!(found("xabcabcabc", &edges).iter().all(|repeat| repeat.all().end < 10));
    }

    #[test]
    fn little_is_not_folded() {
        assert_eq!(found("abab", &chain(4)), []);
        assert_eq!(found("", &[]), []);
        assert_eq!(found("xaaaaa", &chain(6)), [Repeat { start: 1, length: 1, copies: 5 }]);
    }

    #[test]
    fn long_rows_end_in_time() {
        let many = "ab".repeat(20_000);
        let repeats = found(&many, &chain(40_000));
        // The first node reads nothing, so the blocks begin after it.
        assert_eq!(repeats, [Repeat { start: 1, length: 2, copies: 19_999 }]);
    }
}
