//! Chooses a token by its logits.

use crate::{Error, Sampling};
use bb::ext::Mersenne;

/// The logarithm of the probability of a token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogProbability {
    /// The token.
    pub token: u32,
    /// The natural logarithm of its probability, before penalties, bias and temperature.
    pub log_probability: f64,
}

/// A token with its logit or its probability.
type Scored = (usize, f64);

/// A token whose logit is changed by the options.
#[derive(Debug)]
struct Changed {
    token: usize,
    logit: f64,
    /// Whether the repetition penalty applies to the token.
    repeated: bool,
    /// The number of times that the token was generated.
    count: f64,
}

/// Chooses tokens, with random numbers from one generator. The lists are reused, so that choosing a token allocates nothing once they
/// are long enough.
#[derive(Debug)]
pub(crate) struct Sampler {
    options: Sampling,
    random: Mersenne,
    /// The tokens whose logits are changed, sorted by token.
    changed: Vec<Changed>,
    scored: Vec<Scored>,
}

impl Sampler {
    pub(crate) fn new(options: &Sampling) -> Result<Sampler, Error> {
        options.check()?;
        let random = options.seed.map_or_else(Mersenne::unseeded, Mersenne::new);
        Ok(Sampler { options: options.clone(), random, changed: Vec::new(), scored: Vec::new() })
    }

    /// Returns a random number in `0.0..1.0` with 53 bits.
    fn uniform(&mut self) -> f64 {
        let (high, low) = (self.random.bits() >> 5, self.random.bits() >> 6);
        (f64::from(high) * f64::from(1u32 << 26) + f64::from(low)) / (1u64 << 53) as f64
    }

    /// Chooses a token. `prompt` and `generated` are the tokens before it.
    pub(crate) fn choose(&mut self, logits: &[f32], prompt: &[u32], generated: &[u32]) -> Result<u32, Error> {
        self.change(logits, prompt, generated);
        let most = most(logits)?;
        let token = match (self.options.temperature == 0.0, self.changed.is_empty()) {
            (true, true) => most,
            (true, false) => {
                let scored = adjusted(logits, &self.changed).min_by(probable);
                scored.filter(|(_, logit)| *logit > f64::NEG_INFINITY).map(|(token, _)| token)
            }
            (false, _) => self.draw(logits),
        };
        let token = token.ok_or(Error::NoneLeft)?;
        u32::try_from(token).map_err(|_| Error::Internal { what: "a token is beyond 32 bits" })
    }

    /// Lists the tokens whose logits are changed by the bias and the penalties.
    fn change(&mut self, logits: &[f32], prompt: &[u32], generated: &[u32]) {
        let Sampler { options: o, changed, .. } = self;
        changed.clear();
        let last = if o.penalty_last == 0 { usize::MAX } else { o.penalty_last };
        let repeats = o.repetition_penalty != 1.0;
        let counts = o.presence_penalty != 0.0 || o.frequency_penalty != 0.0;
        let repeated =
            || generated.iter().rev().chain(prompt.iter().rev()).take(if repeats { last } else { 0 });
        let counted = if counts { generated } else { &[] };
        let biased = o.bias.iter().map(|(token, _)| token);
        changed.extend(biased.chain(repeated()).chain(counted).filter_map(|&token| {
            let token = token as usize;
            let logit = f64::from(*logits.get(token)?);
            Some(Changed { token, logit, repeated: false, count: 0.0 })
        }));
        changed.sort_unstable_by_key(|one| one.token);
        changed.dedup_by_key(|one| one.token);
        let mut each = |token: u32, f: &dyn Fn(&mut Changed)| {
            let found = changed.binary_search_by_key(&(token as usize), |one| one.token);
            if let Some(one) = found.ok().and_then(|at| changed.get_mut(at)) {
                f(one);
            }
        };
        for &(token, bias) in &o.bias {
            each(token, &|one| {
                // A token with a logit of minus infinity stays impossible, even with an infinite bias.
                if one.logit > f64::NEG_INFINITY {
                    one.logit += bias;
                }
            });
        }
        for &token in repeated() {
            each(token, &|one| one.repeated = true);
        }
        for &token in counted {
            each(token, &|one| one.count += 1.0);
        }
        for one in changed {
            if one.repeated {
                let by = o.repetition_penalty;
                one.logit = if one.logit > 0.0 { one.logit / by } else { one.logit * by };
            }
            if one.count > 0.0 {
                one.logit -= o.presence_penalty + o.frequency_penalty * one.count;
            }
        }
    }

