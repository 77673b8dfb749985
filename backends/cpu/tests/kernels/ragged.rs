//! Compares attention of several sequences in one call with its definition, computed in `f64` element by element.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ext::{Llm, RaggedAttentionOptions};
use bb::{Backend, Tensor, TensorData};
use bb_cpu::{Array, Cpu};
use half::f16;

/// Returns numbers of both signs, which depend on `seed`.
pub(super) fn numbers(len: usize, seed: usize) -> Vec<f32> {
    (0..len).map(|i| (((i + seed) * 7919 + 13 * seed) % 2003) as f32 / 1001.5 - 1.0).collect()
}

pub(super) fn array<T: bb::Element>(cpu: &Cpu, shape: &[usize], numbers: &[T]) -> Array {
    cpu.constant(&TensorData::new(shape, numbers).unwrap()).unwrap()
}

/// A test case: the numbers of new and of past positions of each sequence, the heads, the groups, the elements of a key and of a value,
/// and the size of a block.
pub(super) struct Case {
    pub(super) new: &'static [usize],
    pub(super) past: &'static [usize],
    pub(super) heads: usize,
    pub(super) groups: usize,
    pub(super) sizes: [usize; 2],
    pub(super) block: usize,
}

const CASES: [Case; 7] = [
    Case { new: &[1], past: &[1000], heads: 9, groups: 3, sizes: [64, 64], block: 32 },
    Case { new: &[1, 1, 1, 1], past: &[31, 32, 33, 500], heads: 9, groups: 3, sizes: [64, 64], block: 32 },
    Case { new: &[200], past: &[0], heads: 4, groups: 4, sizes: [24, 40], block: 32 },
    Case { new: &[100, 1, 17], past: &[70, 90, 0], heads: 6, groups: 2, sizes: [16, 8], block: 16 },
    Case { new: &[3, 0, 2], past: &[5, 4, 0], heads: 2, groups: 1, sizes: [5, 7], block: 3 },
    Case { new: &[1], past: &[0], heads: 1, groups: 1, sizes: [1, 1], block: 1 },
    Case { new: &[30], past: &[5000], heads: 2, groups: 2, sizes: [8, 8], block: 64 },
];

/// Returns blocks that are consecutive, in reverse order, or far from each other.
fn tables(case: &Case, order: usize) -> (usize, usize, Vec<Vec<usize>>) {
    let counts: Vec<usize> = case.past.iter().map(|past| past.div_ceil(case.block)).collect();
    let all: usize = counts.iter().sum::<usize>() + 1;
    let place = |i: usize| match order {
        0 => i,
        1 => all - 1 - i,
        _ => (i * 7919) % all,
    };
    let width = counts.iter().copied().max().unwrap_or(0).max(1);
    let mut next = 0;
    let rows = counts.iter().map(|&count| {
        next += count;
        (next - count..next).map(place).collect()
    });
    (all, width, rows.collect())
}

