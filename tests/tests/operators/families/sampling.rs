//! Tests of drawing tokens: the candidates, their probabilities, and the seed.

use super::each;
use bb::ext::SampleTokenOptions;
use bb::{BackendHandle, DataType, RoundMode, Value};

fn options() -> SampleTokenOptions {
    SampleTokenOptions::default()
}

fn draw(logits: &Value, previous: Option<&Value>, options: SampleTokenOptions) -> Vec<i64> {
    let tokens = logits.sample_token(previous, options).unwrap();
    assert_eq!(tokens.dtype(), DataType::I64);
    assert_eq!(tokens.shape(), &logits.shape()[..logits.rank() - 1]);
    tokens.to_host(1 << 20).unwrap().as_slice::<i64>().unwrap().to_vec()
}

/// Draws one token per row, all from the same logits.
fn drawn(on: &BackendHandle, logits: &[f32], rows: usize, seed: i64, how: SampleTokenOptions) -> Vec<i64> {
    let all = on.tensor(&[rows, logits.len()], &logits.repeat(rows)).unwrap();
    draw(&all, None, SampleTokenOptions { seed: Some(seed), ..how })
}

/// Logits whose exponentials are the probabilities 0.4, 0.3, 0.2 and 0.1, out of order.
fn four() -> [f32; 4] {
    [0.2f32, 0.4, 0.1, 0.3].map(f32::ln)
}

fn seen(tokens: &[i64]) -> Vec<i64> {
    let mut seen = tokens.to_vec();
    seen.sort_unstable();
    seen.dedup();
    seen
}

#[test]
fn a_temperature_of_0_takes_the_first_of_the_most_probable_tokens() {
    for on in each() {
        let logits =
            on.tensor(&[3, 4], &[1f32, 3., 2., 3., -1., -2., -1., -3., 0., f32::INFINITY, 1., 2.]).unwrap();
        let greedy = SampleTokenOptions { temperature: 0.0, ..options() };
        assert_eq!(draw(&logits, None, greedy), [1, 0, 1]);
        // Neither the seed nor the number of tokens matters.
        assert_eq!(
            draw(&logits, None, SampleTokenOptions { seed: Some(5), top_k: 3, top_p: 0.5, ..greedy }),
            [1, 0, 1]
        );
        let vector = on.tensor(&[4], &[0f32, 1., -0., 0.5]).unwrap();
        assert_eq!(draw(&vector, None, greedy), [1]);
        let zeros = on.tensor(&[2], &[-0f32, 0.]).unwrap();
        assert_eq!(draw(&zeros, None, greedy), [0]);
    }
}

#[test]
fn one_token_is_drawn_if_only_one_may_be() {
    for on in each() {
        let one = [
            SampleTokenOptions { top_k: 1, ..options() },
            SampleTokenOptions { top_p: 0.0, ..options() },
            SampleTokenOptions { temperature: 1e-3, ..options() },
        ];
        for how in one {
            assert_eq!(seen(&drawn(&on, &four(), 100, 3, how)), [1], "{how:?}");
        }
        let logits = [f32::NEG_INFINITY, 2.0, f32::NEG_INFINITY];
        assert_eq!(seen(&drawn(&on, &logits, 100, 3, options())), [1]);
        assert_eq!(seen(&drawn(&on, &[0.0], 10, 3, options())), [0]);
    }
}

/// By the definitions: of the probabilities 0.4, 0.3, 0.2 and 0.1, the first two reach 0.65, the first three 0.75.
#[test]
fn the_most_probable_tokens_stay() {
    for on in each() {
        for (how, expected) in [
            (SampleTokenOptions { top_k: 2, ..options() }, vec![1, 3]),
            (SampleTokenOptions { top_k: 100, ..options() }, vec![0, 1, 2, 3]),
            (SampleTokenOptions { top_k: 0, ..options() }, vec![0, 1, 2, 3]),
            (SampleTokenOptions { top_p: 0.3, ..options() }, vec![1]),
            (SampleTokenOptions { top_p: 0.65, ..options() }, vec![1, 3]),
            (SampleTokenOptions { top_p: 0.75, ..options() }, vec![0, 1, 3]),
            (SampleTokenOptions { top_p: 0.95, ..options() }, vec![0, 1, 2, 3]),
            (SampleTokenOptions { top_p: 1.0, ..options() }, vec![0, 1, 2, 3]),
            // Of the three most probable, with 4/9, 3/9 and 2/9, two reach 0.75.
            (SampleTokenOptions { top_k: 3, top_p: 0.75, ..options() }, vec![1, 3]),
        ] {
            assert_eq!(seen(&drawn(&on, &four(), 500, 1, how)), expected, "{how:?}");
        }
        // Of equal tokens the first ones stay.
        let how = SampleTokenOptions { top_k: 2, ..options() };
        assert_eq!(seen(&drawn(&on, &[0.5; 5], 200, 1, how)), [0, 1]);
    }
}

/// The statistic of Pearson's test for tokens with these probabilities.
fn chi_square(tokens: &[i64], probabilities: &[f64]) -> f64 {
    let n = tokens.len() as f64;
    let term = |(token, p): (i64, &f64)| {
        let count = tokens.iter().filter(|&&t| t == token).count() as f64;
        (count - n * p).powi(2) / (n * p)
    };
    (0..).zip(probabilities).filter(|(_, p)| **p > 0.0).map(term).sum()
}

