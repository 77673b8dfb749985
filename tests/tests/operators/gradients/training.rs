//! Tests losses and optimizers against formulas of ONNX and of PyTorch, written out for numbers, and operations that create tensors.

use super::{host, wide};
use bb::ext::{
    AdagradOptions, AdamEpsilon, AdamOptions, Create, CrossEntropyOfProbabilitiesOptions,
    CrossEntropyOptions, MomentumOptions, Ops, Reduction, Train,
};
use bb::{Backend, DataType, Tensor};

const LOG: [[f64; 3]; 2] = [[0.2, -1.3, 0.9], [2.0, 0.1, -0.4]];

/// The logarithms of the softmax of each row.
fn log_softmax() -> Vec<Vec<f64>> {
    let row = |row: &[f64; 3]| {
        let sum: f64 = row.iter().map(|x| x.exp()).sum();
        row.iter().map(|x| x - sum.ln()).collect()
    };
    LOG.iter().map(row).collect()
}

fn near(got: &[f64], expected: &[f64]) {
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(expected) {
        assert!((got - expected).abs() <= 1e-12 * (1.0 + expected.abs()), "{got} {expected}");
    }
}

#[test]
fn cross_entropy_reduces_weights_and_ignores() {
    let (on, log) = (host(), log_softmax());
    let x = on.host(&[2, 3], LOG.as_flattened()).unwrap();
    let labels = on.host(&[2], &[2i32, 0]).unwrap();
    let weights = on.host(&[3], &[0.5f64, 1.0, 3.0]).unwrap();
    let get = |reduction: Reduction, weights, ignored| {
        let options = CrossEntropyOptions { reduction, ignored };
        wide(&on.to_host(&on.cross_entropy(&x, &labels, weights, options).unwrap()).unwrap()).unwrap()
    };
    let (a, b) = (-log[0][2], -log[1][0]);
    near(&get(Reduction::None, None, None), &[a, b]);
    near(&get(Reduction::Sum, None, None), &[a + b]);
    near(&get(Reduction::Mean, None, None), &[(a + b) / 2.0]);
    near(&get(Reduction::Mean, Some(&weights), None), &[(3.0 * a + 0.5 * b) / 3.5]);
    near(&get(Reduction::Mean, Some(&weights), Some(2)), &[b]);
    near(&get(Reduction::None, None, Some(0)), &[a, 0.0]);
    let bytes = on.host(&[2], &[2u8, 0]).unwrap();
    let options = CrossEntropyOptions { ignored: Some(0), ..CrossEntropyOptions::default() };
    let y = on.cross_entropy(&x, &bytes, None, options).unwrap();
    near(&wide(&on.to_host(&y).unwrap()).unwrap(), &[a]);
    let far = on.host(&[2], &[2i32, 3]).unwrap();
    assert!(on.cross_entropy(&x, &far, None, CrossEntropyOptions::default()).is_err());
    assert!(on.cross_entropy(&labels, &labels, None, CrossEntropyOptions::default()).is_err());
}

#[test]
fn probabilities_are_targets_as_in_pytorch() {
    let (on, log) = (host(), log_softmax());
    let targets = [[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]];
    let x = on.host(&[2, 3], LOG.as_flattened()).unwrap();
    let t = on.host(&[2, 3], targets.as_flattened()).unwrap();
    let weights = [0.5f64, 1.0, 3.0];
    let w = on.host(&[3], &weights).unwrap();
    for smoothing in [0.0, 0.1] {
        let loss = |row: usize, weighted: bool| -> f64 {
            (0..3)
                .map(|c| {
                    let target = targets[row][c] * (1.0 - smoothing) + smoothing / 3.0;
                    -target * log[row][c] * if weighted { weights[c] } else { 1.0 }
                })
                .sum()
        };
        for (weighted, operand) in [(false, None), (true, Some(&w))] {
            let losses = [loss(0, weighted), loss(1, weighted)];
            for (reduction, expected) in [
                (Reduction::None, losses.to_vec()),
                (Reduction::Sum, vec![losses[0] + losses[1]]),
                // The number of losses divides, also with weights.
                (Reduction::Mean, vec![(losses[0] + losses[1]) / 2.0]),
            ] {
                let options = CrossEntropyOfProbabilitiesOptions { reduction, smoothing };
                let y = on.cross_entropy_of_probabilities(&x, &t, operand, options).unwrap();
                near(&wide(&on.to_host(&y).unwrap()).unwrap(), &expected);
            }
        }
    }
}

