//! Measures the peak performance of a backend: arithmetic, and the bandwidths of memory and caches.

use crate::error::Result;
use bb::{BackendHandle, Value};
use std::time::Instant;

/// The peak performance of a backend.
pub(super) struct Peaks {
    /// Operations per second on `f32`: the best rate of products of square matrices of several sizes.
    pub(super) flops: f64,
    /// Memory bandwidth in bytes per second (reads plus writes), measured with additions of tensors that exceed the caches.
    pub(super) memory: f64,
    /// Cache bandwidth in bytes per second (reads plus writes): the best rate of additions of tensors of several sizes.
    pub(super) cache: f64,
}

/// The time for measuring each size, in seconds. A slow backend measures only small sizes.
const SECONDS: f64 = 0.06;
/// The extents of the square matrices.
const SQUARES: [usize; 4] = [128, 256, 512, 1024];
/// The numbers of elements of the tensors that are added. Three tensors of the largest size take 192 MiB.
const SUMS: [usize; 7] = [1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24];

impl Peaks {
    pub(super) fn measure(backend: &BackendHandle) -> Result<Peaks> {
        let mut peaks = Peaks { flops: 0.0, memory: 0.0, cache: 0.0 };
        for extent in SQUARES {
            let x = backend.tensor_from_fn(&[extent, extent], |at| (at.iter().sum::<usize>() % 7) as f32)?;
            let seconds = least(|| Ok(x.matmul(&x)?))?;
            peaks.flops = peaks.flops.max(2.0 * (extent as f64).powi(3) / seconds);
            // The next size takes eight times as long.
            if 8.0 * seconds > SECONDS {
                break;
            }
        }
        for elements in SUMS {
            let x = backend.tensor_from_fn(&[elements], |at| at.first().map_or(0.0, |i| (i % 7) as f32))?;
            let y = backend.tensor_from_fn(&[elements], |_| 1.0f32)?;
            let seconds = least(|| Ok(x.add(&y)?))?;
            // The last measured size determines the memory bandwidth.
            peaks.memory = 12.0 * elements as f64 / seconds;
            peaks.cache = peaks.cache.max(peaks.memory);
            if 4.0 * seconds > SECONDS {
                break;
            }
        }
        Ok(peaks)
    }

    /// Returns the maximum number of operations per second of a kernel with this arithmetic intensity (operations per byte), if all data is
    /// in memory.
    pub(super) fn roof(&self, intensity: f64) -> f64 {
        self.flops.min(intensity * self.memory)
    }
}

/// Returns the minimum time of a call in seconds. Like the profiler, it measures single calls.
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
