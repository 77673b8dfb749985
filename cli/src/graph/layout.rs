//! Places the boxes of a graph in layers: each box is below the boxes that it reads and near its neighbours, with few crossings.
//!
//! The rank of a box is the length of the longest path to it. An edge over several ranks has a point in each of them. The order within a
//! rank follows the mean positions of the neighbours (Sugiyama, Tagawa, Toda 1981). The coordinates are as near to these means as the order
//! and the widths allow (isotonic regression).

/// The input of the layout: boxes in a topological order, so that all edges go forwards.
pub(super) struct Problem {
    pub(super) boxes: Vec<Size>,
    /// The source and the target of each edge, as indices of boxes.
    pub(super) edges: Vec<(usize, usize)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Size {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) anchor: Anchor,
}

/// A constraint on the rank of a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Free,
    /// The box is in the first rank.
    Top,
    /// The box is in the last rank.
    Bottom,
}

/// The positions of all boxes and edges. `x` is the centre of a box, and `y` its top.
pub(super) struct Layout {
    pub(super) boxes: Vec<Point>,
    /// The points of each edge between its ends, from top to bottom.
    pub(super) bends: Vec<Vec<Point>>,
    pub(super) width: f64,
    pub(super) height: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// The height of a box.
pub(super) const HEIGHT: f64 = 34.0;
/// The distance between the bottom of a rank and the top of the next.
const DROP: f64 = 38.0;
/// The distance between neighbouring boxes.
const GAP: f64 = 18.0;
/// The width that a point of an edge takes in a rank.
const BEND: f64 = 4.0;
/// The number of sweeps that improve the order, and of those that improve the coordinates.
const SWEEPS: usize = 12;
/// The maximum number of points of edges. If there would be more, long edges are straight.
const BENDS: usize = 1 << 15;

/// A box or a point of an edge during the layout.
struct Item {
    rank: usize,
    width: f64,
    height: f64,
    above: Vec<usize>,
    below: Vec<usize>,
    x: f64,
}

/// Computes the layout.
pub(super) fn place(problem: &Problem) -> Layout {
    let ranks = ranks(problem);
    let count = problem.boxes.len();
    let mut items: Vec<Item> = ranks
        .iter()
        .zip(&problem.boxes)
        .map(|(&rank, size)| Item::new(rank, size.width, size.height))
        .collect();
    let long: usize =
        problem.edges.iter().map(|&(a, b)| at(&ranks, b).saturating_sub(at(&ranks, a) + 1)).sum();
    let mut through: Vec<Vec<usize>> = Vec::with_capacity(problem.edges.len());
    for &(from, to) in &problem.edges {
        let mut points = Vec::new();
        let mut last = from;
        if long <= BENDS {
            for rank in at(&ranks, from) + 1..at(&ranks, to) {
                let point = items.len();
                items.push(Item::new(rank, BEND, 0.0));
                join(&mut items, last, point);
                points.push(point);
                last = point;
            }
        }
        join(&mut items, last, to);
        through.push(points);
    }
    let mut layers: Vec<Vec<usize>> = vec![Vec::new(); ranks.iter().max().map_or(0, |most| most + 1)];
    for (i, item) in items.iter().enumerate() {
        if let Some(layer) = layers.get_mut(item.rank) {
            layer.push(i);
        }
    }
    order(&mut items, &mut layers);
    coordinates(&mut items, &layers);
    let left = items.iter().map(|item| item.x - item.width / 2.0).fold(f64::INFINITY, f64::min);
    let right = items.iter().map(|item| item.x + item.width / 2.0).fold(f64::NEG_INFINITY, f64::max);
    let (heights, tops) = heights(&items, layers.len());
    let point = |item: &Item, drop: f64| Point { x: item.x - left, y: at(&tops, item.rank) + drop };
    // In a rank that is higher than usual, an edge is a vertical line, so that it does not cross boxes.
    let through_rank = |item: &Item| match at(&heights, item.rank) {
        height if height > HEIGHT => vec![point(item, 0.0), point(item, height)],
        height => vec![point(item, height / 2.0)],
    };
    Layout {
        boxes: items.iter().take(count).map(|item| point(item, 0.0)).collect(),
        bends: through
            .iter()
            .map(|points| points.iter().filter_map(|&i| items.get(i)).flat_map(through_rank).collect())
            .collect(),
        width: if right > left { right - left } else { 0.0 },
        height: tops.last().zip(heights.last()).map_or(0.0, |(top, height)| top + height),
    }
}

/// Returns the height and the top of each rank. A rank is as high as its highest box.
fn heights(items: &[Item], ranks: usize) -> (Vec<f64>, Vec<f64>) {
    let mut heights = vec![0.0f64; ranks];
    for item in items {
        if let Some(height) = heights.get_mut(item.rank) {
            *height = height.max(item.height);
        }
    }
    let tops = heights.iter().scan(0.0, |top, height| {
        let this = *top;
        *top += height + DROP;
        Some(this)
    });
    let tops = tops.collect();
    (heights, tops)
}

impl Item {
    fn new(rank: usize, width: f64, height: f64) -> Item {
        Item { rank, width, height, above: Vec::new(), below: Vec::new(), x: 0.0 }
    }
}

fn at<T: Copy + Default>(of: &[T], i: usize) -> T {
    of.get(i).copied().unwrap_or_default()
}

fn join(items: &mut [Item], above: usize, below: usize) {
    if let Some(item) = items.get_mut(above) {
        item.below.push(below);
    }
    if let Some(item) = items.get_mut(below) {
        item.above.push(above);
    }
}

/// Returns the ranks. A box is one rank below the lowest box that it reads. A box that reads nothing is just above its first reader. Boxes
/// with an anchor are in the first or the last rank.
fn ranks(problem: &Problem) -> Vec<usize> {
    let count = problem.boxes.len();
    let mut ranks = vec![0usize; count];
    let mut edges = problem.edges.clone();
    edges.sort_unstable();
    for &(from, to) in &edges {
        let below = at(&ranks, from) + 1;
        if let Some(rank) = ranks.get_mut(to) {
            *rank = below.max(*rank);
        }
    }
    let mut reads = vec![false; count];
    let mut first: Vec<Option<usize>> = vec![None; count];
    for &(from, to) in &edges {
        if let Some(reads) = reads.get_mut(to) {
            *reads = true;
        }
        let reader = at(&ranks, to);
        if let Some(first) = first.get_mut(from) {
            *first = Some(first.map_or(reader, |other| other.min(reader)));
        }
    }
    for ((rank, reads), first) in ranks.iter_mut().zip(reads).zip(first) {
        if let (false, Some(first)) = (reads, first) {
            *rank = first.saturating_sub(1);
        }
    }
    let last = ranks.iter().max().copied().unwrap_or(0);
    for (rank, size) in ranks.iter_mut().zip(&problem.boxes) {
        match size.anchor {
            Anchor::Free => {}
            Anchor::Top => *rank = 0,
            Anchor::Bottom => *rank = last,
        }
    }
    ranks
}

/// Orders each layer by the mean positions of the neighbours, alternately downwards and upwards.
fn order(items: &mut [Item], layers: &mut [Vec<usize>]) {
    number(items, layers);
    for sweep in 0..SWEEPS {
        let down = sweep % 2 == 0;
        for step in 0..layers.len() {
            let layer = if down { step } else { layers.len() - 1 - step };
            let Some(members) = layers.get_mut(layer) else { continue };
            let mut keyed: Vec<(f64, usize)> = members.iter().map(|&i| (mean(items, i, down), i)).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            for (position, (_, i)) in keyed.iter().enumerate() {
                if let Some(item) = items.get_mut(*i) {
                    item.x = position as f64;
                }
            }
            *members = keyed.into_iter().map(|(_, i)| i).collect();
        }
    }
}

/// Numbers the members of each layer.
fn number(items: &mut [Item], layers: &[Vec<usize>]) {
    for layer in layers {
        for (position, &i) in layer.iter().enumerate() {
            if let Some(item) = items.get_mut(i) {
                item.x = position as f64;
            }
        }
    }
}

/// Returns the mean position of the neighbours on one side, or the box's own position if there are none.
fn mean(items: &[Item], i: usize, above: bool) -> f64 {
    let Some(item) = items.get(i) else { return 0.0 };
    let neighbours = if above { &item.above } else { &item.below };
    let positions = neighbours.iter().filter_map(|&n| items.get(n)).map(|n| n.x);
    if neighbours.is_empty() { item.x } else { positions.sum::<f64>() / neighbours.len() as f64 }
}

/// Moves the members of each layer towards the mean positions of their neighbours. Keeps their order and distances.
fn coordinates(items: &mut [Item], layers: &[Vec<usize>]) {
    for layer in layers {
        let mut x = 0.0;
        for &i in layer {
            if let Some(item) = items.get_mut(i) {
                item.x = x + item.width / 2.0;
                x += item.width + GAP;
            }
        }
    }
    for sweep in 0..2 * SWEEPS {
        let down = sweep % 2 == 0;
        for step in 0..layers.len() {
            let layer = if down { step } else { layers.len() - 1 - step };
            if let Some(members) = layers.get(layer) {
                settle(items, members, down);
            }
        }
    }
}

/// Adjacent members that touch each other and so move together.
struct MemberBlock {
    sum: f64,
    weight: f64,
    members: usize,
}

/// Places a layer as near to the means as the order and widths allow. The solution is the least-squares fit, which merges members that
/// would overlap.
fn settle(items: &mut [Item], members: &[usize], down: bool) {
    let mut offsets = Vec::with_capacity(members.len());
    let mut blocks: Vec<MemberBlock> = Vec::new();
    let mut offset = 0.0;
    let mut before = 0.0;
    for (position, &i) in members.iter().enumerate() {
        let Some(item) = items.get(i) else { continue };
        offset += if position == 0 { 0.0 } else { (before + item.width) / 2.0 + GAP };
        before = item.width;
        offsets.push(offset);
        // Points of long edges have a larger weight, which keeps these edges straight.
        let weight = if item.width == BEND { 4.0 } else { 1.0 };
        let mut block = MemberBlock { sum: (mean(items, i, down) - offset) * weight, weight, members: 1 };
        while let Some(last) = blocks.pop_if(|last| last.sum / last.weight >= block.sum / block.weight) {
            block = MemberBlock {
                sum: last.sum + block.sum,
                weight: last.weight + block.weight,
                members: last.members + block.members,
            };
        }
        blocks.push(block);
    }
    let places = blocks.iter().flat_map(|block| std::iter::repeat_n(block.sum / block.weight, block.members));
    for ((&i, place), offset) in members.iter().zip(places).zip(offsets) {
        if let Some(item) = items.get_mut(i) {
            item.x = place + offset;
        }
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;

    fn placed(count: usize, edges: &[(usize, usize)]) -> Layout {
        place(&Problem { boxes: vec![size(HEIGHT, Anchor::Free); count], edges: edges.to_vec() })
    }

    fn size(height: f64, anchor: Anchor) -> Size {
        Size { width: 60.0, height, anchor }
    }

    fn overlap(layout: &Layout) -> bool {
        let boxes = layout.boxes.iter().enumerate();
        boxes
            .clone()
            .any(|(i, a)| boxes.clone().any(|(j, b)| i != j && a.y == b.y && (a.x - b.x).abs() < 60.0))
    }

    #[test]
    fn a_chain_is_a_straight_column() {
        let layout = placed(3, &[(0, 1), (1, 2)]);
        assert!(layout.boxes.windows(2).all(|pair| pair[0].x == pair[1].x && pair[0].y < pair[1].y));
        assert_eq!((layout.width, layout.height), (60.0, 3.0 * HEIGHT + 2.0 * DROP));
    }

    #[test]
    fn a_reader_is_below_all_that_it_reads_and_boxes_do_not_overlap() {
        // Two columns with crossing edges, and edges that skip ranks.
        let edges = [(0, 2), (0, 3), (1, 2), (1, 3), (2, 4), (3, 4), (0, 4), (4, 5), (0, 5)];
        let layout = placed(6, &edges);
        for &(from, to) in &edges {
            assert!(layout.boxes[from].y < layout.boxes[to].y, "{from} {to}");
        }
        assert!(!overlap(&layout));
        // The last edge spans two ranks, so it has two points.
        assert_eq!(layout.bends.iter().map(Vec::len).collect::<Vec<_>>(), [0, 0, 0, 0, 0, 0, 1, 0, 2]);
    }

    #[test]
    fn what_reads_nothing_is_just_above_its_reader() {
        let layout = placed(4, &[(0, 1), (1, 3), (2, 3)]);
        assert_eq!(layout.boxes[2].y, layout.boxes[1].y);
    }

    #[test]
    fn a_rank_is_as_high_as_its_highest_box_and_edges_pass_beside_it() {
        let mut boxes = vec![size(HEIGHT, Anchor::Free); 4];
        boxes[1].height = 500.0;
        let layout = place(&Problem { boxes, edges: vec![(0, 1), (1, 2), (2, 3), (0, 2)] });
        assert_eq!(layout.boxes[2].y, HEIGHT + DROP + 500.0 + DROP);
        let [from, to] = layout.bends[3][..] else { panic!("{:?}", layout.bends[3]) };
        assert_eq!((from.x, from.y + 500.0), (to.x, to.y));
    }

    #[test]
    fn anchored_boxes_are_at_the_ends() {
        let mut boxes = vec![size(HEIGHT, Anchor::Free); 5];
        (boxes[3], boxes[4]) = (size(0.0, Anchor::Top), size(0.0, Anchor::Bottom));
        // Only the last box reads the box at the top, and the box at the bottom reads the first box.
        let layout = place(&Problem { boxes, edges: vec![(0, 1), (1, 2), (3, 2), (0, 4)] });
        let y: Vec<f64> = layout.boxes.iter().map(|at| at.y).collect();
        assert_eq!((y[3], y[4]), (y[0], y[2]));
    }

    #[test]
    fn crossed_pairs_are_uncrossed() {
        let layout = placed(4, &[(0, 3), (1, 2)]);
        let left = |a: usize, b: usize| layout.boxes[a].x < layout.boxes[b].x;
        assert_eq!(left(0, 1), left(3, 2), "edges do not cross");
    }

    #[test]
    fn nothing_is_an_empty_picture() {
        let layout = placed(0, &[]);
        assert_eq!((layout.width, layout.boxes.len()), (0.0, 0));
        assert_eq!(placed(1, &[]).boxes, [Point { x: 30.0, y: 0.0 }]);
    }
}
