//! Choosing a token by its logits.

use crate::{Error, Sampling};
use bb::ext::Mersenne;
use std::collections::HashMap;

/// The logarithm of the probability of a token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogProbability {
    /// The token.
    pub token: u32,
    /// The natural logarithm of its probability, before penalties, bias and temperature.
    pub log_probability: f64,
}

/// A token with its logit, or with its probability.
type Scored = (usize, f64);

/// Chooses tokens, each with the next numbers of one generator.
#[derive(Debug)]
pub(crate) struct Sampler {
    options: Sampling,
    random: Mersenne,
}

impl Sampler {
    pub(crate) fn new(options: &Sampling) -> Result<Sampler, Error> {
        options.check()?;
        let random = options.seed.map_or_else(Mersenne::unseeded, Mersenne::new);
        Ok(Sampler { options: options.clone(), random })
    }

    /// Returns a number of 53 bits from 0 on, below 1.
    fn uniform(&mut self) -> f64 {
        let (high, low) = (self.random.bits() >> 5, self.random.bits() >> 6);
        (f64::from(high) * f64::from(1u32 << 26) + f64::from(low)) / (1u64 << 53) as f64
    }

    /// Chooses a token. `prompt` and `generated` are the tokens before it.
    pub(crate) fn choose(&mut self, logits: &[f32], prompt: &[u32], generated: &[u32]) -> Result<u32, Error> {
        let mut scored = checked(logits)?;
        self.adjust(&mut scored, prompt, generated);
        let token = if self.options.temperature == 0.0 { most(&scored) } else { self.draw(scored) };
        let token = token.ok_or(Error::NoneLeft)?;
        u32::try_from(token).map_err(|_| Error::Internal { what: "a token is beyond 32 bits" })
    }

    /// Adds the bias and subtracts the penalties.
    fn adjust(&self, scored: &mut [Scored], prompt: &[u32], generated: &[u32]) {
        let o = &self.options;
        let mut change = |token: u32, f: &dyn Fn(f64) -> f64| {
            if let Some((_, logit)) = scored.get_mut(token as usize) {
                *logit = f(*logit);
            }
        };
        for &(token, bias) in &o.bias {
            change(token, &|logit| logit + bias);
        }
        if o.repetition_penalty != 1.0 {
            let last = if o.penalty_last == 0 { usize::MAX } else { o.penalty_last };
            let seen: std::collections::HashSet<u32> =
                generated.iter().rev().chain(prompt.iter().rev()).take(last).copied().collect();
            for token in seen {
                let by = o.repetition_penalty;
                change(token, &|logit| if logit > 0.0 { logit / by } else { logit * by });
            }
        }
        if o.presence_penalty != 0.0 || o.frequency_penalty != 0.0 {
            let mut counts: HashMap<u32, f64> = HashMap::new();
            for token in generated {
                *counts.entry(*token).or_default() += 1.0;
            }
            for (token, count) in counts {
                change(token, &|logit| logit - o.presence_penalty - o.frequency_penalty * count);
            }
        }
    }

    /// Draws one of the tokens that the options leave.
    fn draw(&mut self, mut scored: Vec<Scored>) -> Option<usize> {
        let &Sampling { temperature, top_k, top_p, min_p, typical, .. } = &self.options;
        for (_, logit) in &mut scored {
            *logit /= temperature;
        }
        if top_k > 0 && top_k < scored.len() {
            scored.select_nth_unstable_by(top_k - 1, probable);
            scored.truncate(top_k);
        }
        scored.sort_unstable_by(probable);
        probabilities(&mut scored)?;
        if typical < 1.0 {
            let entropy: f64 = scored.iter().filter(|(_, p)| *p > 0.0).map(|(_, p)| -p * p.ln()).sum();
            let far = |&(_, p): &Scored| (-p.ln() - entropy).abs();
            scored.sort_by(|a, b| far(a).total_cmp(&far(b)));
            reaching(&mut scored, typical);
            scored.sort_unstable_by(probable);
            normalize(&mut scored);
        }
        if top_p < 1.0 {
            reaching(&mut scored, top_p);
            normalize(&mut scored);
        }
        if min_p > 0.0 {
            let least = scored.first().map_or(0.0, |(_, p)| p * min_p);
            scored.retain(|(_, p)| *p >= least);
        }
        let mut left = self.uniform() * scored.iter().map(|(_, p)| p).sum::<f64>();
        let chosen = scored.iter().find(|(_, p)| {
            left -= p;
            left < 0.0
        });
        // The sum of rounded parts may be less than the whole.
        chosen.or_else(|| scored.iter().rev().find(|(_, p)| *p > 0.0)).map(|(token, _)| *token)
    }
}