fn check(cpu: &Cpu, case: &Case, order: usize, options: RaggedAttentionOptions) {
    let &Case { new, past, heads, groups, sizes: [d, e], block } = case;
    let (blocks, width, rows) = tables(case, order);
    if order == 2 && (blocks.is_multiple_of(7919) || rows.iter().flatten().count() > blocks) {
        return;
    }
    let n: usize = new.iter().sum();
    let (q, k, v) = (numbers(n * heads * d, 1), numbers(n * groups * d, 2), numbers(n * groups * e, 3));
    let (past_k, past_v) = (numbers(blocks * block * groups * d, 4), numbers(blocks * block * groups * e, 5));
    let mut starts = vec![0i64];
    for count in new {
        starts.push(starts[starts.len() - 1] + *count as i64);
    }
    let pasts: Vec<i64> = past.iter().map(|&past| past as i64).collect();
    let table: Vec<i64> =
        rows.iter().flat_map(|row| (0..width).map(|i| row.get(i).map_or(-1, |&i| i as i64))).collect();
    let b = new.len();
    let y = cpu.ragged_attention(
        &array(cpu, &[n, heads, d], &q),
        &array(cpu, &[n, groups, d], &k),
        &array(cpu, &[n, groups, e], &v),
        &array(cpu, &[blocks, block, groups, d], &past_k),
        &array(cpu, &[blocks, block, groups, e], &past_v),
        &array(cpu, &[b + 1], &starts),
        &array(cpu, &[b], &pasts),
        &array(cpu, &[b, width], &table),
        None,
        None,
        options,
    );
    let y = y.unwrap();
    assert_eq!(y.shape(), [n, heads, e]);
    let host = cpu.to_host(&y).unwrap();
    let y = host.as_slice::<f32>().unwrap();
    let kept = |which: usize, Position { sequence, first, t }: Position, g: usize, i: usize| {
        let (new, old, size) = if which == 0 { (&k, &past_k, d) } else { (&v, &past_v, e) };
        f64::from(match t.checked_sub(past[sequence]) {
            None => {
                let place = rows[sequence][t / block] * block + t % block;
                old[(place * groups + g) * size + i]
            }
            Some(t) => new[((first + t) * groups + g) * size + i],
        })
    };
    assert_attention(case, options, &q, y, kept);
}

/// A position `t` of a sequence. `first` is the index of the sequence's first new position among all new positions.
#[derive(Clone, Copy)]
pub(super) struct Position {
    pub(super) sequence: usize,
    pub(super) first: usize,
    pub(super) t: usize,
}

/// Compares results with the definition. `kept` returns an element of the key of a position and a group, or of the value if its first
/// argument is 1.
pub(super) fn assert_attention(
    case: &Case,
    options: RaggedAttentionOptions,
    q: &[f32],
    y: &[f32],
    kept: impl Fn(usize, Position, usize, usize) -> f64,
) {
    let &Case { new, past, heads, groups, sizes: [d, e], .. } = case;
    let mut row = 0;
    for (sequence, (&new, &past)) in new.iter().zip(past).enumerate() {
        let first = row;
        for position in past..past + new {
            let from = options.left.map_or(0, |left| position.saturating_sub(left as usize));
            for head in 0..heads {
                let g = head / (heads / groups);
                let at =
                    |which: usize, t: usize, i: usize| kept(which, Position { sequence, first, t }, g, i);
                let product = |t: usize| {
                    let q = |i: usize| f64::from(q[(row * heads + head) * d + i]);
                    let sum: f64 = (0..d).map(|i| q(i) * at(0, t, i)).sum();
                    let product = sum * options.scale.unwrap_or(1.0 / (d as f64).sqrt());
                    let cap = options.softcap;
                    if cap > 0.0 { cap * (product / cap).tanh() } else { product }
                };
                let powers: Vec<f64> = (from..=position).map(|t| product(t).exp()).collect();
                let total: f64 = powers.iter().sum();
                for i in 0..e {
                    let average = |(t, power): (usize, &f64)| power / total * at(1, t, i);
                    let want: f64 = (from..=position).zip(&powers).map(average).sum();
                    let got = f64::from(y[(row * heads + head) * e + i]);
                    assert!(
                        (got - want).abs() < 2e-5,
                        "sequence {sequence}, {position}, {head}, {i}: {got}, expected {want}"
                    );
                }
            }
            row += 1;
        }
    }
}

