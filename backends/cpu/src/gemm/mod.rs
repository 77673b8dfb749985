//! Matrix products over plain memory, for every number type and any strides.
//!
//! Callers give pointers, extents and strides in elements. Transposed and strided operands are read where they are, so
//! that callers copy nothing first.

mod blocked;
mod direct;
mod dot;
mod pack;
mod stream;
mod tile;
mod vector;

use bb::DataType;
use half::{bf16, f16};

use self::pack::{Slot, scratch};
use self::tile::{Compute, Kernels};
use crate::kernels::level::level;
use crate::kernels::number::Number;
use crate::kernels::{Shared, elementwise, transpose, walk};

/// A two-dimensional operand: element `(i, j)` lies `i * row + j * col` elements after `ptr`.
///
/// A stride of 0 repeats: `col` 0 is one value per row, both 0 a single scalar.
#[derive(Debug)]
pub struct Strided<T> {
    /// Element `(0, 0)`.
    pub ptr: *const T,
    /// Distance between rows, in elements.
    pub row: isize,
    /// Distance between columns, in elements.
    pub col: isize,
}

impl<T> Clone for Strided<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Strided<T> {}

impl<T> Strided<T> {
    /// Describes rows of `cols` elements that follow each other without gaps.
    pub const fn dense(ptr: *const T, cols: usize) -> Self {
        Self { ptr, row: cols.cast_signed(), col: 1 }
    }

    /// Describes the operand with rows and columns exchanged.
    pub(crate) const fn transposed(self) -> Self {
        Self { ptr: self.ptr, row: self.col, col: self.row }
    }

    /// Describes the same places as those of elements of another type.
    pub(crate) const fn cast<U>(self) -> Strided<U> {
        Strided { ptr: self.ptr.cast(), row: self.row, col: self.col }
    }

    /// Points at row `i`.
    ///
    /// # Safety
    ///
    /// Row `i` lies in the same allocation as `ptr`.
    pub(crate) const unsafe fn at_row(self, i: usize) -> Self {
        Self {
            // SAFETY: the caller keeps the row inside the allocation.
            ptr: unsafe { self.ptr.offset(self.row * i.cast_signed()) },
            ..self
        }
    }
}

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
/// If `k` is 0, the product is zero.
///
/// # Safety
///
/// The operands cover their extents; `c` is disjoint from them, holds `m` rows of `n` elements, and
/// need not be initialised.
pub unsafe fn gemm(dims: Dims, c: *mut f32, c_row: usize, a: Strided<f32>, b: Strided<f32>) {
    // SAFETY: this function has the same contract.
    unsafe { multiply(dims, c, c_row, a, b) }
}

/// Does what [`gemm`] does for any number; integers wrap, and 16-bit floats are summed in `f32`.
///
/// # Safety
///
/// As for [`gemm`].
unsafe fn multiply<T: Number>(dims: Dims, c: *mut T, c_row: usize, a: Strided<T>, b: Strided<T>)
where
    T::Sum: Compute,
{
    let Dims { m, k, n } = dims;
    if m == 0 || n == 0 {
        return;
    }
    // SAFETY: this function has the same contract; a type as wide as its sums is the type of its sums.
    unsafe {
        if k == 0 {
            for i in 0..m {
                std::slice::from_raw_parts_mut(c.add(i * c_row), n).fill(T::default());
            }
        } else if size_of::<T>() == size_of::<T::Sum>() {
            plain::<T::Sum>(dims, c.cast(), c_row, a.cast(), b.cast());
        } else {
            widened(dims, c, c_row, a, b);
        }
    }
}

/// The number of multiplications up to which packing costs more than it brings.
const SMALL: usize = 96 * 96 * 96;
/// The same number if the right operand's rows are contiguous and short enough to stay in the first cache.
const MEDIUM: usize = 160 * 160 * 160;

