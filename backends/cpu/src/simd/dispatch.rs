//! Compiles one loop for each instruction set and runs the one asked for.

use super::Level;

/// A loop that the compiler vectorises for the instruction set it is inlined into.
///
/// `run` must be `#[inline(always)]`, or the features are lost.
pub(crate) trait Kernel {
    /// What the loop returns.
    type Output;

    /// Runs the loop. `FMA` tells whether `mul_add` is one instruction.
    fn run<const FMA: bool>(self) -> Self::Output;
}

/// Runs `kernel` as compiled for `level`, which must come from [`level`](super::level()).
#[inline(always)]
pub(crate) fn dispatch<K: Kernel>(level: Level, kernel: K) -> K::Output {
    match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `level` was detected on this processor.
        Level::Avx512 => unsafe { avx512(kernel) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx2 => unsafe { avx2(kernel) },
        _ => kernel.run::<false>(),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
fn avx512<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<true>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
fn avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<true>()
}
