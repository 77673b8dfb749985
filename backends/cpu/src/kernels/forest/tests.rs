#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::threads;

/// A generator of random numbers with a long period.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    /// Draws one of a few numbers, so that equal numbers are frequent, or a special number.
    fn number(&mut self) -> f64 {
        match self.below(20) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => f64::NEG_INFINITY,
            3 => -0.0,
            _ => self.below(9) as f64 / 2.0 - 2.0,
        }
    }
}

/// The tables of a forest.
struct ForestTables<T> {
    nodes: Vec<[i32; 4]>,
    thresholds: Vec<T>,
    roots: Vec<i32>,
    weights: Vec<T>,
    members: Vec<T>,
}

const COLUMNS: usize = 5;
const SETS: usize = 3;
const WIDTH: usize = 2;
const DEPTH: usize = 11;

impl<T: Real> ForestTables<T> {
    /// Draws trees. The second tree is only a leaf.
    fn draw(draw: &mut Draw, trees: usize, targets: usize, modes: &[i64]) -> ForestTables<T> {
        let mut made = ForestTables {
            nodes: vec![],
            thresholds: vec![],
            roots: vec![],
            weights: vec![],
            members: vec![],
        };
        let mut leaves = 0;
        for tree in 0..trees {
            let root = made.grow(draw, modes, if tree == 1 { DEPTH } else { 0 }, &mut leaves);
            made.roots.push(root);
        }
        // Leaves have negative indices until the number of inner nodes is known.
        let inner = made.nodes.len() as i32;
        let number = |node: &mut i32| *node = if *node < 0 { inner - 1 - *node } else { *node };
        made.roots.iter_mut().for_each(number);
        made.nodes.iter_mut().for_each(|[.., yes, no]| [yes, no].into_iter().for_each(number));
        made.weights =
            (0..leaves as usize * targets).map(|_| T::narrow(draw.below(99) as f64 / 7.0)).collect();
        made.members = (0..SETS * WIDTH).map(|_| T::narrow(draw.number())).collect();
        made
    }

    fn grow(&mut self, draw: &mut Draw, modes: &[i64], depth: usize, leaves: &mut i32) -> i32 {
        if depth == DEPTH || (depth > 2 && draw.below(3) == 0) {
            *leaves += 1;
            return -*leaves;
        }
        let at = self.nodes.len();
        let test =
            modes[draw.below(modes.len())] as i32 + 8 * draw.below(2) as i32 + 16 * draw.below(SETS) as i32;
        self.nodes.push([draw.below(COLUMNS) as i32, test, 0, 0]);
        self.thresholds.push(T::narrow(draw.number()));
        for side in [2, 3] {
            self.nodes[at][side] = self.grow(draw, modes, depth + 1, leaves);
        }
        at as i32
    }

    fn forest<'a>(
        &'a self,
        targets: usize,
        aggregate: Aggregate,
        modes: &'a [i64],
        missing: bool,
    ) -> Forest<'a, T> {
        let members = modes.contains(&6).then_some((&self.members[..], SETS, WIDTH));
        Forest {
            nodes: &self.nodes,
            thresholds: &self.thresholds,
            roots: &self.roots,
            weights: &self.weights,
            targets,
            depth: DEPTH,
            aggregate,
            tests: Tests { modes, missing, members },
        }
    }
}

/// Computes a row as the operation defines it.
fn defined<T: Real>(forest: &Forest<'_, T>, x: &[T]) -> Vec<f64> {
    let leaves = forest.roots.iter().map(|&root| {
        let mut at = root as usize;
        while let Some(&[column, test, yes, no]) = forest.nodes.get(at) {
            let (x, threshold) = (x[column as usize].wide(), forest.thresholds[at].wide());
            let holds = match test & 7 {
                0 => x <= threshold,
                1 => x < threshold,
                2 => x >= threshold,
                3 => x > threshold,
                4 => x == threshold,
                5 => x != threshold,
                _ => {
                    let (members, _, width) = forest.tests.members.unwrap();
                    members[(test >> 4) as usize * width..][..width].iter().any(|m| m.wide() == x)
                }
            };
            let holds = if forest.tests.missing && x.is_nan() { test & 8 != 0 } else { holds };
            at = if holds { yes } else { no } as usize;
        }
        at - forest.nodes.len()
    });
    let leaves: Vec<usize> = leaves.collect();
    let target = |target: usize| {
        let weights = leaves.iter().map(|leaf| forest.weights[leaf * forest.targets + target].wide());
        match forest.aggregate {
            Aggregate::Sum => weights.sum(),
            Aggregate::Average => T::narrow(weights.sum()).wide() / leaves.len() as f64,
            Aggregate::Min => weights.fold(f64::INFINITY, f64::min),
            Aggregate::Max => weights.fold(f64::NEG_INFINITY, f64::max),
        }
    };
    (0..forest.targets).map(target).collect()
}

/// Runs the kernel on the rows of `x`. Returns `None` if a walk does not reach a leaf.
fn run_on<T: Real + Default>(forest: &Forest<'_, T>, x: &[T], pack: bool) -> Option<Vec<T>> {
    let rows = x.len() / COLUMNS;
    let mut out = vec![T::default(); rows * forest.targets];
    let packed = if pack { Packed::new(forest).unwrap() } else { None };
    // SAFETY: `x` has these rows, and `out` has room for their results.
    let arrived = unsafe { run(forest, packed.as_ref(), [rows, COLUMNS], out.as_mut_ptr(), x.as_ptr()) };
    arrived.then_some(out)
}

