//! Compares attention to past keys and values of 8-bit integers with scales with its definition, computed in `f64` element by element.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use super::ragged::{Case, Position, array, assert_attention, numbers};
use bb::ext::{Llm, RaggedAttentionOptions};
use bb::{Backend, Tensor};
use bb_cpu::Cpu;
use half::f16;

/// Keys or values as integers, with a scale for each row of `size`.
#[derive(Clone)]
struct Bytes {
    size: usize,
    integers: Vec<i8>,
    scales: Vec<f32>,
}

impl Bytes {
    /// Returns the integers nearest to `x` divided by the scale. The scale is the maximum magnitude of a row divided by 127.
    fn of(x: &[f32], size: usize) -> Bytes {
        let scales: Vec<f32> =
            x.chunks(size).map(|row| row.iter().fold(0f32, |most, x| most.max(x.abs())) / 127.0).collect();
        let integers = x.iter().enumerate().map(|(i, x)| {
            let quotient = f64::from(*x) / f64::from(scales[i / size]);
            quotient.round_ties_even().clamp(-127.0, 127.0) as i8
        });
        Bytes { size, integers: integers.collect(), scales }
    }

    fn at(&self, i: usize) -> f64 {
        f64::from(self.integers[i]) * f64::from(self.scales[i / self.size])
    }

    /// Returns the values that the integers represent, each rounded once.
    fn floats(&self) -> Vec<f32> {
        (0..self.integers.len()).map(|i| self.at(i) as f32).collect()
    }
}

const CASES: [Case; 6] = [
    Case { new: &[1], past: &[1000], heads: 9, groups: 3, sizes: [64, 64], block: 32 },
    Case { new: &[1, 1, 1, 1], past: &[31, 32, 33, 500], heads: 9, groups: 3, sizes: [64, 64], block: 32 },
    Case { new: &[100, 1, 17], past: &[70, 90, 0], heads: 6, groups: 2, sizes: [16, 8], block: 16 },
    Case { new: &[40], past: &[130], heads: 4, groups: 4, sizes: [24, 40], block: 32 },
    Case { new: &[3, 0, 2], past: &[5, 4, 0], heads: 2, groups: 1, sizes: [5, 7], block: 3 },
    Case { new: &[1], past: &[1], heads: 1, groups: 1, sizes: [1, 1], block: 1 },
];

/// The operands of a case: the queries, the new keys and values, and the past keys and values in blocks in reverse order.
struct Given {
    q: Vec<f32>,
    new: [Vec<f32>; 2],
    past: [Bytes; 2],
    table: Vec<Vec<usize>>,
    blocks: usize,
}

impl Given {
    fn of(case: &Case) -> Given {
        let &Case { new, past, heads, groups, sizes: [d, e], block } = case;
        let n: usize = new.iter().sum();
        let counts: Vec<usize> = past.iter().map(|past| past.div_ceil(block)).collect();
        let blocks = counts.iter().sum::<usize>() + 1;
        let mut next = blocks;
        let table = counts.iter().map(|&count| {
            next -= count;
            (next..next + count).rev().collect()
        });
        let rows = blocks * block * groups;
        Given {
            q: numbers(n * heads * d, 1),
            new: [numbers(n * groups * d, 2), numbers(n * groups * e, 3)],
            table: table.collect(),
            past: [Bytes::of(&numbers(rows * d, 4), d), Bytes::of(&numbers(rows * e, 5), e)],
            blocks,
        }
    }

