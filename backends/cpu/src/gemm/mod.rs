//! Matrix products over plain memory, for every number type and any strides.
//!
//! It knows no tensors: callers give pointers, extents and strides in elements. Transposed and
//! strided operands are read as they are; nothing needs to be copied first.

use half::{bf16, f16};

use crate::simd::Shared;
pub use crate::simd::Strided;
use crate::simd::element::Number;

/// A number that matrices can hold.
pub trait Element: Number {
    /// The type products are summed in.
    type Acc: Number;
    /// Widens.
    fn widen(self) -> Self::Acc;
    /// Rounds or wraps.
    fn narrow(x: Self::Acc) -> Self;
}

macro_rules! elements {
    ($($t:ty, $acc:ty, $widen:expr, $narrow:expr;)*) => {$(
        impl Element for $t {
            type Acc = $acc;
            #[inline(always)]
            fn widen(self) -> $acc {
                $widen(self)
            }
            #[inline(always)]
            fn narrow(x: $acc) -> $t {
                $narrow(x)
            }
        }
    )*};
}

elements!(
    f32, f32, |x| x, |x| x;
    f64, f64, |x| x, |x| x;
    f16, f32, f16::to_f32, f16::from_f32;
    bf16, f32, bf16::to_f32, bf16::from_f32;
    i8, i32, i32::from, |x| x as i8;
    u8, i32, i32::from, |x| x as u8;
    i16, i32, i32::from, |x| x as i16;
    u16, i32, i32::from, |x| x as u16;
    i32, i32, |x| x, |x| x;
    u32, i32, |x| x as i32, |x| x as u32;
    i64, i64, |x| x, |x| x;
    u64, i64, |x| x as i64, |x| x as u64;
);

/// The extents of a product: `[m, k]` times `[k, n]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dims {
    /// Rows of the left operand and of the product.
    pub m: usize,
    /// Columns of the left operand, rows of the right one.
    pub k: usize,
    /// Columns of the right operand and of the product.
    pub n: usize,
}

/// Writes the product of `a: [m, k]` and `b: [k, n]` to `c`, whose rows are contiguous and `c_row`
/// elements apart.
///
/// Integers wrap; 16-bit floats are summed in `f32`. If `k` is 0, the product is zero.
///
/// # Safety
///
/// The operands cover their extents; `c` is disjoint from them, holds `m` rows of `n` elements, and
/// need not be initialised.
pub unsafe fn gemm<T: Element>(dims: Dims, c: *mut T, c_row: usize, a: Strided<T>, b: Strided<T>) {
    let Dims { m, k, n } = dims;
    for i in 0..m {
        for j in 0..n {
            let mut sum = T::Acc::default();
            for p in 0..k {
                // SAFETY: the operands cover their extents.
                let (x, y) = unsafe {
                    (
                        *a.ptr.offset(i as isize * a.row + p as isize * a.col),
                        *b.ptr.offset(p as isize * b.row + j as isize * b.col),
                    )
                };
                sum = sum.add(x.widen().mul(y.widen()));
            }
            // SAFETY: `c` holds row `i` and column `j`.
            unsafe { c.add(i * c_row + j).write(T::narrow(sum)) };
        }
    }
}

/// Writes `batch` products of the same extents, each dense, one after the other.
///
/// `offsets(i)` gives the distances in elements of the `i`-th operands from `a.ptr` and `b.ptr`.
///
/// # Safety
///
/// As for [`gemm`], for each product; `c` holds `batch * m * n` elements.
pub unsafe fn batched<T: Element>(
    batch: usize,
    dims: Dims,
    c: *mut T,
    a: Strided<T>,
    b: Strided<T>,
    offsets: impl Fn(usize) -> (isize, isize) + Sync,
) {
    let shared = Shared((c, a, b));
    crate::simd::walk::split(batch, dims.m * dims.k * dims.n, 1 << 18, |from, to| {
        let (c, a, b) = shared.get();
        for i in from..to {
            let (da, db) = offsets(i);
            // SAFETY: this function's contract.
            unsafe {
                let a = Strided { ptr: a.ptr.offset(da), ..a };
                let b = Strided { ptr: b.ptr.offset(db), ..b };
                gemm(dims, c.add(i * dims.m * dims.n), dims.n, a, b);
            }
        }
    });
}
