//! Compiles one loop for each instruction set and runs the one that this processor has.

use super::level::{Level, level};

/// A loop that the compiler vectorises for the instruction set it is inlined into.
///
/// `run` must be `#[inline(always)]`, because a function of its own would be compiled without the instruction set.
pub(crate) trait VectorLoop {
    /// What the loop returns.
    type Output;

    /// Runs the loop. `FMA` tells whether `mul_add` is one instruction.
    fn run<const FMA: bool>(self) -> Self::Output;
}

/// Runs a loop as compiled for the widest instruction set of this processor.
#[inline(always)]
pub(crate) fn dispatch<L: VectorLoop>(vector: L) -> L::Output {
    match level() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `level` returns only what it detected on this processor.
        Level::Avx512 => unsafe { avx512(vector) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `level` returns only what it detected on this processor.
        Level::Avx2 => unsafe { avx2(vector) },
        _ => vector.run::<false>(),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
fn avx512<L: VectorLoop>(vector: L) -> L::Output {
    vector.run::<true>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
fn avx2<L: VectorLoop>(vector: L) -> L::Output {
    vector.run::<true>()
}
