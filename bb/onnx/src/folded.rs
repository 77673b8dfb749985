//! A hash of labels and strings that is faster than the standard library's.
//!
//! The seed differs in each process, so that no model can choose keys that all collide.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

/// A hasher that multiplies to 128 bits and combines the two halves of the product by XOR.
#[derive(Debug, Clone, Copy)]
pub struct Folded(u64);

impl Default for Folded {
    fn default() -> Folded {
        static SEED: OnceLock<u64> = OnceLock::new();
        Folded(*SEED.get_or_init(|| RandomState::new().hash_one(0)))
    }
}

impl BuildHasher for Folded {
    type Hasher = Folder;

    fn build_hasher(&self) -> Folder {
        Folder(self.0)
    }
}

/// The hash of the bytes written so far.
#[derive(Debug)]
pub struct Folder(u64);

impl Folder {
    /// An odd constant without a pattern: the first bits of the fraction of pi.
    const FACTOR: u64 = 0x243f_6a88_85a3_08d3;

    #[inline]
    fn fold(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(Folder::FACTOR);
        self.0 = (product as u64) ^ (product >> 64) as u64;
    }
}

impl Hasher for Folder {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.fold(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        // The length distinguishes zeros at the end from missing bytes.
        self.fold(u64::from_le_bytes(last) ^ (bytes.len() as u64).rotate_right(8));
    }

    #[inline]
    fn write_u8(&mut self, byte: u8) {
        self.fold(byte.into());
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.fold(number.into());
    }

    #[inline]
    fn write_i64(&mut self, number: i64) {
        self.fold(number.cast_unsigned());
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.fold(number as u64);
    }

    #[inline]
    fn write_isize(&mut self, number: isize) {
        self.fold(number.cast_unsigned() as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        // Hash tables use the first bits and the last bits of a hash, so both must depend on all bits.
        self.0.rotate_left(26) ^ self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn words_that_differ_little_have_other_hashes() {
        let folded = Folded::default();
        let mut words: Vec<Vec<u8>> = (0..20).map(|n| vec![0; n]).collect();
        words.extend((0..=255).map(|byte| vec![b'a', byte]));
        words.extend((0..64).map(|at| (1u64 << at).to_le_bytes().to_vec()));
        words.extend((0u32..1000).map(|i| format!("word {i}").into_bytes()));
        let distinct: HashSet<&Vec<u8>> = words.iter().collect();
        let hashes: HashSet<u64> = words.iter().map(|word| folded.hash_one(word.as_slice())).collect();
        assert_eq!(hashes.len(), distinct.len());
        // The first 16 and the last 16 bits must be mostly distinct, too: of 1340 hashes, few share one of
        // the 65536 values.
        for shift in [0, 48] {
            let places: HashSet<u64> = hashes.iter().map(|hash| hash >> shift & 0xffff).collect();
            assert!(places.len() > hashes.len() * 9 / 10, "{}", places.len());
        }
    }
}
