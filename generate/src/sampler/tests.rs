#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use super::*;

const LOGITS: [f32; 5] = [1.0, 3.0, 2.0, -1.0, 0.5];

/// Counts how often each token occurs in 4000 samples.
fn drawn(options: &Sampling) -> [usize; 5] {
    let mut sampler = Sampler::new(&Sampling { seed: Some(7), ..options.clone() }).unwrap();
    let mut counts = [0; 5];
    for _ in 0..4000 {
        counts[sampler.choose(&LOGITS, &[], &[]).unwrap() as usize] += 1;
    }
    counts
}

fn warm() -> Sampling {
    Sampling { temperature: 1.0, ..Default::default() }
}

#[test]
fn the_default_takes_the_most_probable_token_and_of_equal_ones_the_first() {
    let mut sampler = Sampler::new(&Sampling::default()).unwrap();
    assert_eq!(sampler.choose(&LOGITS, &[], &[]).unwrap(), 1);
    assert_eq!(sampler.choose(&[2.0, 5.0, 5.0], &[], &[]).unwrap(), 1);
}

/// Compares the frequencies of sampled tokens with the definition, within four standard deviations.
#[test]
fn tokens_are_drawn_by_their_probability() {
    for temperature in [0.7, 1.0, 2.0] {
        let counts = drawn(&Sampling { temperature, ..Default::default() });
        let weight = LOGITS.map(|x| (f64::from(x) / temperature).exp());
        let sum: f64 = weight.iter().sum();
        for (count, weight) in counts.iter().zip(weight) {
            let p = weight / sum;
            let bound = 4.0 * (4000.0 * p * (1.0 - p)).sqrt() + 1.0;
            assert!((*count as f64 - 4000.0 * p).abs() < bound, "{temperature}: {counts:?}");
        }
    }
}

/// The softmax of the logits is 0.0826, 0.6103, 0.2245, 0.0112 and 0.0501...
#[test]
fn each_option_leaves_the_tokens_of_its_definition() {
    let left = |options: &Sampling| drawn(options).map(|count| count > 0);
    assert_eq!(left(&warm()), [true; 5]);
    assert_eq!(left(&Sampling { top_k: 2, ..warm() }), [false, true, true, false, false]);
    assert_eq!(left(&Sampling { top_p: 0.6, ..warm() }), [false, true, false, false, false]);
    assert_eq!(left(&Sampling { top_p: 0.7, ..warm() }), [false, true, true, false, false]);
    assert_eq!(left(&Sampling { min_p: 0.3, ..warm() }), [false, true, true, false, false]);
    assert_eq!(left(&Sampling { min_p: 0.1, ..warm() }), [true, true, true, false, false]);
    // The entropy is 1.07. A surprise of 1.49 is nearest to it, then 0.49, then 2.49.
    assert_eq!(left(&Sampling { typical: 0.1, ..warm() }), [false, false, true, false, false]);
    assert_eq!(left(&Sampling { top_p: 0.0, ..warm() }), [false, true, false, false, false]);
}

#[test]
fn penalties_and_bias_change_logits_as_defined() {
    let choose = |options: Sampling, prompt: &[u32], generated: &[u32]| {
        Sampler::new(&options).unwrap().choose(&LOGITS, prompt, generated).unwrap()
    };
    let none = Sampling::default;
    assert_eq!(choose(Sampling { repetition_penalty: 1.4, ..none() }, &[1], &[]), 1);
    assert_eq!(choose(Sampling { repetition_penalty: 1.6, ..none() }, &[1], &[]), 2);
    assert_eq!(choose(Sampling { repetition_penalty: 1.6, penalty_last: 1, ..none() }, &[1], &[0]), 1);
    assert_eq!(choose(Sampling { presence_penalty: 1.5, ..none() }, &[1], &[]), 1);
    assert_eq!(choose(Sampling { presence_penalty: 1.5, ..none() }, &[], &[1]), 2);
    assert_eq!(choose(Sampling { frequency_penalty: 0.6, ..none() }, &[], &[1]), 1);
    assert_eq!(choose(Sampling { frequency_penalty: 0.6, ..none() }, &[], &[1, 1]), 2);
    assert_eq!(choose(Sampling { bias: vec![(3, 9.0), (99, 1.0)], ..none() }, &[], &[]), 3);
    let never = vec![(1, f64::NEG_INFINITY)];
    assert_eq!(choose(Sampling { bias: never, ..none() }, &[], &[]), 2);
}

#[test]
fn equal_seeds_draw_equal_tokens() {
    let mut a = Sampler::new(&Sampling { seed: Some(3), ..warm() }).unwrap();
    let mut b = Sampler::new(&Sampling { seed: Some(3), ..warm() }).unwrap();
    for _ in 0..50 {
        assert_eq!(a.choose(&LOGITS, &[], &[]).unwrap(), b.choose(&LOGITS, &[], &[]).unwrap());
    }
}

#[test]
fn what_is_out_of_range_is_refused() {
    for options in [
        Sampling { temperature: -1.0, ..warm() },
        Sampling { temperature: f64::NAN, ..warm() },
        Sampling { top_p: 1.5, ..warm() },
        Sampling { repetition_penalty: 0.0, ..warm() },
        Sampling { bias: vec![(0, f64::NAN)], ..warm() },
    ] {
        assert!(matches!(Sampler::new(&options), Err(Error::Option { .. })), "{options:?}");
    }
    for temperature in [0.0, 1.0] {
        let mut sampler = Sampler::new(&Sampling { temperature, ..Default::default() }).unwrap();
        let nothing = [f32::NEG_INFINITY; 3];
        assert!(matches!(sampler.choose(&nothing, &[], &[]), Err(Error::NoneLeft)));
        assert!(matches!(sampler.choose(&[], &[], &[]), Err(Error::NoneLeft)));
        let odd = [0.0, f32::NAN];
        assert!(matches!(sampler.choose(&odd, &[], &[]), Err(Error::Logit { token: 1, .. })));
    }
}

#[test]
fn logarithms_of_probabilities_are_those_of_the_softmax() {
    let (chosen, top) = log_probabilities(&LOGITS, 2, 2);
    let sum: f64 = LOGITS.iter().map(|&x| f64::from(x).exp()).sum();
    assert!((chosen.log_probability - (2.0 - sum.ln())).abs() < 1e-6);
    assert_eq!(top.iter().map(|x| x.token).collect::<Vec<_>>(), [1, 2]);
    assert!((top[0].log_probability - (3.0 - sum.ln())).abs() < 1e-6);
}