    /// Draws one of the tokens that the options do not exclude.
    fn draw(&mut self, logits: &[f32]) -> Option<usize> {
        let Sampler { options, changed, scored, .. } = self;
        let &mut Sampling { temperature, top_k, top_p, min_p, typical, .. } = options;
        let all = adjusted(logits, changed).map(|(token, logit)| (token, logit / temperature));
        scored.clear();
        if top_k > 0 && top_k < logits.len() {
            leading(scored, top_k, all);
            scored.sort_unstable_by(probable);
        } else {
            scored.extend(all);
        }
        probabilities(scored)?;
        if typical < 1.0 {
            let entropy: f64 = scored.iter().filter(|(_, p)| *p > 0.0).map(|(_, p)| -p * p.ln()).sum();
            let far = |&(token, p): &Scored| ((-p.ln() - entropy).abs(), token);
            scored.sort_unstable_by(|a, b| far(a).0.total_cmp(&far(b).0).then(far(a).1.cmp(&far(b).1)));
            let count = reaching(scored, typical).unwrap_or(scored.len());
            scored.truncate(count);
            normalize(scored);
        }
        if top_p < 1.0 {
            nucleus(scored, top_p);
            normalize(scored);
        }
        if min_p > 0.0 {
            let least = scored.iter().map(|(_, p)| *p).fold(0.0, f64::max) * min_p;
            scored.retain(|(_, p)| *p >= least);
        }
        let mut left = self.uniform() * self.scored.iter().map(|(_, p)| p).sum::<f64>();
        let chosen = self.scored.iter().find(|(_, p)| {
            left -= p;
            left < 0.0
        });
        // Because of rounding, the sum of the probabilities may be less than 1. Then choose the last possible token.
        chosen.or_else(|| self.scored.iter().rev().find(|(_, p)| *p > 0.0)).map(|(token, _)| *token)
    }
}

/// Returns the first token with the greatest logit; `None` if all logits are minus infinity. NaN and infinity are errors.
fn most(logits: &[f32]) -> Result<Option<usize>, Error> {
    /// The number of logits that are compared without a branch, so that the compiler can vectorize the loop.
    const TOGETHER: usize = 256;
    let mut best = (None, f32::NEG_INFINITY);
    for (number, part) in logits.chunks(TOGETHER).enumerate() {
        let (mut greatest, mut odd) = (f32::NEG_INFINITY, false);
        for &x in part {
            greatest = if x > greatest { x } else { greatest };
            odd |= x.is_nan() | (x == f32::INFINITY);
        }
        let place = |found: &dyn Fn(f32) -> bool| {
            part.iter().position(|&x| found(x)).map(|within| number * TOGETHER + within)
        };
        if odd {
            let token = place(&|x| x.is_nan() || x == f32::INFINITY).unwrap_or_default();
            let found = logits.get(token).copied().unwrap_or_default();
            return Err(Error::Logit { token, found });
        }
        if greatest > best.1 {
            best = (place(&|x| x == greatest), greatest);
        }
    }
    Ok(best.0)
}

/// Iterates over the logits, with the changed logits replaced.
fn adjusted<'a>(logits: &'a [f32], changed: &'a [Changed]) -> impl Iterator<Item = Scored> + 'a {
    let mut changed = changed.iter().peekable();
    logits.iter().enumerate().map(move |(token, &logit)| {
        let own = changed.next_if(|one| one.token == token);
        (token, own.map_or(f64::from(logit), |one| one.logit))
    })
}

/// Lists the `count` most probable tokens, in any order.
fn leading(scored: &mut Vec<Scored>, count: usize, all: impl Iterator<Item = Scored>) {
    let room = count.saturating_mul(2).max(64);
    let mut least = f64::NEG_INFINITY;
    let cut = |scored: &mut Vec<Scored>| {
        if count < scored.len() {
            let (_, last, _) = scored.select_nth_unstable_by(count - 1, probable);
            let last = last.1;
            scored.truncate(count);
            return last;
        }
        f64::NEG_INFINITY
    };
    for one in all {
        // Of tokens with equal logits, lower tokens come first and are kept.
        if one.1 > least || scored.len() < count {
            scored.push(one);
            if scored.len() >= room {
                least = cut(scored);
            }
        }
    }
    cut(scored);
}

/// Keeps the most probable tokens until they reach a total probability, but at least one token. They are sorted.
fn nucleus(scored: &mut Vec<Scored>, probability: f64) {
    let mut sorted = 0;
    let mut next = 64;
    while sorted < scored.len() {
        let Some(rest) = scored.get_mut(sorted..) else { return };
        if next < rest.len() {
            rest.select_nth_unstable_by(next - 1, probable);
        }
        let until = scored.len().min(sorted + next);
        if let Some(part) = scored.get_mut(sorted..until) {
            part.sort_unstable_by(probable);
        }
        (sorted, next) = (until, next * 4);
        if let Some(count) = reaching(scored.get(..sorted).unwrap_or_default(), probability) {
            scored.truncate(count);
            return;
        }
    }
}

/// Orders more probable tokens first. Of equally probable tokens, the lower one comes first.
fn probable(a: &Scored, b: &Scored) -> std::cmp::Ordering {
    b.1.total_cmp(&a.1).then(a.0.cmp(&b.0))
}

/// Converts logits to probabilities.
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

/// Returns the number of first tokens that reach a total probability; `None` if all together do not reach it.
fn reaching(scored: &[Scored], probability: f64) -> Option<usize> {
    let mut sum = 0.0;
    let last = scored.iter().position(|(_, p)| {
        sum += p;
        sum >= probability
    });
    last.map(|last| last + 1)
}

/// Returns the log-probability of a token, and the log-probabilities of the `count` most probable tokens.
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
mod tests;