/// 16-bit keys and values keep their exact values, whatever the type of the queries is.
#[test]
fn keys_and_values_may_be_halves() {
    let cpu = Cpu::builder().threads(1).build().unwrap();
    let widened = |x: &[f16]| x.iter().map(|x| x.to_f32()).collect::<Vec<f32>>();
    let halves =
        |len: usize, seed: usize| -> Vec<f16> { numbers(len, seed).into_iter().map(f16::from_f32).collect() };
    let (n, heads, groups, d, e, blocks, block) = (9, 6, 3, 20, 12, 7, 16);
    let q = array(&cpu, &[n, heads, d], &numbers(n * heads * d, 1));
    let kept = [n * groups * d, n * groups * e, blocks * block * groups * d, blocks * block * groups * e];
    let shapes = [
        vec![n, groups, d],
        vec![n, groups, e],
        vec![blocks, block, groups, d],
        vec![blocks, block, groups, e],
    ];
    let kept: Vec<Vec<f16>> = kept.into_iter().enumerate().map(|(i, len)| halves(len, i + 2)).collect();
    let call = |kept: &[Array]| {
        let [k, v, past_k, past_v] = kept else { unreachable!() };
        let starts = array(&cpu, &[3], &[0i64, 5, 9]);
        let pasts = array(&cpu, &[2], &[37i64, 50]);
        let table = array(&cpu, &[2, 4], &[5i64, 2, 0, -1, 1, 3, 4, 6]);
        let options = RaggedAttentionOptions::default();
        let y = cpu.ragged_attention(&q, k, v, past_k, past_v, &starts, &pasts, &table, None, None, options);
        let host = cpu.to_host(&y.unwrap()).unwrap();
        host.as_slice::<f32>().unwrap().to_vec()
    };
    let each = kept.iter().zip(&shapes);
    let narrow: Vec<Array> = each.clone().map(|(x, shape)| array(&cpu, shape, x)).collect();
    let wide: Vec<Array> = each.map(|(x, shape)| array(&cpu, shape, &widened(x))).collect();
    assert_eq!(call(&narrow), call(&wide));
}

/// Computes the attention of a sequence in several calls; `parts` contains the number of new positions of each call.
fn in_parts(
    cpu: &Cpu,
    positions: usize,
    parts: &[usize],
    stride: usize,
    options: RaggedAttentionOptions,
) -> Vec<f32> {
    let (heads, groups, d, e, block) = (6, 2, 40, 24, 16);
    let (q, k, v) = (
        numbers(positions * heads * d, 1),
        numbers(positions * groups * d, 2),
        numbers(positions * groups * e, 3),
    );
    // Add another sequence with one new position, whose past is in a block that the first sequence does not use.
    let blocks = positions.div_ceil(block) + 1;
    let place = |i: usize| i * stride % blocks;
    let of_others = place(blocks - 1);
    let (mut past_k, mut past_v) =
        (numbers(blocks * block * groups * d, 4), numbers(blocks * block * groups * e, 5));
    let (mut results, mut past) = (Vec::new(), 0);
    let both = |x: &[f32], width: usize, new: std::ops::Range<usize>| {
        let mut both = numbers(width, 6);
        both.extend(&x[new.start * width..new.end * width]);
        both
    };
    for &part in parts {
        let new = past..past + part;
        let n = part + 1;
        let mut table: Vec<i64> = vec![of_others as i64; blocks];
        table.extend((0..blocks).map(|i| place(i) as i64));
        let y = cpu.ragged_attention(
            &array(cpu, &[n, heads, d], &both(&q, heads * d, new.clone())),
            &array(cpu, &[n, groups, d], &both(&k, groups * d, new.clone())),
            &array(cpu, &[n, groups, e], &both(&v, groups * e, new.clone())),
            &array(cpu, &[blocks, block, groups, d], &past_k),
            &array(cpu, &[blocks, block, groups, e], &past_v),
            &array(cpu, &[3], &[0i64, 1, n as i64]),
            &array(cpu, &[2], &[5i64, past as i64]),
            &array(cpu, &[2, blocks], &table),
            None,
            None,
            options,
        );
        let y = cpu.to_host(&y.unwrap()).unwrap();
        results.extend(&y.as_slice::<f32>().unwrap()[heads * e..]);
        for position in new {
            let to = place(position / block) * block + position % block;
            for (past, x, width) in [(&mut past_k, &k, groups * d), (&mut past_v, &v, groups * e)] {
                past[to * width..][..width].copy_from_slice(&x[position * width..][..width]);
            }
        }
        past += part;
    }
    results
}

