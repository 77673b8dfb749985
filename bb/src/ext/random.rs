//! The random numbers of [`Create`](super::Create), the same on every machine.

/// The counter-based generator Philox4x32-10: block `n` of a stream is a keyed bijection of `n`.
///
/// The seed is the key; the counter starts at 0. Numbers come in the order of the blocks' words.
///
/// Source: Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3 (SC 2011).
#[derive(Debug, Clone)]
pub struct Philox {
    key: [u32; 2],
    counter: u64,
    block: [u32; 4],
    used: usize,
    spare: Option<f64>,
}

impl Philox {
    /// Starts the stream of a seed.
    pub fn new(seed: u64) -> Philox {
        Philox { key: [seed as u32, (seed >> 32) as u32], counter: 0, block: [0; 4], used: 4, spare: None }
    }

    /// Returns the next 32 bits.
    pub fn bits(&mut self) -> u32 {
        if self.used == 4 {
            self.block = block([self.counter as u32, (self.counter >> 32) as u32, 0, 0], self.key);
            self.counter += 1;
            self.used = 0;
        }
        let word = self.block.get(self.used).copied().unwrap_or_default();
        self.used += 1;
        word
    }

    /// Returns the next number of the uniform distribution over 0 to before 1, of 53 bits.
    pub fn unit(&mut self) -> f64 {
        let (high, low) = (u64::from(self.bits()), u64::from(self.bits()));
        (high << 21 ^ low >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns the next number of the standard normal distribution, by the method of Box and Muller.
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        // 1 - unit is never 0, whose logarithm is infinite.
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        let (sin, cos) = (self.unit() * std::f64::consts::TAU).sin_cos();
        self.spare = Some(radius * sin);
        radius * cos
    }
}

/// Ten rounds of multiplication and key mixing.
fn block(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let [a, b, c, d] = counter;
        let [k, l] = key;
        let (first, second) = (u64::from(a) * 0xD251_1F53, u64::from(c) * 0xCD9E_8D57);
        counter = [(second >> 32) as u32 ^ b ^ k, second as u32, (first >> 32) as u32 ^ d ^ l, first as u32];
        key = [k.wrapping_add(0x9E37_79B9), l.wrapping_add(0xBB67_AE85)];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers that the paper's authors publish for philox4x32-10.
    #[test]
    fn blocks_are_those_of_the_paper() {
        assert_eq!(block([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(block([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut random = Philox::new(7);
        let n = 100_000;
        let units: Vec<f64> = (0..n).map(|_| random.unit()).collect();
        assert!(units.iter().all(|u| (0.0..1.0).contains(u)));
        let mean = units.iter().sum::<f64>() / f64::from(n);
        // Four standard errors: 4 · sqrt(1/12 / n).
        assert!((mean - 0.5).abs() < 0.0037);
        let normals: Vec<f64> = (0..n).map(|_| random.normal()).collect();
        let mean = normals.iter().sum::<f64>() / f64::from(n);
        let variance = normals.iter().map(|x| x * x).sum::<f64>() / f64::from(n);
        assert!(mean.abs() < 0.0127 && (variance - 1.0).abs() < 0.018);
    }
}
