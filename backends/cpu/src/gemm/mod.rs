//! Matrix products over plain memory, for every number type and any strides.
//!
//! It knows no tensors: callers give pointers, extents and strides in elements. Transposed and
//! strided operands are read as they are; nothing needs to be copied first.

mod blocked;
mod direct;
mod dot;
mod pack;
mod stream;
mod tile;
mod vector;

use half::{bf16, f16};

use self::pack::{Slot, scratch};
use self::tile::{Compute, Kernels};
pub use crate::simd::Strided;
use crate::simd::element::Number;
use crate::simd::{Shared, level, loops, transpose, walk};

/// A number that matrices can hold.
pub trait Element: Number {
    /// The type products are summed in.
    type Acc: Number;
    /// Widens.
    fn widen(self) -> Self::Acc;
    /// Rounds or wraps.
    fn narrow(x: Self::Acc) -> Self;
    /// Multiplies matrices as [`gemm`] does.
    ///
    /// # Safety
    ///
    /// As for [`gemm`].
    unsafe fn gemm(dims: Dims, c: *mut Self, c_row: usize, a: Strided<Self>, b: Strided<Self>);
}

macro_rules! elements {
    ($($t:ty, $acc:ty, $widen:expr, $narrow:expr, $gemm:ident;)*) => {$(
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
            unsafe fn gemm(dims: Dims, c: *mut Self, c_row: usize, a: Strided<Self>, b: Strided<Self>) {
                if dims.m == 0 || dims.n == 0 {
                    return;
                }
                if dims.k == 0 {
                    for i in 0..dims.m {
                        // SAFETY: row `i` lies in `c`.
                        unsafe { std::slice::from_raw_parts_mut(c.add(i * c_row), dims.n) }.fill(Self::default());
                    }
                    return;
                }
                // SAFETY: the caller's promise.
                unsafe { $gemm(dims, c, c_row, a, b) }
            }
        }
    )*};
}

elements!(
    f32, f32, |x| x, |x| x, plain;
    f64, f64, |x| x, |x| x, plain;
    f16, f32, f16::to_f32, f16::from_f32, widened;
    bf16, f32, bf16::to_f32, bf16::from_f32, widened;
    i8, i32, i32::from, |x| x as i8, widened;
    u8, i32, i32::from, |x| x as u8, widened;
    i16, i32, i32::from, |x| x as i16, widened;
    u16, i32, i32::from, |x| x as u16, widened;
    i32, i32, |x| x, |x| x, plain;
    u32, i32, |x| x as i32, |x| x as u32, aliased;
    i64, i64, |x| x, |x| x, plain;
    u64, i64, |x| x as i64, |x| x as u64, aliased;
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
    // SAFETY: this function's contract.
    unsafe { T::gemm(dims, c, c_row, a, b) }
}

/// Multiplications up to which packing costs more than it brings.
const SMALL: usize = 96 * 96 * 96;
/// The same, if the right operand's rows are contiguous and few enough to stay in the first cache.
const MEDIUM: usize = 160 * 160 * 160;

/// A product in the type its sums are kept in.
///
/// # Safety
///
/// As for [`gemm`].
unsafe fn plain<T: Element<Acc = T> + Compute>(
    dims: Dims,
    c: *mut T,
    c_row: usize,
    a: Strided<T>,
    b: Strided<T>,
) {
    let Dims { m, k, n } = dims;
    let kernels = T::kernels(level());
    let few = kernels.wide.len();
    // SAFETY: this function's contract; the second form computes the transposed product, whose
    // single row is contiguous because `c` has one column.
    unsafe {
        let thin = m.min(n);
        if a.col == 1 && b.row == 1 && (thin <= 2 || (thin <= few && k >= 8 * thin) || m * n <= 16) {
            if n < m {
                let dims = Dims { m: n, k, n: m };
                return skinny(dims, c, [1, c_row], kernels, b.transposed(), a.transposed(), direct::dots);
            }
            return skinny(dims, c, [c_row, 1], kernels, a, b, direct::dots);
        }
        if n == 1 && a.row == 1 && c_row == 1 && m > 1 {
            let dims = Dims { m: 1, k, n: m };
            return skinny(dims, c, [m, 1], kernels, b.transposed(), a.transposed(), direct::row);
        }
        if b.col == 1 && m <= few {
            return skinny(dims, c, [c_row, 1], kernels, a, b, direct::row);
        }
        let most = if b.col == 1 && n <= 192 { MEDIUM } else { SMALL };
        if m.saturating_mul(k).saturating_mul(n) <= most || k <= 4 {
            return small(kernels, dims, c, c_row, a, b);
        }
        blocked::blocked::<T>(kernels, dims, c, c_row, a, b);
    }
}