/// The result of a position has the same bits for every division of a sequence into calls, and for every order of its blocks.
#[test]
fn attention_depends_on_the_sequence_alone() {
    let positions = 700;
    let windows = [None, Some(0), Some(33), Some(600)];
    for (threads, left) in [1, 2].into_iter().flat_map(|threads| windows.map(|left| (threads, left))) {
        let cpu = Cpu::builder().threads(threads).build().unwrap();
        let options = RaggedAttentionOptions { left, ..Default::default() };
        let whole = in_parts(&cpu, positions, &[positions], 1, options);
        let [mut ones, mut last] = [vec![1; 40], vec![positions - 30]];
        ones.push(positions - 40);
        last.extend([1; 30]);
        for parts in [ones, last, vec![13, 300, 1, 1, 1, 99, 285], vec![512, 188], vec![33, 667]] {
            for stride in [1, 7] {
                let got = in_parts(&cpu, positions, &parts, stride, options);
                let other = got.iter().zip(&whole).position(|(got, want)| got.to_bits() != want.to_bits());
                assert_eq!(other, None, "{left:?}, {} parts, {stride}", parts.len());
            }
        }
    }
}

/// An infinite or NaN key only affects the queries that attend to its position.
#[test]
fn what_is_not_reached_takes_no_part_whatever_its_product_is() {
    let cpu = Cpu::builder().threads(1).build().unwrap();
    let (past, new, heads, groups, d, e, block, left) = (40, 60, 4, 2, 8, 8, 16, 5);
    let run = |other: Option<f32>| {
        let (mut k, mut past_k) = (numbers(new * groups * d, 2), numbers(48 * groups * d, 4));
        if let Some(other) = other {
            k[20 * groups * d..][..groups * d].fill(other);
            past_k[37 * groups * d..][..groups * d].fill(other);
        }
        let y = cpu.ragged_attention(
            &array(&cpu, &[new, heads, d], &numbers(new * heads * d, 1)),
            &array(&cpu, &[new, groups, d], &k),
            &array(&cpu, &[new, groups, e], &numbers(new * groups * e, 3)),
            &array(&cpu, &[3, block, groups, d], &past_k),
            &array(&cpu, &[3, block, groups, e], &numbers(48 * groups * e, 5)),
            &array(&cpu, &[2], &[0i64, new as i64]),
            &array(&cpu, &[1], &[past as i64]),
            &array(&cpu, &[1, 3], &[0i64, 1, 2]),
            None,
            None,
            RaggedAttentionOptions { left: Some(left), ..Default::default() },
        );
        cpu.to_host(&y.unwrap()).unwrap().as_slice::<f32>().unwrap().to_vec()
    };
    let clean = run(None);
    for other in [f32::NAN, f32::INFINITY] {
        for (i, (got, want)) in run(Some(other)).chunks(heads * e).zip(clean.chunks(heads * e)).enumerate() {
            // Queries 37 to 42 attend to position 37, and queries 60 to 65 to position 60. New positions begin at 40.
            let reaches = (0..=2).contains(&i) || (20..=25).contains(&i);
            assert_eq!(got.iter().all(|y| y.is_finite()), !reaches, "{other} {i}");
            assert!(reaches || got == want, "{other} {i}");
        }
    }
}

#[test]
fn attention_of_many_sequences_follows_its_definition() {
    for threads in [1, 2] {
        let cpu = Cpu::builder().threads(threads).build().unwrap();
        for (case, order) in CASES.iter().flat_map(|case| (0..3).map(move |order| (case, order))) {
            check(&cpu, case, order, RaggedAttentionOptions::default());
        }
        for options in [
            RaggedAttentionOptions { left: Some(0), ..Default::default() },
            RaggedAttentionOptions { left: Some(20), ..Default::default() },
            RaggedAttentionOptions { left: Some(40), softcap: 1.5, scale: Some(0.3) },
            RaggedAttentionOptions { softcap: 20.0, ..Default::default() },
        ] {
            CASES.iter().take(6).for_each(|case| check(&cpu, case, 1, options));
        }
    }
}