/// The quantile of 99.9% of the chi-square distribution with 1, 2 and 3 degrees of freedom. Source: tables of the distribution.
const QUANTILES: [f64; 3] = [10.828, 13.816, 16.266];

#[test]
fn tokens_have_the_probabilities_of_the_softmax() {
    // The host draws the same way for each backend.
    let on = each().next().unwrap();
    // The probabilities to the power 1 / temperature, normalised.
    let warm = |t: f64| {
        let powers = [0.2f64, 0.4, 0.1, 0.3].map(|p| p.powf(1.0 / t));
        let sum: f64 = powers.iter().sum();
        powers.map(|p| p / sum)
    };
    let cases = [
        (options(), [0.2, 0.4, 0.1, 0.3], 3),
        (SampleTokenOptions { temperature: 0.5, ..options() }, warm(0.5), 3),
        (SampleTokenOptions { temperature: 2.0, ..options() }, warm(2.0), 3),
        (SampleTokenOptions { top_k: 3, ..options() }, [2.0 / 9.0, 4.0 / 9.0, 0.0, 3.0 / 9.0], 2),
        (SampleTokenOptions { top_p: 0.65, ..options() }, [0.0, 4.0 / 7.0, 0.0, 3.0 / 7.0], 1),
    ];
    for (how, probabilities, freedom) in cases {
        for seed in [1, 2, 3] {
            let tokens = drawn(&on, &four(), 20_000, seed, how);
            let statistic = chi_square(&tokens, &probabilities);
            assert!(statistic < QUANTILES[freedom - 1], "{how:?}, seed {seed}: {statistic}");
        }
        // Seeds that follow each other give independent tokens too: this is how texts are generated.
        let tokens: Vec<i64> = (0..5000).flat_map(|seed| drawn(&on, &four(), 1, seed, how)).collect();
        let statistic = chi_square(&tokens, &probabilities);
        assert!(statistic < QUANTILES[freedom - 1], "{how:?}, a seed each: {statistic}");
    }
}

#[test]
fn equal_seeds_draw_equal_tokens_on_every_backend() {
    let first: Vec<Vec<i64>> = each().map(|on| drawn(&on, &four(), 50, 7, options())).collect();
    assert!(first.iter().all(|tokens| *tokens == first[0]));
    for on in each() {
        assert_ne!(drawn(&on, &four(), 50, 8, options()), first[0]);
        let all = on.tensor(&[50, 4], &four().repeat(50)).unwrap();
        let draws = [draw(&all, None, options()), draw(&all, None, options())];
        assert_ne!(draws[0], draws[1], "without a seed");
    }
}

/// Source: `RandomState(7).rand(3)` of NumPy is 0.0763, 0.7799 and 0.4384. The most probable tokens come first: below 0.4 it is
/// token 1, below 0.7 token 3, below 0.9 token 0.
#[test]
fn each_row_takes_the_next_number_of_the_generator() {
    for on in each() {
        assert_eq!(drawn(&on, &four(), 3, 7, options()), [1, 0, 3]);
    }
}

#[test]
fn tokens_that_were_there_become_less_probable_once() {
    let greedy = SampleTokenOptions { temperature: 0.0, repetition_penalty: 2.0, ..options() };
    for on in each() {
        let logits = on.tensor(&[4], &[3f32, 2., 1., -1.]).unwrap();
        let previous = |tokens: &[i64]| on.tensor(&[tokens.len()], tokens).unwrap();
        assert_eq!(draw(&logits, Some(&previous(&[])), greedy), [0]);
        // 3 / 2 is below 2. Repetitions do not count, and neither do negative tokens.
        assert_eq!(draw(&logits, Some(&previous(&[0, 0, -1])), greedy), [1]);
        assert_eq!(draw(&logits, Some(&previous(&[0, 1])), greedy), [0]);
        // A negative logit is multiplied.
        let negative = on.tensor(&[2], &[-1f32, -1.5]).unwrap();
        assert_eq!(draw(&negative, Some(&previous(&[0])), greedy), [1]);
        // Each row has its own, also of 32 bits.
        let rows = on.tensor(&[2, 2], &[2f32, 1.5, 2., 1.5]).unwrap();
        let own = on.tensor(&[2, 1], &[0i32, 1]).unwrap();
        assert_eq!(draw(&rows, Some(&own), greedy), [1, 0]);
    }
}

#[test]
fn every_float_and_shape_is_drawn_from() {
    for on in each() {
        for dtype in [DataType::F16, DataType::BF16, DataType::F32, DataType::F64] {
            let logits = on.tensor(&[2, 1, 3], &[0f32, 9., 0., 9., 0., 0.]).unwrap();
            let logits = logits.cast(dtype, true, RoundMode::Up).unwrap();
            assert_eq!(draw(&logits, None, SampleTokenOptions { top_k: 1, ..options() }), [1, 0]);
        }
        let none = on.tensor::<f32>(&[0, 3], &[]).unwrap();
        assert_eq!(draw(&none, None, options()), [0i64; 0]);
        // Infinite logits share all probability.
        let infinite = [f32::INFINITY, 5.0, f32::INFINITY];
        assert_eq!(seen(&drawn(&on, &infinite, 100, 1, options())), [0, 2]);
    }
}