fn compares_as_defined<T: Real + Default>() {
    let mut draw = Draw(7);
    let all: [&[i64]; 7] = [&[0], &[1], &[2], &[3], &[0, 1, 2, 3], &[0, 4, 5], &[1, 4, 5, 6]];
    let aggregates = [Aggregate::Sum, Aggregate::Average, Aggregate::Min, Aggregate::Max];
    for (i, modes) in all.into_iter().enumerate() {
        for (trees, targets, rows) in
            [(1, 1, 1), (9, 1, 7), (3, 3, 8), (17, 2, 300), (2, 1, 19), (8, 40, 61), (300, 2, 3)]
        {
            let mut made = ForestTables::<T>::draw(&mut draw, trees, targets, modes);
            // Sets weights to zero, so that leaves have several targets, one target or none, as in forests with
            // separate trees for each class.
            if i % 2 == 0 {
                let of_one = trees % 2 == 0;
                for (at, weight) in made.weights.iter_mut().enumerate() {
                    let kept = if of_one { at % targets == targets - 1 } else { draw.below(3) == 0 };
                    *weight = if kept { *weight } else { T::narrow(-0.0) };
                }
            }
            let x: Vec<T> = (0..rows * COLUMNS).map(|_| T::narrow(draw.number())).collect();
            for missing in [false, true] {
                let forest = made.forest(targets, aggregates[(i + trees) % 4], modes, missing);
                let want: Vec<T> =
                    x.chunks(COLUMNS).flat_map(|x| defined(&forest, x)).map(T::narrow).collect();
                for (pack, count) in [(false, 1), (true, 1), (false, 3), (true, 3)] {
                    let got = threads::as_if(count, || run_on(&forest, &x, pack)).unwrap();
                    let same = got.iter().zip(&want).all(|(g, w)| g.wide() == w.wide());
                    assert!(
                        same,
                        "{modes:?} {trees} trees, {targets} targets, {rows} rows, {missing}, {pack}"
                    );
                }
            }
        }
    }
}

#[test]
fn walks_of_floats_compare_as_defined() {
    compares_as_defined::<f32>();
}

#[test]
fn walks_of_doubles_compare_as_defined() {
    compares_as_defined::<f64>();
}

/// Modes that keys cannot express are not packed; all other modes are.
#[test]
fn ordered_tests_are_packed() {
    let mut draw = Draw(3);
    for (modes, packs) in [(&[0i64, 3][..], true), (&[2], true), (&[0, 4], false), (&[6], false)] {
        let made = ForestTables::<f32>::draw(&mut draw, 5, 1, modes);
        let forest = made.forest(1, Aggregate::Sum, modes, true);
        assert_eq!(Packed::new(&forest).unwrap().is_some(), packs, "{modes:?}");
    }
}

/// Indices that are out of range, and walks in a cycle, end the kernel without a result.
#[test]
fn lost_walks_end_the_kernel() {
    let x = [1f32; 3 * COLUMNS];
    let base = ForestTables::<f32> {
        nodes: vec![[0, 0, 1, 2], [1, 0, 2, 3]],
        thresholds: vec![2.0, 2.0],
        roots: vec![0],
        weights: vec![5.0, 7.0],
        members: vec![],
    };
    let forest = base.forest(1, Aggregate::Sum, &[0], false);
    for pack in [false, true] {
        assert_eq!(run_on(&forest, &x, pack), Some(vec![5.0; 3]));
        let shallow = Forest { depth: 1, ..forest };
        assert_eq!(run_on(&shallow, &x, pack), None);
        for (node, part, number) in
            [(0, 0, 5), (0, 0, -1), (1, 0, i32::MAX), (0, 2, 0), (1, 2, 4), (0, 2, -1), (1, 2, i32::MIN)]
        {
            let mut nodes = base.nodes.clone();
            nodes[node][part] = number;
            assert_eq!(run_on(&Forest { nodes: &nodes, ..forest }, &x, pack), None, "{node} {part} {number}");
        }
        for root in [4, -1, 1 << 30] {
            assert_eq!(run_on(&Forest { roots: &[root], ..forest }, &x, pack), None, "{root}");
        }
        let tests = Tests { modes: &[0, 7], missing: false, members: None };
        assert_eq!(run_on(&Forest { tests, ..forest }, &x, pack), None);
    }
}

#[test]
fn keys_are_in_the_order_of_numbers() {
    let numbers = [f32::NEG_INFINITY, -3.0, -1e-45, 0.0, 1e-45, 3.0, f32::INFINITY];
    for pair in numbers.windows(2) {
        assert!(pair[0].key(0) < pair[1].key(0), "{pair:?}");
    }
    assert_eq!((-0.0f32).key(9), 0.0f32.key(9));
    assert_eq!((f32::NAN.key(9), f64::NAN.key(9)), (9, 9));
    assert!((-1e-300f64).key(0) < 1e-300f64.key(0));
}
