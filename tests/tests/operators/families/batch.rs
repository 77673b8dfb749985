//! Tensors that are joined along a new dimension, taken apart, and padded to one length; attention without heads; losses with
//! their probabilities; penalties of tokens.

use super::each;
use bb::ext::{AttentionOptions, CrossEntropyWithProbabilitiesOptions, SampleTokenOptions};
use bb::{BackendHandle, DataType, TensorData, Value};

fn floats(on: &BackendHandle, shape: &[usize], elements: &[f32]) -> Value {
    on.tensor(shape, elements).unwrap()
}

/// The message of an error with its causes.
fn chain(error: &bb::Error) -> String {
    let all = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    all.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn read(x: &Value) -> (Vec<usize>, Vec<f32>) {
    (x.shape().to_vec(), x.to_host(1 << 20).unwrap().as_slice::<f32>().unwrap().to_vec())
}

/// NumPy's `stack`: element `[…, i, …]` of the result is element `[…]` of tensor `i`.
#[test]
fn tensors_are_stacked_along_any_dimension_and_taken_apart() {
    for on in each() {
        let [a, b] = [floats(&on, &[2, 2], &[1., 2., 3., 4.]), floats(&on, &[2, 2], &[5., 6., 7., 8.])];
        let cases: [(i64, [usize; 3], [f32; 8]); 4] = [
            (0, [2, 2, 2], [1., 2., 3., 4., 5., 6., 7., 8.]),
            (1, [2, 2, 2], [1., 2., 5., 6., 3., 4., 7., 8.]),
            (-1, [2, 2, 2], [1., 5., 2., 6., 3., 7., 4., 8.]),
            (-3, [2, 2, 2], [1., 2., 3., 4., 5., 6., 7., 8.]),
        ];
        for (axis, shape, elements) in cases {
            let stacked = Value::stack(&[&a, &b], axis).unwrap();
            assert_eq!(read(&stacked), (shape.to_vec(), elements.to_vec()), "{axis}");
            let parts = stacked.unstack(axis).unwrap();
            assert_eq!(parts.iter().map(read).collect::<Vec<_>>(), [read(&a), read(&b)], "{axis}");
        }
        let number = floats(&on, &[], &[3.]);
        assert_eq!(read(&on.stack(&[&number, &number, &number], 0).unwrap()), (vec![3], vec![3.; 3]));
        let none = floats(&on, &[0, 2], &[]);
        assert_eq!(on.stack(&[&none, &none], 1).unwrap().shape(), [0, 2, 2]);
        assert!(none.unstack(0).unwrap().is_empty());
        assert_eq!(none.unstack(1).unwrap()[0].shape(), [0]);
        for dtype in DataType::ALL.iter().copied().filter(|dtype| *dtype != DataType::String) {
            let x = on.runtime().constant(&TensorData::zeros(dtype, &[3], 64).unwrap()).unwrap();
            // A backend cannot stack elements that it cannot concatenate.
            if on.concat(&[&x, &x], 0).is_err() {
                assert!(on.stack(&[&x, &x], 0).is_err(), "{dtype}");
                continue;
            }
            let joined = on.stack(&[&x, &x], 0).unwrap();
            assert_eq!((joined.dtype(), joined.shape()), (dtype, &[2, 3][..]));
            assert_eq!(joined.unstack(1).unwrap().len(), 3);
        }
        for axis in [-4, 3] {
            assert!(on.stack(&[&a, &b], axis).is_err());
        }
        assert!(number.unstack(0).is_err() && on.stack(&[], 0).is_err());
        let text = |result: Result<Value, bb::Error>| chain(&result.unwrap_err());
        let shapes = text(on.stack(&[&a, &none], 0));
        assert!(shapes.contains("`stack`") && shapes.contains("[0, 2]"), "{shapes}");
        let ranks = text(on.stack(&[&a, &number], 0));
        assert!(ranks.contains("has rank 0, expected 2"), "{ranks}");
        let types = text(on.stack(&[&a, &on.tensor(&[2, 2], &[1i32; 4]).unwrap()], 0));
        assert!(types.contains("i32") && types.contains("f32"), "{types}");
    }
}

#[test]
fn a_batch_is_padded_to_the_longest_with_its_lengths() {
    for on in each() {
        let [a, b, c] =
            [floats(&on, &[1, 2], &[1., 2.]), floats(&on, &[3, 1], &[3., 4., 5.]), floats(&on, &[0, 2], &[])];
        let [batch, lengths] = &Value::pad_batch(&[&a, &b, &c], 0, -1.0).unwrap()[..] else { panic!() };
        let p = -1f32;
        let expected = vec![1., 2., p, p, p, p, 3., p, 4., p, 5., p, p, p, p, p, p, p];
        assert_eq!(read(batch), (vec![3, 3, 2], expected));
        assert_eq!(lengths.to_host(64).unwrap().as_slice::<i64>().unwrap(), [1, 3, 0]);
        let widths = &on.pad_batch(&[&a, &b], -1, 0.0).unwrap()[1];
        assert_eq!(widths.to_host(64).unwrap().as_slice::<i64>().unwrap(), [2, 1]);
        let whole = on.pad_batch(
            &[&on.tensor(&[2], &[1i32, 2]).unwrap(), &on.tensor(&[1], &[3i32]).unwrap()],
            0,
            9.0,
        );
        assert_eq!(whole.unwrap()[0].to_host(64).unwrap().as_slice::<i32>().unwrap(), [1, 2, 3, 9]);
        assert!(on.pad_batch(&[&a, &floats(&on, &[1], &[1.])], 0, 0.0).is_err());
        assert!(on.pad_batch(&[&floats(&on, &[], &[1.])], 0, 0.0).is_err());
        assert!(on.pad_batch(&[], 0, 0.0).is_err());
    }
}

/// One batch of one head, with a rank of 2 and 3, is the same as with a rank of 4.
#[test]
fn attention_takes_operands_without_heads_or_says_which_rank_it_takes() {
    for on in each() {
        let element = |seed: usize| move |i: usize| ((i * 7 + seed * 5) % 11) as f32 / 11.0;
        let make = |shape: &[usize], seed: usize| {
            let all: Vec<f32> = (0..shape.iter().product()).map(element(seed)).collect();
            floats(&on, shape, &all)
        };
        let (q, k, v, bias) =
            (make(&[2, 1, 3, 4], 1), make(&[2, 1, 5, 4], 2), make(&[2, 1, 5, 2], 3), make(&[2, 1, 3, 5], 4));
        let how = AttentionOptions::default();
        let whole = q.attention(&k, &v, Some(&bias), how).unwrap();
        let without = |x: &Value| x.squeeze(&[1]).unwrap();
        let three = without(&q).attention(&without(&k), &without(&v), Some(&without(&bias)), how).unwrap();
        assert_eq!(read(&three), read(&without(&whole)));
        let first = |x: &Value| without(x).slice(&[0], &[1], &[0], &[1]).unwrap().squeeze(&[0]).unwrap();
        let two = first(&q).attention(&first(&k), &first(&v), Some(&first(&bias)), how).unwrap();
        assert_eq!(read(&two), read(&first(&whole)));
        let text = |result: Result<Value, bb::Error>| chain(&result.unwrap_err());
        let five = q.unsqueeze(&[0]).unwrap();
        assert!(text(five.attention(&five, &five, None, how)).contains("has rank 5, expected 4"));
        let mixed = text(q.attention(&without(&k), &v, None, how));
        assert!(mixed.contains("k has") && mixed.contains("has rank 3, expected 4"), "{mixed}");
    }
}

/// The probabilities of a softmax, and the negative logarithm of the label's probability.
#[test]
fn a_cross_entropy_comes_with_its_probabilities() {
    for on in each() {
        let scores = [[1f64, 2.0, 0.5], [-1.0, 0.0, 3.0]];
        let x = floats(&on, &[2, 3], &scores.concat().iter().map(|&x| x as f32).collect::<Vec<_>>());
        let labels = on.tensor(&[2], &[1i32, 0]).unwrap();
        let shares = scores.map(|row| {
            let sum: f64 = row.iter().map(|x| x.exp()).sum();
            row.map(|x| x.exp() / sum)
        });
        let expected = -(shares[0][1].ln() + shares[1][0].ln()) / 2.0;
        let how = CrossEntropyWithProbabilitiesOptions::default();
        let [loss, found] = &x.cross_entropy_with_probabilities(&labels, None, how).unwrap()[..] else {
            panic!()
        };
        assert!((f64::from(read(loss).1[0]) - expected).abs() < 1e-6);
        assert_eq!(found.shape(), [2, 3]);
        for (found, expected) in read(found).1.into_iter().zip(shares.concat()) {
            assert!((f64::from(found) - expected).abs() < 1e-6, "{found}, not {expected}");
        }
    }
}

/// OpenAI: a logit loses `frequency_penalty` for each time that the token is there, and `presence_penalty` once.
#[test]
fn tokens_lose_by_how_often_they_were_there() {
    for on in each() {
        let logits = floats(&on, &[4], &[3.0, 2.9, 2.0, 1.0]);
        let previous = on.tensor(&[5], &[0i64, 0, 1, -1, 0]).unwrap();
        let greedy = |frequency_penalty, presence_penalty, repetition_penalty| {
            let how = SampleTokenOptions {
                temperature: 0.0,
                frequency_penalty,
                presence_penalty,
                repetition_penalty,
                ..SampleTokenOptions::default()
            };
            logits
                .sample_token(Some(&previous), how)
                .map(|x| x.to_host(8).unwrap().as_slice::<i64>().unwrap()[0])
        };
        assert_eq!(greedy(0.0, 0.0, 1.0).unwrap(), 0);
        // 3 - 3 * 0.1 = 2.7, 2.9 - 0.1 = 2.8.
        assert_eq!(greedy(0.1, 0.0, 1.0).unwrap(), 1);
        // 3 - 0.5 = 2.5, 2.9 - 0.5 = 2.4: both lose the same.
        assert_eq!(greedy(0.0, 0.5, 1.0).unwrap(), 0);
        assert_eq!(greedy(0.0, 1.5, 1.0).unwrap(), 2);
        // 3 / 1.1 - 3 * 0.05 = 2.577, 2.9 / 1.1 - 0.05 = 2.586: divided first.
        assert_eq!(greedy(0.05, 0.0, 1.1).unwrap(), 1);
        assert_eq!(greedy(-0.1, 0.0, 1.0).unwrap(), 0);
        assert!(greedy(f64::NAN, 0.0, 1.0).is_err() && greedy(0.0, f64::INFINITY, 1.0).is_err());
    }
}

/// Parameters of filters are numbers of any width, or of a type that is known only at run time.
#[test]
fn filters_take_any_number() {
    for on in each() {
        let x = floats(&on, &[1, 1, 2], &[0.25, 0.5]);
        let twice = (vec![1, 1, 2], vec![0.5, 1.0]);
        for doubled in [x.brightness(2), x.brightness(2.0), x.brightness(2f32), x.brightness(2u8)] {
            assert_eq!(read(&doubled.unwrap()), twice);
        }
        assert_eq!(read(&x.brightness(bb::Number::from(2)).unwrap()), twice);
        assert_eq!(read(&on.brightness(&x, bb::Number::from(2.0)).unwrap()), twice);
        let error = x.brightness(bb::Number::from("much")).unwrap_err();
        assert!(matches!(error, bb::Error::Number(_)), "{error:?}");
        assert_eq!(error.to_string(), "`much` is a text, expected a number");
        assert_eq!(read(&x.threshold(bb::Number::from(0.3)).unwrap()).1, [0.0, 1.0]);
    }
}
