//! The random numbers of [`Create`](super::Create). They are the same on every machine.

/// The generator MT19937. Seeding and sampling equal NumPy's `RandomState`, so a seed gives the same numbers as in
/// ONNX's reference evaluator.
///
/// Source: Matsumoto, Nishimura: Mersenne Twister (ACM TOMACS 1998), with the seeding of their version of 2002.
#[derive(Debug, Clone)]
pub struct Mersenne {
    state: Box<[u32; WORDS]>,
    used: usize,
    spare: Option<f64>,
}

const WORDS: usize = 624;
/// The distance from a word to the later word that it is mixed with.
const AHEAD: usize = 397;

impl Mersenne {
    /// Starts the stream of a seed. Only the low 32 bits of the seed are used.
    pub fn new(seed: u64) -> Mersenne {
        let mut state = Box::new([0; WORDS]);
        let mut word = seed as u32;
        for (slot, next) in state.iter_mut().zip(1u32..) {
            *slot = word;
            word = 1_812_433_253u32.wrapping_mul(word ^ word >> 30).wrapping_add(next);
        }
        Mersenne { state, used: WORDS, spare: None }
    }

    /// Starts a stream that differs in every run.
    pub fn unseeded() -> Mersenne {
        use std::hash::{BuildHasher, Hasher};
        // The standard library seeds each of its hashers differently, with entropy from the operating system.
        Mersenne::new(std::hash::RandomState::new().build_hasher().finish())
    }

    /// Starts the stream of a seed; without a seed, starts a stream that differs in every run.
    pub fn of(seed: Option<i64>) -> Mersenne {
        seed.map_or_else(Mersenne::unseeded, |seed| Mersenne::new(seed as u64))
    }

    /// Returns the next 32 bits.
    pub fn bits(&mut self) -> u32 {
        if self.used == WORDS {
            self.turn();
        }
        let mut word = self.state.get(self.used).copied().unwrap_or_default();
        self.used += 1;
        word ^= word >> 11;
        word ^= word << 7 & 0x9D2C_5680;
        word ^= word << 15 & 0xEFC6_0000;
        word ^ word >> 18
    }

    /// Generates the next block of words.
    #[expect(clippy::indexing_slicing, reason = "indices are taken modulo the extent")]
    fn turn(&mut self) {
        for i in 0..WORDS {
            let mixed = self.state[i] & 0x8000_0000 | self.state[(i + 1) % WORDS] & 0x7FFF_FFFF;
            let twist = if mixed & 1 == 1 { 0x9908_B0DF } else { 0 };
            self.state[i] = self.state[(i + AHEAD) % WORDS] ^ mixed >> 1 ^ twist;
        }
        self.used = 0;
    }

    /// Returns the next uniformly distributed number from 0 (included) to 1 (excluded), with 53 bits.
    pub fn unit(&mut self) -> f64 {
        let (high, low) = (u64::from(self.bits() >> 5), u64::from(self.bits() >> 6));
        (high << 26 | low) as f64 / (1u64 << 53) as f64
    }

    /// Returns the next number of the standard normal distribution, computed with Marsaglia's polar method.
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square < 1.0 && square != 0.0 {
                let scale = (-2.0 * square.ln() / square).sqrt();
                self.spare = Some(scale * x);
                return scale * y;
            }
        }
    }

    /// Returns true with the probability `p`. It consumes one number, like a binomial draw with one trial in NumPy.
    pub fn chance(&mut self, p: f64) -> bool {
        if p <= 0.5 { self.unit() > 1.0 - p } else { self.unit() <= p }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// The expected value is required by the C++ standard for `std::mt19937` ([rand.predef]).
    #[test]
    fn the_ten_thousandth_word_is_that_of_the_standard() {
        let mut random = Mersenne::new(5489);
        assert_eq!((0..10_000).map(|_| random.bits()).last().unwrap(), 4_123_659_995);
    }

    /// The expected values are `numpy.random.RandomState(0).rand(3)` and `RandomState(7).randn(3)` of NumPy 2.
    #[test]
    fn numbers_are_those_of_numpy() {
        let mut random = Mersenne::new(0);
        let units: Vec<f64> = (0..3).map(|_| random.unit()).collect();
        assert_eq!(units, [0.5488135039273248, 0.7151893663724195, 0.6027633760716439]);
        let mut random = Mersenne::new(7);
        for expected in [1.690525703800356, -0.4659373705408328, 0.0328201636785844] {
            assert!((random.normal() - expected).abs() < 1e-15);
        }
    }

    #[test]
    fn streams_without_a_seed_differ() {
        let draw = || {
            let mut random = Mersenne::unseeded();
            [random.bits(), random.bits(), random.bits(), random.bits()]
        };
        assert_ne!(draw(), draw());
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut random = Mersenne::new(7);
        let n = 100_000;
        let units: Vec<f64> = (0..n).map(|_| random.unit()).collect();
        assert!(units.iter().all(|u| (0.0..1.0).contains(u)));
        let mean = units.iter().sum::<f64>() / f64::from(n);
        // The bound is four standard errors: 4 · sqrt(1/12 / n).
        assert!((mean - 0.5).abs() < 0.0037);
        let normals: Vec<f64> = (0..n).map(|_| random.normal()).collect();
        let mean = normals.iter().sum::<f64>() / f64::from(n);
        let variance = normals.iter().map(|x| x * x).sum::<f64>() / f64::from(n);
        assert!(mean.abs() < 0.0127 && (variance - 1.0).abs() < 0.018);
    }
}
