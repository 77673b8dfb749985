//! Random bits for libraries that request them from the system. WebAssembly in a browser has no system to ask, so JavaScript passes a seed.
//!
//! The bits seed the hashers of maps, so that strings in a file cannot be chosen to collide. They are not used for secrets.

use std::cell::Cell;

thread_local! {
    static STATE: Cell<u64> = const { Cell::new(0) };
}

/// Sets the seed that determines all bits.
pub(super) fn seed(seed: u64) {
    STATE.set(seed);
}

/// Returns the next 64 bits.
///
/// Source: Steele, Lea and Flood: Fast Splittable Pseudorandom Number Generators, 2014 (SplitMix64).
#[cfg_attr(
    not(any(test, target_family = "wasm")),
    expect(dead_code, reason = "other targets have a system to ask")
)]
fn bits() -> u64 {
    let state = STATE.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    STATE.set(state);
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Fills memory with random bits. The crate `getrandom` calls this function by its name.
#[cfg(target_family = "wasm")]
#[expect(unsafe_code, reason = "`getrandom` gives a pointer to memory that need not be initialised")]
#[unsafe(no_mangle)]
unsafe extern "Rust" fn __getrandom_v03_custom(
    memory: *mut u8,
    length: usize,
) -> Result<(), getrandom::Error> {
    for at in 0..length {
        // SAFETY: `getrandom` passes memory of `length` bytes that may be written.
        unsafe { memory.add(at).write(bits().to_le_bytes()[0]) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected numbers are the output of the source's reference implementation for the seed 1234567.
    #[test]
    fn bits_are_those_of_split_mix() {
        seed(1_234_567);
        let first = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([bits(), bits(), bits()], first);
    }
}