/// Three updates of one number, as the pages of both projects write them.
#[test]
fn adam_adds_epsilon_where_onnx_or_pytorch_does() {
    let on = host();
    let (rate, beta1, beta2, epsilon) = (0.1f64, 0.9f64, 0.99f64, 1e-2f64);
    for at in [AdamEpsilon::Onnx, AdamEpsilon::PyTorch] {
        let (mut x, mut m, mut v) = (1.5f64, 0.0f64, 0.0f64);
        let one = |x: f64| on.host(&[1], &[x]).unwrap();
        let mut state = vec![one(x), one(m), one(v)];
        for t in 1..=3 {
            let g = 0.3 * f64::from(t) - 0.1;
            m = beta1 * m + (1.0 - beta1) * g;
            v = beta2 * v + (1.0 - beta2) * g * g;
            let (c1, c2) = (1.0 - beta1.powi(t), 1.0 - beta2.powi(t));
            x -= match at {
                AdamEpsilon::Onnx => rate * c2.sqrt() / c1 * m / (v.sqrt() + epsilon),
                AdamEpsilon::PyTorch => rate * (m / c1) / ((v / c2).sqrt() + epsilon),
            };
            let options = AdamOptions {
                decay: beta1,
                decay_squares: beta2,
                epsilon,
                epsilon_at: at,
                ..AdamOptions::default()
            };
            let count = on.host(&[], &[i64::from(t)]).unwrap();
            state = on.adam(&state[0], &one(g), &state[1], &state[2], &one(rate), &count, options).unwrap();
            let got: Vec<f64> = state.iter().flat_map(|x| wide(&on.to_host(x).unwrap()).unwrap()).collect();
            near(&got, &[x, m, v]);
        }
    }
    let x = on.host(&[1], &[0f64]).unwrap();
    let two = on.host(&[2], &[0f64; 2]).unwrap();
    assert!(on.adam(&x, &two, &x, &x, &x, &x, AdamOptions::default()).is_err());
}

#[test]
fn other_optimizers_follow_their_formulas() {
    let on = host();
    let one = |x: f64| on.host(&[1], &[x]).unwrap();
    let get =
        |x: &[_]| -> Vec<f64> { x.iter().flat_map(|x| wide(&on.to_host(x).unwrap()).unwrap()).collect() };
    let (x, g, kept, rate) = (1.5, 0.4, 0.2, 0.1);
    let count = on.host(&[], &[3i64]).unwrap();
    let p = g + 0.01 * x;

    let y = on.sgd(&one(x), &one(g), &one(rate), 0.01).unwrap();
    near(&get(&[y]), &[x - rate * p]);

    let options = AdagradOptions { decay: 0.5, epsilon: 1e-10, penalty: 0.01 };
    let y = on.adagrad(&one(x), &one(g), &one(kept), &one(rate), &count, options).unwrap();
    let squares: f64 = kept + p * p;
    near(&get(&y), &[x - rate / 2.5 * p / (squares.sqrt() + 1e-10), squares]);

    for nesterov in [false, true] {
        let options = MomentumOptions { decay: 0.8, share: 0.7, nesterov, penalty: 0.01 };
        let y = on.momentum(&one(x), &one(g), &one(kept), &one(rate), &count, options).unwrap();
        let speed = 0.8 * kept + 0.7 * p;
        let step = if nesterov { p + 0.8 * speed } else { speed };
        near(&get(&y), &[x - rate * step, speed]);
        let first = on.host(&[], &[0i64]).unwrap();
        let y = on.momentum(&one(x), &one(g), &one(kept), &one(rate), &first, options).unwrap();
        near(&get(&y[1..]), &[0.8 * kept + p]);
    }
}

#[test]
fn tensors_are_made_as_numpy_makes_them() {
    let on = host();
    let get = |x| wide(&on.to_host(&x).unwrap()).unwrap();
    assert_eq!(get(on.eye(2, 3, 0, DataType::F32).unwrap()), [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    assert_eq!(get(on.eye(2, 3, 1, DataType::I64).unwrap()), [0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
    assert_eq!(get(on.eye(3, 2, -1, DataType::F64).unwrap()), [0.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
    assert_eq!(on.eye(0, 2, 0, DataType::Bool).unwrap().shape(), [0, 2]);
    assert!(on.eye(-1, 2, 0, DataType::F32).is_err());
    assert_eq!(get(on.linspace(0.0, 1.0, 5, DataType::F64).unwrap()), [0.0, 0.25, 0.5, 0.75, 1.0]);
    assert_eq!(get(on.linspace(2.0, 3.0, 1, DataType::F64).unwrap()), [2.0]);
    assert_eq!(get(on.linspace(0.0, -5.0, 4, DataType::I32).unwrap()), [0.0, -1.0, -3.0, -5.0]);
    assert_eq!(get(on.linspace(0.0, 1.0, 0, DataType::F32).unwrap()), [0.0; 0]);
    assert!(on.linspace(0.0, 1.0, -1, DataType::F32).is_err());
    let x = on.host(&[2, 1], &[1i64, 2]).unwrap();
    let made = [on.zeros_like(&x, None), on.ones_like(&x, Some(DataType::F32)), on.full_like(&x, 7.0, None)];
    let [zeros, ones, full] = made.map(Result::unwrap);
    assert_eq!((zeros.dtype(), ones.dtype(), full.dtype()), (DataType::I64, DataType::F32, DataType::I64));
    assert_eq!((get(zeros), get(ones), get(full)), (vec![0.0; 2], vec![1.0; 2], vec![7.0; 2]));
    let empty = on.empty(&[2, 2], DataType::String).unwrap();
    assert_eq!((empty.dtype(), empty.shape()), (DataType::String, &[2usize, 2][..]));
}
