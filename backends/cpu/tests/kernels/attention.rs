//! Compares attention with its definition, computed in `f64` element by element.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ext::{AttentionOptions, Create, Llm};
use bb::{Backend, Tensor, TensorData};
use bb_cpu::{Array, Cpu};

/// Returns numbers of both signs, which depend on `seed`.
fn numbers(len: usize, seed: usize) -> Vec<f32> {
    (0..len).map(|i| (((i + seed) * 7919 + 13 * seed) % 2003) as f32 / 1001.5 - 1.0).collect()
}

fn array(cpu: &Cpu, shape: &[usize], numbers: &[f32]) -> Array {
    cpu.constant(&TensorData::new(shape, numbers).unwrap()).unwrap()
}

/// The extents of a case: batches, query heads, key heads, queries, keys, elements of a key, and
/// elements of a value.
type Extents = [usize; 7];

/// Computes attention by its definition. `bias` returns the bias for a batch, head, query and key.
fn expected(
    [b, h, g, s, t, d, e]: Extents,
    [q, k, v]: [&[f32]; 3],
    scale: f64,
    bias: impl Fn([usize; 4]) -> f64,
) -> Vec<f64> {
    let mut all = Vec::new();
    for (batch, head, query) in (0..b * h * s).map(|i| (i / s / h, i / s % h, i % s)) {
        let group = batch * g + head / (h / g);
        let of = |x: &[f32], row: usize, n: usize, i: usize| f64::from(x[row * n + i]);
        let product = |key: usize| {
            let sum: f64 = (0..d)
                .map(|i| of(q, (batch * h + head) * s + query, d, i) * of(k, group * t + key, d, i))
                .sum();
            sum * scale + bias([batch, head, query, key])
        };
        let products: Vec<f64> = (0..t).map(product).collect();
        let most = products.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // If all keys are excluded, the result is 0.
        let powers: Vec<f64> =
            products.iter().map(|x| if most == f64::NEG_INFINITY { 0.0 } else { (x - most).exp() }).collect();
        let total: f64 = powers.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        all.extend((0..e).map(|i| {
            powers.iter().enumerate().map(|(key, p)| p / total * of(v, group * t + key, e, i)).sum::<f64>()
        }));
    }
    all
}

#[track_caller]
fn assert_near(cpu: &Cpu, y: &Array, expected: &[f64], what: &str) {
    let host = cpu.to_host(y).unwrap();
    let y = host.as_slice::<f32>().unwrap();
    assert_eq!(y.len(), expected.len());
    for (i, (&y, &want)) in y.iter().zip(expected).enumerate() {
        // The exponentials have errors of some units in the last place of `f32`, and the values are
        // at most 1.
        assert!((f64::from(y) - want).abs() < 2e-5, "{what}: {y} at {i}, expected {want}");
    }
}

const CASES: [Extents; 9] = [
    [1, 1, 1, 1, 1, 1, 1],
    [2, 4, 2, 1, 77, 16, 8],
    [1, 6, 1, 8, 3, 5, 7],
    [1, 2, 2, 9, 64, 64, 64],
    [3, 2, 1, 13, 65, 33, 20],
    [1, 3, 3, 128, 128, 64, 64],
    [1, 1, 1, 200, 300, 24, 40],
    [1, 1, 1, 30, 5000, 8, 8],
    [2, 8, 4, 50, 129, 32, 32],
];

#[test]
fn attention_follows_its_definition() {
    for threads in [1, 2] {
        let cpu = Cpu::builder().threads(threads).build().unwrap();
        for extents in CASES {
            let [b, h, g, s, t, d, e] = extents;
            let (q, k, v) = (numbers(b * h * s * d, 1), numbers(b * g * t * d, 2), numbers(b * g * t * e, 3));
            let mask = numbers(b * h * s * t, 4);
            let of = |shape: &[usize], x: &[f32]| array(&cpu, shape, x);
            let (q4, k4, v4) = (of(&[b, h, s, d], &q), of(&[b, g, t, d], &k), of(&[b, g, t, e], &v));
            let options = AttentionOptions::default();
            let scale = 1.0 / (d as f64).sqrt();
            let y = cpu.attention(&q4, &k4, &v4, None, options).unwrap();
            assert_eq!(y.shape(), [b, h, s, e]);
            assert_near(&cpu, &y, &expected(extents, [&q, &k, &v], scale, |_| 0.0), &format!("{extents:?}"));

            // Biases with every shape that broadcasts.
            let options = AttentionOptions { scale: Some(0.3), ..options };
            let shapes: [&[usize]; 6] =
                [&[b, h, s, t], &[s, t], &[b, 1, 1, t], &[h, s, 1], &[1, 1, s, t], &[]];
            for shape in shapes {
                let strides: Vec<usize> = {
                    let mut step = 1;
                    let mut strides: Vec<usize> = shape
                        .iter()
                        .rev()
                        .map(|&extent| {
                            let own = if extent == 1 { 0 } else { step };
                            step *= extent;
                            own
                        })
                        .collect();
                    strides.resize(4, 0);
                    strides.reverse();
                    strides
                };
                let count: usize = shape.iter().product();
                let at = |index: [usize; 4]| index.iter().zip(&strides).map(|(i, s)| i * s).sum::<usize>();
                let bias = of(shape, &mask[..count]);
                let y = cpu.attention(&q4, &k4, &v4, Some(&bias), options).unwrap();
                let want = expected(extents, [&q, &k, &v], 0.3, |index| f64::from(mask[at(index)]));
                assert_near(&cpu, &y, &want, &format!("{extents:?} with a bias {shape:?}"));
            }
        }
    }
}