type Skinny<T> = unsafe fn(&Kernels<T>, Dims, *mut T, [usize; 2], Strided<T>, Strided<T>);

/// A small or thin product, whose operands are read where they are; the right one is copied only if
/// its rows are not contiguous.
///
/// # Safety
///
/// As for [`gemm`].
unsafe fn small<T: Compute>(
    kernels: &'static Kernels<T>,
    dims: Dims,
    c: *mut T,
    c_row: usize,
    a: Strided<T>,
    b: Strided<T>,
) {
    let Dims { m, k, n } = dims;
    if b.col != 1 {
        return scratch(Slot::Right, |room| {
            let to = room.room::<T>(k * n);
            // SAFETY: this function's contract; the copy has room for `k` rows of `n` elements.
            unsafe {
                if b.row == 1 && b.col >= 0 && k >= 4 {
                    transpose::block::<T, true>(n, k, to, n, b.ptr, b.col as usize);
                } else {
                    for p in 0..k {
                        let from = b.ptr.offset(p as isize * b.row);
                        (0..n).for_each(|j| to.add(p * n + j).write(*from.offset(j as isize * b.col)));
                    }
                }
                small(kernels, dims, c, c_row, a, Strided::dense(to, n));
            }
        });
    }
    let shared = Shared((c, a, b));
    walk::split(m, n * (k + 1), 1 << 18, |from, to| {
        let (c, a, b) = shared.get();
        // SAFETY: the rows lie in the operands, and no other call writes them.
        unsafe {
            direct::direct(
                kernels,
                Dims { m: to - from, ..dims },
                c.add(from * c_row),
                c_row,
                a.at_row(from),
                b,
            );
        }
    });
}

/// Splits the columns of a product of few rows over the threads: such a product reads its right
/// operand once, so memory limits it.
///
/// # Safety
///
/// As for [`gemm`], with the result's strides.
unsafe fn skinny<T: Compute>(
    dims: Dims,
    c: *mut T,
    strides: [usize; 2],
    kernels: &'static Kernels<T>,
    a: Strided<T>,
    b: Strided<T>,
    f: Skinny<T>,
) {
    let shared = Shared((c, a, b));
    // Parts of contiguous rows had better be wide.
    let each = if b.col == 1 { 1 } else { walk::PARTS };
    walk::split_into(each, dims.n, dims.k * dims.m.div_ceil(2), 1 << 17, |from, to| {
        let (c, a, b) = shared.get();
        // SAFETY: the columns lie in the operands, and no other call writes them.
        let (c, b) =
            unsafe { (c.add(from * strides[1]), Strided { ptr: b.ptr.offset(from as isize * b.col), ..b }) };
        // SAFETY: as above.
        unsafe { f(kernels, Dims { n: to - from, ..dims }, c, strides, a, b) };
    });
}

/// A product of unsigned integers, whose bits are those of the signed one.
///
/// # Safety
///
/// As for [`gemm`].
unsafe fn aliased<T: Element>(dims: Dims, c: *mut T, c_row: usize, a: Strided<T>, b: Strided<T>)
where
    T::Acc: Element<Acc = T::Acc> + Compute,
{
    let cast = |x: Strided<T>| Strided { ptr: x.ptr.cast::<T::Acc>(), row: x.row, col: x.col };
    // SAFETY: this function's contract; both types have one size and alignment, and any bits are valid.
    unsafe { plain(dims, c.cast::<T::Acc>(), c_row, cast(a), cast(b)) }
}

/// A product of a type narrower than its sums: computed apart, then rounded or wrapped.
///
/// # Safety
///
/// As for [`gemm`].
unsafe fn widened<T: Element>(dims: Dims, c: *mut T, c_row: usize, a: Strided<T>, b: Strided<T>)
where
    T::Acc: Compute,
{
    let Dims { m, n, .. } = dims;
    scratch(Slot::Sums, |sums| {
        let sums = sums.room::<T::Acc>(m * n);
        // SAFETY: this function's contract; `sums` has room for the product, which initialises it.
        unsafe {
            blocked::blocked::<T>(T::Acc::kernels(level()), dims, sums, n, a, b);
            for i in 0..m {
                loops::map(c.add(i * c_row), sums.add(i * n).cast_const(), n, T::narrow);
            }
        }
    });
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
    walk::split(batch, dims.m * dims.k * dims.n, 1 << 18, |from, to| {
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

#[cfg(test)]
mod tests;