    fn run(&self, cpu: &Cpu, case: &Case, options: RaggedAttentionOptions) -> Vec<f32> {
        let &Case { new, past, heads, groups, sizes: [d, e], block } = case;
        let (n, b, blocks) = (new.iter().sum(), new.len(), self.blocks);
        let mut starts = vec![0i64];
        for count in new {
            starts.push(starts[starts.len() - 1] + *count as i64);
        }
        let pasts: Vec<i64> = past.iter().map(|&past| past as i64).collect();
        let width = self.table.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let row = |row: &Vec<usize>| (0..width).map(|i| row.get(i).map_or(-1, |&i| i as i64)).collect();
        let table: Vec<Vec<i64>> = self.table.iter().map(row).collect();
        let [past_k, past_v] = &self.past;
        let y = cpu.ragged_attention(
            &array(cpu, &[n, heads, d], &self.q),
            &array(cpu, &[n, groups, d], &self.new[0]),
            &array(cpu, &[n, groups, e], &self.new[1]),
            &array(cpu, &[blocks, block, groups, d], &past_k.integers),
            &array(cpu, &[blocks, block, groups, e], &past_v.integers),
            &array(cpu, &[b + 1], &starts),
            &array(cpu, &[b], &pasts),
            &array(cpu, &[b, width], &table.concat()),
            Some(&array(cpu, &[blocks, block, groups], &past_k.scales)),
            Some(&array(cpu, &[blocks, block, groups], &past_v.scales)),
            options,
        );
        let y = y.unwrap();
        assert_eq!(y.shape(), [n, heads, e]);
        cpu.to_host(&y).unwrap().as_slice::<f32>().unwrap().to_vec()
    }
}

fn check(cpu: &Cpu, case: &Case, options: RaggedAttentionOptions) {
    let &Case { past, groups, sizes, block, .. } = case;
    let given = Given::of(case);
    let y = given.run(cpu, case, options);
    let kept = |which: usize, Position { sequence, first, t }: Position, g: usize, i: usize| {
        let size = sizes[which];
        match t.checked_sub(past[sequence]) {
            None => {
                let place = given.table[sequence][t / block] * block + t % block;
                given.past[which].at((place * groups + g) * size + i)
            }
            Some(t) => f64::from(given.new[which][((first + t) * groups + g) * size + i]),
        }
    };
    assert_attention(case, options, &given.q, &y, kept);
}

#[test]
fn pasts_of_bytes_follow_their_definition() {
    for threads in [1, 2] {
        let cpu = Cpu::builder().threads(threads).build().unwrap();
        for case in &CASES {
            check(&cpu, case, RaggedAttentionOptions::default());
            for options in [
                RaggedAttentionOptions { left: Some(0), ..Default::default() },
                RaggedAttentionOptions { left: Some(20), ..Default::default() },
                RaggedAttentionOptions { left: Some(40), softcap: 1.5, scale: Some(0.3) },
            ] {
                check(&cpu, case, options);
            }
        }
    }
}

/// If keys and values are rounded before use, it makes no difference whether they are new or past: the results have the same bits,
/// however a sequence is divided into calls.
#[test]
fn attention_to_bytes_depends_on_the_sequence_alone() {
    let (positions, heads, groups, d, e, block) = (300usize, 6, 2, 40, 24, 16);
    let blocks = positions.div_ceil(block);
    let q = numbers(positions * heads * d, 1);
    let kept =
        [(d, 2), (e, 3)].map(|(size, seed)| Bytes::of(&numbers(blocks * block * groups * size, seed), size));
    let floats = kept.each_ref().map(Bytes::floats);
    for (threads, left) in [(1, None), (2, None), (1, Some(33)), (2, Some(200))] {
        let cpu = Cpu::builder().threads(threads).build().unwrap();
        let options = RaggedAttentionOptions { left, ..Default::default() };
        let run = |parts: &[usize]| {
            let (mut results, mut past) = (Vec::new(), 0);
            let table: Vec<i64> = (0..blocks as i64).collect();
            for &n in parts {
                let new = |x: &[f32], width: usize, heads: usize| {
                    array(&cpu, &[n, heads, width / heads], &x[past * width..(past + n) * width])
                };
                // Scales after the end of the past must not be read.
                let behind = |of: &Bytes| {
                    let mut scales = of.scales.clone();
                    scales[past * groups..].fill(f32::NAN);
                    array(&cpu, &[blocks, block, groups], &scales)
                };
                let y = cpu.ragged_attention(
                    &new(&q, heads * d, heads),
                    &new(&floats[0], groups * d, groups),
                    &new(&floats[1], groups * e, groups),
                    &array(&cpu, &[blocks, block, groups, d], &kept[0].integers),
                    &array(&cpu, &[blocks, block, groups, e], &kept[1].integers),
                    &array(&cpu, &[2], &[0i64, n as i64]),
                    &array(&cpu, &[1], &[past as i64]),
                    &array(&cpu, &[1, blocks], &table),
                    Some(&behind(&kept[0])),
                    Some(&behind(&kept[1])),
                    options,
                );
                results.extend(cpu.to_host(&y.unwrap()).unwrap().as_slice::<f32>().unwrap());
                past += n;
            }
            results
        };
        let whole: Vec<f32> = run(&[positions]);
        let mut ones = vec![1; 40];
        ones.push(positions - 40);
        for parts in [ones, vec![13, 100, 1, 1, 1, 99, 85], vec![257, 43], vec![32, 268]] {
            let got: Vec<f32> = run(&parts);
            let other = got.iter().zip(&whole).position(|(got, want)| got.to_bits() != want.to_bits());
            assert_eq!((got.len(), other), (whole.len(), None), "{threads}, {left:?}, {parts:?}");
        }
    }
}