#[test]
fn operands_may_lie_in_any_order() {
    let cpu = Cpu::new();
    let extents @ [b, h, g, s, t, d, e] = [2, 4, 2, 21, 70, 16, 24];
    let (q, k, v) = (numbers(b * h * s * d, 1), numbers(b * g * t * d, 2), numbers(b * g * t * e, 3));
    let of = |shape: &[usize], x: &[f32]| array(&cpu, shape, x);
    let want = expected(extents, [&q, &k, &v], 0.25, |_| 0.0);
    let (q, k, v) = (of(&[b, h, s, d], &q), of(&[b, g, t, d], &k), of(&[b, g, t, e], &v));
    for perm in [[0, 2, 1, 3], [0, 1, 3, 2], [3, 2, 1, 0]] {
        // Creates a copy in another memory order, viewed in the original order.
        let turned = |x: &Array| {
            let apart = cpu.transpose(x, &perm).unwrap();
            let copy = cpu.concat(&[&apart], 0).unwrap();
            let copy = cpu.neg(&cpu.neg(&copy).unwrap()).unwrap();
            let mut back = [0; 4];
            perm.iter().enumerate().for_each(|(i, &p)| back[p as usize] = i as i64);
            cpu.transpose(&copy, &back).unwrap()
        };
        let y =
            cpu.attention(&turned(&q), &turned(&k), &turned(&v), None, AttentionOptions::default()).unwrap();
        assert_near(&cpu, &y, &want, &format!("{perm:?}"));
    }
}

#[test]
fn what_may_not_be_attended_to_has_no_share() {
    let cpu = Cpu::new();
    let extents @ [b, h, g, s, t, d, e] = [1, 2, 2, 20, 20, 8, 8];
    let (q, k, mut v) = (numbers(b * h * s * d, 1), numbers(b * g * t * d, 2), numbers(b * g * t * e, 3));
    // Each query attends to the keys before it, and the first query to none.
    let seen = |query: usize, key: usize| key < query;
    let mask: Vec<f32> =
        (0..s * t).map(|i| if seen(i / t, i % t) { 0.0 } else { f32::NEG_INFINITY }).collect();
    let of = |shape: &[usize], x: &[f32]| array(&cpu, shape, x);
    let scale = 1.0 / (d as f64).sqrt();
    let bias = |[_, _, query, key]: [usize; 4]| if seen(query, key) { 0.0 } else { f64::NEG_INFINITY };
    let want = expected(extents, [&q, &k, &v], scale, bias);
    let y = cpu
        .attention(
            &of(&[b, h, s, d], &q),
            &of(&[b, g, t, d], &k),
            &of(&[b, g, t, e], &v),
            Some(&of(&[s, t], &mask)),
            AttentionOptions::default(),
        )
        .unwrap();
    assert_near(&cpu, &y, &want, "a mask");
    assert!(cpu.to_host(&y).unwrap().as_slice::<f32>().unwrap()[..e].iter().all(|&y| y == 0.0));

    // A NaN among the values affects the queries that attend to it.
    v[3 * e] = f32::NAN;
    let all = of(&[b, g, t, e], &v);
    let (q, k) = (of(&[b, h, s, d], &q), of(&[b, g, t, d], &k));
    let y = cpu.attention(&q, &k, &all, None, AttentionOptions::default()).unwrap();
    let host = cpu.to_host(&y).unwrap();
    for (i, row) in host.as_slice::<f32>().unwrap().chunks(e).enumerate() {
        assert_eq!(row[0].is_nan(), i < s, "{i}");
        assert!(row[1..].iter().all(|y| !y.is_nan()));
    }
}

#[test]
fn extents_that_do_not_fit_are_refused() {
    let cpu = Cpu::new();
    let of = |shape: &[usize]| array(&cpu, shape, &numbers(shape.iter().product(), 1));
    let call = |q: &[usize], k: &[usize], v: &[usize], bias: Option<&[usize]>| {
        let bias = bias.map(of);
        cpu.attention(&of(q), &of(k), &of(v), bias.as_ref(), AttentionOptions::default())
    };
    let (q, k) = ([1, 4, 3, 8], [1, 2, 5, 8]);
    assert!(call(&q, &k, &k, None).is_ok());
    assert!(call(&q, &k, &[1, 2, 6, 8], None).is_err(), "other numbers of keys and values");
    assert!(call(&q, &[1, 3, 5, 8], &[1, 3, 5, 8], None).is_err(), "heads that are not shared evenly");
    assert!(call(&q, &[1, 2, 5, 7], &k, None).is_err(), "keys of other lengths");
    assert!(call(&q, &k, &k, Some(&[3, 6])).is_err(), "a bias that does not fit");
    // Views that repeat one key and value so often that the scores exceed any memory.
    let many = |shape: &[usize]| cpu.expand(&of(shape), &[1, 2, 1 << 50, 8]).unwrap();
    let repeated = many(&[1, 2, 1, 8]);
    let q = of(&[1, 4, 12, 8]);
    assert!(cpu.attention(&q, &repeated, &repeated, None, AttentionOptions::default()).is_err());
    let empty = call(&[1, 4, 0, 8], &k, &k, None).unwrap();
    assert_eq!(empty.shape(), [1, 4, 0, 8]);
}