/// Multiplies matrices of a type whose sums have that type too.
///
/// # Safety
///
/// As for [`gemm`].
unsafe fn plain<T: Compute>(dims: Dims, c: *mut T, c_row: usize, a: Strided<T>, b: Strided<T>) {
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

/// Computes a small or thin product. The operands are read where they are; only a right one whose rows are not contiguous
/// is copied.
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
                    let (to, from) = (to.cast(), b.ptr.cast());
                    transpose::block::<true>(size_of::<T>(), n, k, to, n, from, b.col.unsigned_abs());
                } else {
                    for p in 0..k {
                        let from = b.ptr.offset(p.cast_signed() * b.row);
                        (0..n).for_each(|j| to.add(p * n + j).write(*from.offset(j.cast_signed() * b.col)));
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
    // Parts of contiguous rows are wide, because long rows are read faster.
    let each = if b.col == 1 { 1 } else { walk::PARTS };
    walk::split_into(each, dims.n, dims.k * dims.m.div_ceil(2), 1 << 17, &|from, to| {
        let (c, a, b) = shared.get();
        // SAFETY: the columns lie in the operands, and no other call writes them.
        let (c, b) = unsafe {
            (c.add(from * strides[1]), Strided { ptr: b.ptr.offset(from.cast_signed() * b.col), ..b })
        };
        // SAFETY: as above.
        unsafe { f(kernels, Dims { n: to - from, ..dims }, c, strides, a, b) };
    });
}

/// Multiplies matrices of a type narrower than its sums, which are kept in a buffer and rounded at the end.
///
/// # Safety
///
/// As for [`gemm`].
unsafe fn widened<T: Number>(dims: Dims, c: *mut T, c_row: usize, a: Strided<T>, b: Strided<T>)
where
    T::Sum: Compute,
{
    let Dims { m, n, .. } = dims;
    scratch(Slot::Sums, |sums| {
        let sums = sums.room::<T::Sum>(m * n);
        // SAFETY: this function's contract; `sums` has room for the product, which initialises it.
        unsafe {
            blocked::blocked::<T>(T::Sum::kernels(level()), dims, sums, n, a, b);
            for i in 0..m {
                let c = std::slice::from_raw_parts_mut(c.add(i * c_row), n);
                elementwise::map(c, std::slice::from_raw_parts(sums.add(i * n), n), T::narrow);
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
unsafe fn batched<T: Number>(
    batch: usize,
    dims: Dims,
    c: *mut T,
    a: Strided<T>,
    b: Strided<T>,
    offsets: &(dyn Fn(usize) -> (isize, isize) + Sync),
) where
    T::Sum: Compute,
{
    let shared = Shared((c, a, b));
    walk::split(batch, dims.m * dims.k * dims.n, 1 << 18, |from, to| {
        let (c, a, b) = shared.get();
        for i in from..to {
            let (da, db) = offsets(i);
            // SAFETY: this function has the same contract.
            unsafe {
                let a = Strided { ptr: a.ptr.offset(da), ..a };
                let b = Strided { ptr: b.ptr.offset(db), ..b };
                multiply(dims, c.add(i * dims.m * dims.n), dims.n, a, b);
            }
        }
    });
}

/// A matrix of elements whose type is known when the program runs.
pub(crate) type Matrix = Strided<u8>;

/// Writes `batch` row-major products of an `m` by `k` and a `k` by `n` matrix to `out`.
///
/// `offsets` gives each pair's distances in elements from the first.
///
/// # Safety
///
/// The operands have elements of type `dtype` at all of these indices, and `out` has room for the
/// products.
pub(crate) unsafe fn products(
    dtype: DataType,
    batch: usize,
    dims: Dims,
    a: Matrix,
    b: Matrix,
    out: *mut u8,
    offsets: &(dyn Fn(usize) -> (isize, isize) + Sync),
) {
    // SAFETY: this function has the same contract. The bits of a wrapping product are those of the signed one.
    unsafe {
        match dtype {
            DataType::F32 => batched::<f32>(batch, dims, out.cast(), a.cast(), b.cast(), offsets),
            DataType::F64 => batched::<f64>(batch, dims, out.cast(), a.cast(), b.cast(), offsets),
            DataType::F16 => batched::<f16>(batch, dims, out.cast(), a.cast(), b.cast(), offsets),
            DataType::BF16 => batched::<bf16>(batch, dims, out.cast(), a.cast(), b.cast(), offsets),
            DataType::I32 | DataType::U32 => {
                batched::<i32>(batch, dims, out.cast(), a.cast(), b.cast(), offsets);
            }
            DataType::I64 | DataType::U64 => {
                batched::<i64>(batch, dims, out.cast(), a.cast(), b.cast(), offsets);
            }
            _ => debug_assert!(!multiplies(dtype), "`multiplies` takes no type that is missing here"),
        }
    }
}

/// Tells whether [`products`] takes an element type.
pub(crate) fn multiplies(dtype: DataType) -> bool {
    use DataType::{BF16, F16, F32, F64, I32, I64, U32, U64};
    matches!(dtype, F32 | F64 | F16 | BF16 | I32 | I64 | U32 | U64)
}

#[cfg(test)]
mod tests;