/// A vector of zeros has the scale 0. A vector with an infinite or NaN scale is entirely NaN.
#[test]
fn scales_of_zero_and_without_bound_are_products_as_well() {
    let cpu = Cpu::builder().threads(1).build().unwrap();
    let run = |scale: f32| {
        let y = cpu.ragged_attention(
            &array(&cpu, &[1, 1, 2], &[1f32, 1.0]),
            &array(&cpu, &[1, 1, 2], &[0f32, 0.0]),
            &array(&cpu, &[1, 1, 2], &[3f32, 5.0]),
            &array(&cpu, &[1, 1, 1, 2], &[0i8, 0]),
            &array(&cpu, &[1, 1, 1, 2], &[0i8, 0]),
            &array(&cpu, &[2], &[0i64, 1]),
            &array(&cpu, &[1], &[1i64]),
            &array(&cpu, &[1, 1], &[0i64]),
            Some(&array(&cpu, &[1, 1, 1], &[0f32])),
            Some(&array(&cpu, &[1, 1, 1], &[scale])),
            RaggedAttentionOptions::default(),
        );
        cpu.to_host(&y.unwrap()).unwrap().as_slice::<f32>().unwrap().to_vec()
    };
    // Both keys are zeros, so the values have equal weights.
    assert_eq!(run(0.0), [1.5, 2.5]);
    assert!(run(f32::INFINITY).iter().all(|x| x.is_nan()));
    assert!(run(f32::NAN).iter().all(|x| x.is_nan()));
}

/// With integers in the past, queries and new keys may be 16-bit floats.
#[test]
fn queries_and_new_keys_may_be_halves_beside_bytes() {
    let cpu = Cpu::builder().threads(1).build().unwrap();
    let case = &CASES[3];
    let given = Given::of(case);
    let halves = |x: &[f32]| -> Vec<f16> { x.iter().map(|x| f16::from_f32(*x)).collect() };
    let widened = |x: &[f32]| -> Vec<f32> { halves(x).iter().map(|x| x.to_f32()).collect() };
    let exact = Given {
        q: widened(&given.q),
        new: given.new.each_ref().map(|x| widened(x)),
        past: given.past.clone(),
        table: given.table.clone(),
        blocks: given.blocks,
    };
    let expected = exact.run(&cpu, case, RaggedAttentionOptions::default());
    let &Case { heads, groups, sizes: [d, e], block, .. } = case;
    let (n, blocks) = (40, given.blocks);
    let table: Vec<i64> = given.table[0].iter().map(|&i| i as i64).collect();
    let y = cpu.ragged_attention(
        &array(&cpu, &[n, heads, d], &halves(&given.q)),
        &array(&cpu, &[n, groups, d], &halves(&given.new[0])),
        &array(&cpu, &[n, groups, e], &halves(&given.new[1])),
        &array(&cpu, &[blocks, block, groups, d], &given.past[0].integers),
        &array(&cpu, &[blocks, block, groups, e], &given.past[1].integers),
        &array(&cpu, &[2], &[0i64, n as i64]),
        &array(&cpu, &[1], &[130i64]),
        &array(&cpu, &[1, table.len()], &table),
        Some(&array(&cpu, &[blocks, block, groups], &given.past[0].scales)),
        Some(&array(&cpu, &[blocks, block, groups], &given.past[1].scales)),
        RaggedAttentionOptions::default(),
    );
    let got = cpu.to_host(&y.unwrap()).unwrap();
    let expected: Vec<f16> = expected.iter().map(|x| f16::from_f32(*x)).collect();
    assert_eq!(got.as_slice::<f16>().unwrap(), expected);
}