/// Orders the more probable first, and of equal ones the lower token.
fn probable(a: &Scored, b: &Scored) -> std::cmp::Ordering {
    b.1.total_cmp(&a.1).then(a.0.cmp(&b.0))
}

fn most(scored: &[Scored]) -> Option<usize> {
    let best = scored.iter().min_by(|a, b| probable(a, b))?;
    (best.1 > f64::NEG_INFINITY).then_some(best.0)
}

/// Numbers logits, and refuses what is none.
fn checked(logits: &[f32]) -> Result<Vec<Scored>, Error> {
    match logits.iter().position(|x| x.is_nan() || *x == f32::INFINITY) {
        Some(token) => {
            let found = logits.get(token).copied().unwrap_or_default();
            Err(Error::Logit { token, found })
        }
        None => Ok(logits.iter().map(|&x| f64::from(x)).enumerate().collect()),
    }
}

/// Makes probabilities of logits.
fn probabilities(scored: &mut [Scored]) -> Option<()> {
    let greatest = scored.iter().map(|(_, x)| *x).fold(f64::NEG_INFINITY, f64::max);
    if !greatest.is_finite() {
        return None;
    }
    for (_, x) in scored.iter_mut() {
        *x = (*x - greatest).exp();
    }
    normalize(scored);
    Some(())
}

fn normalize(scored: &mut [Scored]) {
    let sum: f64 = scored.iter().map(|(_, p)| p).sum();
    for (_, p) in scored {
        *p /= sum;
    }
}

/// Keeps the first tokens that reach a probability together; one at least.
fn reaching(scored: &mut Vec<Scored>, probability: f64) {
    let mut sum = 0.0;
    let mut count = 0;
    for (_, p) in scored.iter() {
        count += 1;
        sum += p;
        if sum >= probability {
            break;
        }
    }
    scored.truncate(count);
}

/// Returns the logarithms of the probabilities of a token and of the most probable ones.
pub(crate) fn log_probabilities(
    logits: &[f32],
    token: u32,
    count: usize,
) -> (LogProbability, Vec<LogProbability>) {
    let greatest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let all: f64 = logits.iter().map(|&x| f64::from(x - greatest).exp()).sum();
    let own = |x: f32| f64::from(x - greatest) - all.ln();
    let mut scored: Vec<Scored> = logits.iter().map(|&x| own(x)).enumerate().collect();
    let chosen = scored.get(token as usize).map_or(f64::NEG_INFINITY, |(_, x)| *x);
    if count > 0 && count < scored.len() {
        scored.select_nth_unstable_by(count - 1, probable);
    }
    scored.truncate(count);
    scored.sort_unstable_by(probable);
    let list = scored.iter().map(|&(token, log_probability)| LogProbability {
        token: u32::try_from(token).unwrap_or(u32::MAX),
        log_probability,
    });
    (LogProbability { token, log_probability: chosen }, list.collect())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;

    const LOGITS: [f32; 5] = [1.0, 3.0, 2.0, -1.0, 0.5];

    /// How often each token is drawn of 4000.
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

    /// The shares are those of the definition, within four standard deviations.
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

    /// The probabilities are 0.0826, 0.6103, 0.2245, 0.0112 and 0.0501... of the softmax of the logits.
    #[test]
    fn each_option_leaves_the_tokens_of_its_definition() {
        let left = |options: &Sampling| drawn(options).map(|count| count > 0);
        assert_eq!(left(&warm()), [true; 5]);
        assert_eq!(left(&Sampling { top_k: 2, ..warm() }), [false, true, true, false, false]);
        assert_eq!(left(&Sampling { top_p: 0.6, ..warm() }), [false, true, false, false, false]);
        assert_eq!(left(&Sampling { top_p: 0.7, ..warm() }), [false, true, true, false, false]);
        assert_eq!(left(&Sampling { min_p: 0.3, ..warm() }), [false, true, true, false, false]);
        assert_eq!(left(&Sampling { min_p: 0.1, ..warm() }), [true, true, true, false, false]);
        // The entropy is 1.07: a surprise of 1.49 is nearer to it than one of 0.49, and that nearer than 2.49.
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
}
