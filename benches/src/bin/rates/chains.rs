//! Chains of multiplications with additions in registers, and the levels that have them.

#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "instructions of one processor are called behind a check that it has them")
)]

use super::{Level, reads};

/// Returns the levels of kernels that this processor has, with the instructions for bytes that kernels use there.
#[cfg(target_arch = "x86_64")]
pub(crate) fn levels() -> Vec<Level> {
    let mut levels = vec![Level {
        name: "portable",
        // SAFETY: SSE2 is part of the architecture.
        floats: Some((4 * CHAINS, |times| unsafe { x86::floats_128(times) })),
        // SAFETY: SSE2 is part of the architecture.
        bytes: Some((8 * CHAINS, |times| unsafe { x86::pairs_128(times) })),
        read: reads::portable,
    }];
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        levels.push(Level {
            name: "avx2",
            // SAFETY: the processor has the instructions.
            floats: Some((8 * CHAINS, |times| unsafe { x86::floats_256(times) })),
            // SAFETY: the processor has the instructions.
            bytes: Some((16 * CHAINS, |times| unsafe { x86::pairs_256(times) })),
            // SAFETY: the processor has the instructions.
            read: |x| unsafe { reads::avx2(x) },
        });
        if is_x86_feature_detected!("avxvnni") {
            levels.push(Level {
                name: "avx2, VNNI",
                floats: None,
                // SAFETY: the processor has the instructions.
                bytes: Some((32 * CHAINS, |times| unsafe { x86::bytes_256(times) })),
                // SAFETY: the processor has the instructions.
                read: |x| unsafe { reads::avx2(x) },
            });
        }
    }
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
        levels.push(Level {
            name: "avx512",
            // SAFETY: the processor has the instructions.
            floats: Some((16 * CHAINS, |times| unsafe { x86::floats_512(times) })),
            bytes: Some(if is_x86_feature_detected!("avx512vnni") {
                // SAFETY: the processor has the instructions.
                (64 * CHAINS, |times| unsafe { x86::bytes_512(times) })
            } else {
                // SAFETY: the processor has the instructions.
                (32 * CHAINS, |times| unsafe { x86::pairs_512(times) })
            }),
            // SAFETY: the processor has the instructions.
            read: |x| unsafe { reads::avx512(x) },
        });
    }
    levels
}

/// Returns the only level of other processors. This program has no instructions for products on them.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn levels() -> Vec<Level> {
    vec![Level { name: "portable", floats: None, bytes: None, read: reads::portable }]
}

/// The number of independent sums, enough to hide an instruction's latency on two units.
#[cfg(target_arch = "x86_64")]
const CHAINS: usize = 12;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::CHAINS;
    use std::arch::x86_64::*;
    use std::hint::black_box;

    macro_rules! chains {
        ($($name:ident, $feature:literal, $start:expr, |$sum:ident, $x:ident| $step:expr;)*) => {$(
            #[target_feature(enable = $feature)]
            pub(super) fn $name(times: u32) {
                let $x = black_box($start);
                let mut sums = [$x; CHAINS];
                for _ in 0..times {
                    for sum in &mut sums {
                        let $sum = *sum;
                        *sum = $step;
                    }
                }
                black_box(sums);
            }
        )*};
    }

    // Products of pairs of 16 bits are what kernels compute of bytes without VNNI.
    chains! {
        floats_128, "sse2", _mm_set1_ps(0.5), |sum, x| _mm_add_ps(_mm_mul_ps(sum, x), x);
        floats_256, "avx2,fma", _mm256_set1_ps(0.5), |sum, x| _mm256_fmadd_ps(sum, x, x);
        floats_512, "avx512f", _mm512_set1_ps(0.5), |sum, x| _mm512_fmadd_ps(sum, x, x);
        pairs_128, "sse2", _mm_set1_epi16(1), |sum, x| _mm_add_epi32(sum, _mm_madd_epi16(sum, x));
        pairs_256, "avx2", _mm256_set1_epi16(1), |sum, x| _mm256_add_epi32(sum, _mm256_madd_epi16(sum, x));
        pairs_512, "avx512bw", _mm512_set1_epi16(1), |sum, x| _mm512_add_epi32(sum, _mm512_madd_epi16(sum, x));
        bytes_256, "avx2,avxvnni", _mm256_set1_epi8(1), |sum, x| _mm256_dpbusd_avx_epi32(sum, x, x);
        bytes_512, "avx512f,avx512vnni", _mm512_set1_epi8(1), |sum, x| _mm512_dpbusd_epi32(sum, x, x);
    }
}
