//! Compiles a loop for each instruction set and runs the version for this processor.

use super::FEW;
use crate::level::{Level, level};

/// A loop that the compiler vectorises for the instruction set of the function into which it is inlined.
///
/// `run` must be `#[inline(always)]`, because a separate function would be compiled without the instruction set.
pub(crate) trait VectorLoop {
    /// The result of the loop.
    type Output;

    /// Runs the loop. If `FMA`, `mul_add` is a single instruction.
    fn run<const FMA: bool>(self) -> Self::Output;
}

/// Runs a loop in the version for the widest instruction set of this processor.
#[inline(always)]
pub(crate) fn dispatch<L: VectorLoop>(vector: L) -> L::Output {
    dispatch_to(level(), vector)
}

/// Runs a loop over `n` elements. A short loop runs in the portable version, because few elements do not fill wide
/// vectors. The results must not depend on the instruction set.
#[inline(always)]
pub(crate) fn dispatch_by_length<L: VectorLoop>(n: usize, vector: L) -> L::Output {
    dispatch_to(if n < FEW { Level::Portable } else { level() }, vector)
}

#[inline(always)]
fn dispatch_to<L: VectorLoop>(level: Level, vector: L) -> L::Output {
    match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `level` returns only a level that it detected on this processor.
        Level::Avx512 => unsafe { avx512(vector) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `level` returns only a level that it detected on this processor.
        Level::Avx2 => unsafe { avx2(vector) },
        // On x86-64, no level below AVX2 has fused multiply-add; every 64-bit ARM processor has it.
        _ => vector.run::<{ cfg!(target_arch = "aarch64") }>(),
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
