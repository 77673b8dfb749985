//! The inner kernel of pooling: one row of results, reduced along columns first and then along rows.

use crate::gemm::floats::Floats;
use crate::gemm::vector::Portable;
use crate::kernels::level::{Level, level};

/// How elements of a window are reduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reduction {
    /// To the greatest one.
    Greatest,
    /// To their sum.
    Sum,
}

/// A row of vectors, each of which reduces some vectors of the operand; distances are in elements.
#[derive(Debug)]
pub(super) struct Args<'a> {
    pub(super) reduction: Reduction,
    pub(super) x: *const f32,
    /// Where the operands of a vector are, in addition to its place in the row; at least one.
    pub(super) from: &'a [usize],
    pub(super) out: *mut f32,
    /// The number of elements of the row.
    pub(super) n: usize,
    /// What the results are divided by, or null.
    pub(super) by: *const f32,
}

impl Args<'_> {
    /// Writes the row.
    ///
    /// # Safety
    ///
    /// `x` has `n` elements from each of the places on, and `out` has room for as many; `by` has as many, too, or is null.
    pub(super) unsafe fn run(&self) {
        // SAFETY: this function has the same contract; `level` returns only what the processor has.
        unsafe {
            match (level(), self.n) {
                #[cfg(target_arch = "x86_64")]
                (Level::Avx512, ..=8) => avx512::<crate::gemm::vector::F32x8Masked>(self),
                #[cfg(target_arch = "x86_64")]
                (Level::Avx512, _) => avx512::<crate::gemm::vector::F32x16>(self),
                #[cfg(target_arch = "x86_64")]
                (Level::Avx2, _) => avx2::<crate::gemm::vector::F32x8>(self),
                _ => row::<Portable<f32>>(self),
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn avx512<V: Floats>(args: &Args<'_>) {
    // SAFETY: this function has the same contract.
    unsafe { row::<V>(args) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<V: Floats>(args: &Args<'_>) {
    // SAFETY: this function has the same contract.
    unsafe { row::<V>(args) }
}

/// # Safety
///
/// As for [`Args::run`], with the instruction set of the vectors.
#[inline(always)]
unsafe fn row<V: Floats>(args: &Args<'_>) {
    let n = args.n;
    let mut i = 0;
    // SAFETY: each vector is in the row, and the last one is masked.
    unsafe {
        while i + V::LANES <= n {
            let mut sum = V::load(args.x.add(i + args.from.first().copied().unwrap_or(0)));
            for &at in args.from.iter().skip(1) {
                sum = reduced(args.reduction, V::load(args.x.add(i + at)), sum);
            }
            if !args.by.is_null() {
                sum = sum.div(V::load(args.by.add(i)));
            }
            sum.store(args.out.add(i));
            i += V::LANES;
        }
        if i < n {
            let mask = V::mask(n - i);
            let mut sum = V::load_some(args.x.add(i + args.from.first().copied().unwrap_or(0)), mask);
            for &at in args.from.iter().skip(1) {
                sum = reduced(args.reduction, V::load_some(args.x.add(i + at), mask), sum);
            }
            if !args.by.is_null() {
                sum = sum.div(V::load_some(args.by.add(i), mask));
            }
            sum.store_some(args.out.add(i), mask);
        }
    }
}

#[inline(always)]
unsafe fn reduced<V: Floats>(reduction: Reduction, x: V, sum: V) -> V {
    // SAFETY: the callers have the instruction set.
    unsafe {
        match reduction {
            Reduction::Greatest => x.max(sum),
            Reduction::Sum => x.add(sum),
        }
    }
}
