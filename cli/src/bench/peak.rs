//! Measures the peak performance of a backend: arithmetic, and bytes from memory and from caches.

use crate::error::Result;
use bb::{BackendHandle, Value};
use std::time::Instant;

/// The peak performance of a backend, in units per second.
pub(super) struct Peaks {
    /// Operations on `f32`, in products of square matrices.
    pub(super) flops: f64,
    /// Bytes read and written, in sums of tensors that no cache holds.
    pub(super) memory: f64,
    /// Bytes read and written, in sums of tensors of whichever size is fastest.
    pub(super) cache: f64,
}

/// The time for each size. A slow backend measures small sizes only.
const SECONDS: f64 = 0.06;
/// The extents of the square matrices.
const SQUARES: [usize; 4] = [128, 256, 512, 1024];
/// The elements of the tensors that are added; three of the last are 192 MiB.
const SUMS: [usize; 7] = [1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24];

impl Peaks {
    pub(super) fn measure(backend: &BackendHandle) -> Result<Peaks> {
        let mut peaks = Peaks { flops: 0.0, memory: 0.0, cache: 0.0 };
        for extent in SQUARES {
            let x = backend.tensor_from_fn(&[extent, extent], |at| (at.iter().sum::<usize>() % 7) as f32)?;
            let seconds = least(|| Ok(x.matmul(&x)?))?;
            peaks.flops = peaks.flops.max(2.0 * (extent as f64).powi(3) / seconds);
            // The next takes eight times as long.
            if 8.0 * seconds > SECONDS {
                break;
            }
        }
        for elements in SUMS {
            let x = backend.tensor_from_fn(&[elements], |at| at.first().map_or(0.0, |i| (i % 7) as f32))?;
            let y = backend.tensor_from_fn(&[elements], |_| 1.0f32)?;
            let seconds = least(|| Ok(x.add(&y)?))?;
            // The last measured size is taken as the bandwidth of memory.
            peaks.memory = 12.0 * elements as f64 / seconds;
            peaks.cache = peaks.cache.max(peaks.memory);
            if 4.0 * seconds > SECONDS {
                break;
            }
        }
        Ok(peaks)
    }

    /// Returns the most operations per second of a kernel with this many operations per byte, all in memory.
    pub(super) fn roof(&self, intensity: f64) -> f64 {
        self.flops.min(intensity * self.memory)
    }
}

/// Returns the least seconds of a call, as the profile measures calls.
fn least(mut call: impl FnMut() -> Result<Value>) -> Result<f64> {
    let begun = Instant::now();
    let mut least = f64::INFINITY;
    let mut calls = 0;
    while calls < 3 || begun.elapsed().as_secs_f64() < SECONDS {
        let start = Instant::now();
        let value = call()?;
        least = least.min(start.elapsed().as_secs_f64());
        drop(value);
        calls += 1;
    }
    Ok(least.max(1e-9))
}
