//! The most products that the processor's vector units compute: chains of multiplications with additions in registers.

#![expect(unsafe_code, reason = "instructions of one processor are called behind a check that it has them")]

use std::time::Instant;

/// Products a second of one thread, of `f32` and of bytes; 0 if this program knows no instruction for them here.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Peak {
    pub(crate) f32: f64,
    pub(crate) i8: f64,
}

/// The number of times that a chain is repeated, some milliseconds.
const TIMES: u32 = 1 << 20;

/// Runs of which the fastest counts.
const RUNS: usize = 20;

/// Measures with so many threads at once, and returns the sum.
pub(crate) fn measured(threads: usize) -> Peak {
    let threads: Vec<_> = (0..threads.max(1)).map(|_| std::thread::spawn(one)).collect();
    let peaks = threads.into_iter().filter_map(|thread| thread.join().ok());
    peaks.fold(Peak::default(), |sum, peak| Peak { f32: sum.f32 + peak.f32, i8: sum.i8 + peak.i8 })
}

/// Returns the products a second of a function that computes so many in each repetition.
fn rate(products: usize, run: impl Fn()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        run();
        best = best.min(start.elapsed().as_secs_f64());
    }
    products as f64 * f64::from(TIMES) / best
}

#[cfg(target_arch = "x86_64")]
fn one() -> Peak {
    let mut peak = Peak::default();
    // SAFETY: each function runs behind the check for its instructions.
    unsafe {
        if is_x86_feature_detected!("avx512f") {
            peak.f32 = rate(CHAINS * 16, || x86::floats_512());
        } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            peak.f32 = rate(CHAINS * 8, || x86::floats_256());
        }
        if is_x86_feature_detected!("avx512vnni") {
            peak.i8 = rate(CHAINS * 64, || x86::bytes_512());
        } else if is_x86_feature_detected!("avxvnni") {
            peak.i8 = rate(CHAINS * 32, || x86::bytes_256());
        }
    }
    peak
}

#[cfg(not(target_arch = "x86_64"))]
fn one() -> Peak {
    Peak::default()
}

/// The number of independent sums, enough to hide an instruction's latency on two units.
#[cfg(target_arch = "x86_64")]
const CHAINS: usize = 12;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{CHAINS, TIMES};
    use std::arch::x86_64::*;
    use std::hint::black_box;

    macro_rules! chains {
        ($name:ident, $feature:literal, $start:expr, |$sum:ident, $x:ident| $step:expr) => {
            #[target_feature(enable = $feature)]
            pub(super) fn $name() {
                let $x = black_box($start);
                let mut sums = [$x; CHAINS];
                for _ in 0..TIMES {
                    for sum in &mut sums {
                        let $sum = *sum;
                        *sum = $step;
                    }
                }
                black_box(sums);
            }
        };
    }

    chains!(floats_512, "avx512f", _mm512_set1_ps(0.5), |sum, x| _mm512_fmadd_ps(sum, x, x));
    chains!(floats_256, "avx2,fma", _mm256_set1_ps(0.5), |sum, x| _mm256_fmadd_ps(sum, x, x));
    chains!(bytes_512, "avx512f,avx512vnni", _mm512_set1_epi8(1), |sum, x| _mm512_dpbusd_epi32(sum, x, x));
    chains!(bytes_256, "avx2,avxvnni", _mm256_set1_epi8(1), |sum, x| _mm256_dpbusd_avx_epi32(sum, x, x));
}
