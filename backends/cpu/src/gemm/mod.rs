//! Matrix products on raw memory, for every number type and any strides.
//!
//! Callers pass pointers, extents and strides in elements. Transposed and strided operands are read in place, so
//! callers do not need to copy them first.

mod blocked;
pub(crate) mod blocks;
mod direct;
mod dot;
#[cfg(target_arch = "aarch64")]
mod elements;
mod end;
pub(crate) mod floats;
mod grid;
pub(crate) mod integer;
pub(crate) mod n_bits;
pub(crate) mod pack;
pub(crate) mod panels;
mod phases;
mod plus;
mod stream;
mod tile;
pub(crate) mod vector;

use bb::DataType;
use half::{bf16, f16};

use self::blocked::{Large, Wide};
pub(crate) use self::blocked::{packed, panel_width};
pub(crate) use self::direct::ordered;
pub(crate) use self::end::{Around, End};
use self::pack::{Slot, scratch};
pub(crate) use self::plus::gemm_plus;
use self::tile::{Compute, TileKernels};
use crate::caches::second_level;
use crate::kernels::half::narrow_all;
use crate::kernels::number::Number;
use crate::kernels::{Shared, transpose, walk};
use crate::level::level;
use crate::pace::{self, STRETCH};

/// A two-dimensional operand. Element `(i, j)` is `i * row + j * col` elements after `ptr`.
///
/// A stride of 0 repeats elements: if `col` is 0, each row has one value; if both are 0, the operand is a scalar.
#[derive(Debug)]
pub struct Strided<T> {
    /// Points to element `(0, 0)`.
    pub ptr: *const T,
    /// The distance between rows, in elements.
    pub row: isize,
    /// The distance between columns, in elements.
    pub col: isize,
}

impl<T> Clone for Strided<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Strided<T> {}

impl<T> Strided<T> {
    /// Describes contiguous rows of `cols` elements, without gaps between the rows.
    pub const fn dense(ptr: *const T, cols: usize) -> Self {
        Self { ptr, row: cols.cast_signed(), col: 1 }
    }

    /// Returns a description of the transposed operand.
    pub(crate) const fn transposed(self) -> Self {
        Self { ptr: self.ptr, row: self.col, col: self.row }
    }

    /// Returns a description of the same layout for elements of another type.
    pub(crate) const fn cast<U>(self) -> Strided<U> {
        Strided { ptr: self.ptr.cast(), row: self.row, col: self.col }
    }

    /// Returns a description of the operand from row `i` on.
    ///
    /// # Safety
    ///
    /// Row `i` is in the same allocation as `ptr`.
    pub(crate) const unsafe fn at_row(self, i: usize) -> Self {
        Self {
            // SAFETY: the caller guarantees that the row is in the allocation.
            ptr: unsafe { self.ptr.offset(self.row * i.cast_signed()) },
            ..self
        }
    }
}

/// The extents of a product: `[m, k]` times `[k, n]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dims {
    /// The rows of the left operand and of the product.
    pub m: usize,
    /// The columns of the left operand and the rows of the right one.
    pub k: usize,
    /// The columns of the right operand and of the product.
    pub n: usize,
}

/// Writes the product of `a: [m, k]` and `b: [k, n]` to `c`, whose rows are contiguous and `c_row` elements apart.
///
/// If `k` is 0, the product is zero.
///
/// # Safety
///
/// The operands cover their extents. `c` is disjoint from them and holds `m` rows of `n` elements, which need not be
/// initialised.
pub unsafe fn gemm(dims: Dims, c: *mut f32, c_row: usize, a: Strided<f32>, b: Strided<f32>) {
    // SAFETY: this function has the same contract.
    unsafe { multiply(dims, c, c_row, a, b) }
}

/// Computes the same product as [`gemm`] for any number type. Integers wrap, and 16-bit floats are summed in `f32`.
///
/// # Safety
///
/// Same as for [`gemm`].
unsafe fn multiply<T: Number>(dims: Dims, c: *mut T, c_row: usize, a: Strided<T>, b: Strided<T>)
where
    T::Sum: Compute,
{
    let Dims { m, k, n } = dims;
    if m == 0 || n == 0 {
        return;
    }
    // SAFETY: this function has the same contract. If `T` is as wide as the type of its sums, both are the same type.
    unsafe {
        if k == 0 {
            for i in 0..m {
                std::slice::from_raw_parts_mut(c.add(i * c_row), n).fill(T::default());
            }
        } else if size_of::<T>() == size_of::<T::Sum>() {
            halved::<T::Sum>(dims, c.cast(), c_row, a.cast(), b.cast(), plain::<T::Sum>);
        } else {
            widened(dims, c, c_row, a, b);
        }
    }
}

/// Packing costs more than it saves up to this number of multiplications.
const SMALL: usize = 96 * 96 * 96;
/// The value of [`SMALL`] for a right operand with contiguous rows, which are short enough for the first-level cache.
const MEDIUM: usize = 160 * 160 * 160;

/// The maximum `k` of a product with few rows or columns that is summed without splitting. A larger `k` is split into
/// halves whose sums are added, so that the error grows with the logarithm of `k`.
const DEEP: usize = 1 << 12;
/// The value of [`DEEP`] for other products, whose `k` [`blocked`] cuts into passes anyway.
const DEEP_BLOCKED: usize = 1 << 16;
/// [`DEEP_BLOCKED`] applies if there are at least this many rows and columns.
const THIN: usize = 16;

/// Returns the maximum `k` that is summed without splitting it into halves.
fn deepest(Dims { m, n, .. }: Dims) -> usize {
    if m.min(n) < THIN { DEEP } else { DEEP_BLOCKED }
}

/// Computes a product. If the inner dimension is long, splits it into halves and adds their products. `f` computes a
/// product that is not split: its operands have the type `T`, its result has the type of the sums of `T`.
///
/// # Safety
///
/// Same as for [`gemm`]; `f` has the contract of [`gemm`] for its types.
unsafe fn halved<T: Number>(
    dims: Dims,
    c: *mut T::Sum,
    c_row: usize,
    a: Strided<T>,
    b: Strided<T>,
    f: unsafe fn(Dims, *mut T::Sum, usize, Strided<T>, Strided<T>),
) {
    let Dims { m, k, n } = dims;
    if k <= deepest(dims) {
        // SAFETY: this function has the same contract.
        return unsafe { f(dims, c, c_row, a, b) };
    }
    if m.saturating_mul(k).saturating_mul(n) > STRETCH {
        pace::look();
    }
    // A multiple of 64, so that both halves are aligned alike.
    let half = (k / 2).next_multiple_of(64);
    // SAFETY: this function's contract; both halves are in the operands, and the room holds the second one's product.
    unsafe {
        halved(Dims { k: half, ..dims }, c, c_row, a, b, f);
        let a = Strided { ptr: a.ptr.offset(half.cast_signed() * a.col), ..a };
        let b = b.at_row(half);
        scratch(Slot::Part, |room| {
            let part = room.room::<T::Sum>(m * n);
            halved(Dims { k: k - half, ..dims }, part, n, a, b, f);
            for i in 0..m {
                let c = std::slice::from_raw_parts_mut(c.add(i * c_row), n);
                let part = std::slice::from_raw_parts(part.add(i * n), n);
                c.iter_mut().zip(part).for_each(|(c, &part)| *c = c.add(part));
            }
        });
    }
}

/// The algorithm for a product that is not split into halves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// As dot products.
    Dots,
    /// As the transposed product, because the product has one column.
    Column,
    /// With tiles that read the operands in place, because there are few rows.
    Row,
    /// With tiles that read the operands in place, because the product is small.
    Small,
    /// In blocks of the operands, which are packed if necessary.
    Blocked,
}

impl Way {
    fn new<T>(kernels: &TileKernels<T>, dims: Dims, c_row: usize, a: Strided<T>, b: Strided<T>) -> Way {
        let Dims { m, k, n } = dims;
        let (few, thin) = (kernels.wide.len(), m.min(n));
        if a.col == 1 && b.row == 1 && (thin <= 2 || (thin <= few && k >= 8 * thin) || m * n <= 16) {
            return Way::Dots;
        }
        if n == 1 && a.row == 1 && c_row == 1 && m > 1 {
            return Way::Column;
        }
        if b.col == 1 && m <= few {
            return Way::Row;
        }
        let most = if b.col == 1 && n <= 192 { MEDIUM } else { SMALL };
        let is_small = m.saturating_mul(k).saturating_mul(n) <= most || k <= 4;
        if is_small { Way::Small } else { Way::Blocked }
    }
}

/// Multiplies matrices whose elements have the same type as the sums.
///
/// # Safety
///
/// Same as for [`gemm`].
unsafe fn plain<T: Compute>(dims: Dims, c: *mut T, c_row: usize, a: Strided<T>, b: Strided<T>) {
    let Dims { m, k, n } = dims;
    let kernels = T::kernels(level());
    // SAFETY: this function's contract. The transposed product's single row is contiguous because `c` has one column.
    unsafe {
        match Way::new(kernels, dims, c_row, a, b) {
            Way::Dots if n < m => {
                let dims = Dims { m: n, k, n: m };
                skinny(dims, c, [1, c_row], kernels, b.transposed(), a.transposed(), direct::dots);
            }
            Way::Dots => skinny(dims, c, [c_row, 1], kernels, a, b, direct::dots),
            Way::Column => {
                let dims = Dims { m: 1, k, n: m };
                skinny(dims, c, [m, 1], kernels, b.transposed(), a.transposed(), direct::row);
            }
            Way::Row => skinny(dims, c, [c_row, 1], kernels, a, b, direct::row),
            Way::Small => small(kernels, dims, c, c_row, a, b, Around::NONE),
            Way::Blocked => {
                let (b, around) = (Wide::Strided(b), Around::NONE);
                Large::<T> { kernels, dims, c, c_row, a, b, around }.compute();
            }
        }
    }
}

/// A function that computes a part of a product. The first `Dims` are the extents of the whole product, the second ones
/// the extents of the part.
type Skinny<T> = unsafe fn(&TileKernels<T>, Dims, Dims, *mut T, [usize; 2], Strided<T>, Strided<T>);

/// Computes a product that is small or has few rows or columns, and applies the steps in `around`. The operands are
/// read in place, except that a right operand whose rows are not contiguous is copied.
///
/// # Safety
///
/// Same as for [`gemm`]; `around.plus` is null or points to `m` elements. A single row has no steps in `around`.
unsafe fn small<T: Compute>(
    kernels: &'static TileKernels<T>,
    dims: Dims,
    c: *mut T,
    c_row: usize,
    a: Strided<T>,
    b: Strided<T>,
    around: Around<T>,
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
                small(kernels, dims, c, c_row, a, Strided::dense(to, n), around);
            }
        });
    }
    // If the result does not fit in the cache, it is computed in slices as high as one tile, each from left to right:
    // higher slices would touch one page per row for each column of tiles.
    let is_far = m.saturating_mul(n) * size_of::<T>() > second_level() / 2;
    let rows = if is_far { kernels.wide.len().max(1) } else { m.max(1) };
    let shared = Shared((c, a, b, around));
    walk::split(m, n * (k + 1), 1 << 18, |from, to| {
        let (c, a, b, around) = shared.get();
        for top in (from..to).step_by(rows) {
            // SAFETY: the rows are in the operands, and no other call writes them.
            unsafe {
                direct::direct(
                    kernels,
                    dims,
                    Dims { m: rows.min(to - top), ..dims },
                    c.add(top * c_row),
                    c_row,
                    a.at_row(top),
                    b,
                    around.at_row(top),
                );
            }
        }
    });
}

/// Splits the columns of a product with few rows or columns over the threads. Each element of the right operand is read
/// only once, so memory bandwidth limits the speed.
///
/// # Safety
///
/// Same as for [`gemm`]; `strides` are the strides of the result.
unsafe fn skinny<T: Compute>(
    dims: Dims,
    c: *mut T,
    strides: [usize; 2],
    kernels: &'static TileKernels<T>,
    a: Strided<T>,
    b: Strided<T>,
    f: Skinny<T>,
) {
    let shared = Shared((c, a, b));
    // If rows are contiguous, the parts are wide, because long rows are read faster.
    let each = if b.col == 1 { 1 } else { walk::PARTS };
    walk::split_into(each, dims.n, dims.k * dims.m.div_ceil(2), 1 << 17, &|from, to| {
        let (c, a, b) = shared.get();
        // SAFETY: the columns are in the operands, and no other call writes them.
        let (c, b) = unsafe {
            (c.add(from * strides[1]), Strided { ptr: b.ptr.offset(from.cast_signed() * b.col), ..b })
        };
        // SAFETY: as above.
        unsafe { f(kernels, dims, Dims { n: to - from, ..dims }, c, strides, a, b) };
    });
}

/// Multiplies matrices whose element type is narrower than the type of the sums. The sums are kept in a buffer and
/// rounded at the end.
///
/// # Safety
///
/// Same as for [`gemm`].
unsafe fn widened<T: Number>(dims: Dims, c: *mut T, c_row: usize, a: Strided<T>, b: Strided<T>)
where
    T::Sum: Compute,
{
    let Dims { m, n, .. } = dims;
    scratch(Slot::Sums, |sums| {
        let sums = sums.room::<T::Sum>(m * n);
        // SAFETY: this function's contract; `sums` has room for the product, which initialises it.
        unsafe {
            halved::<T>(dims, sums, n, a, b, |dims, c, c_row, a, b| {
                let kernels = T::Sum::kernels(level());
                let (b, around) = (Wide::Strided(b), Around::NONE);
                Large::<T> { kernels, dims, c, c_row, a, b, around }.compute();
            });
            for i in 0..m {
                narrow_all::<T>(c.add(i * c_row), sums.add(i * n), n);
            }
        }
    });
}

/// Writes `batch` contiguous products with the same extents, one after another.
///
/// `offsets(i)` returns the offsets of the operands of product `i` from `a.ptr` and `b.ptr`, in elements.
///
/// # Safety
///
/// Same as for [`gemm`], for each product; `c` holds `batch * m * n` elements.
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

/// A matrix whose element type is known only at run time.
pub(crate) type Matrix = Strided<u8>;

/// Writes `batch` row-major products of an `m` by `k` matrix and a `k` by `n` matrix to `out`.
///
/// `offsets(i)` returns the offsets of the operands of product `i` from `a` and `b`, in elements.
///
/// # Safety
///
/// The operands have elements of type `dtype` at all indices that are read, and `out` has room for the products.
pub(crate) unsafe fn products(
    dtype: DataType,
    batch: usize,
    dims: Dims,
    a: Matrix,
    b: Matrix,
    out: *mut u8,
    offsets: &(dyn Fn(usize) -> (isize, isize) + Sync),
) {
    // SAFETY: this function has the same contract. Wrapping products of signed and unsigned integers have the same
    // bits.
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

/// Returns whether [`products`] supports an element type.
pub(crate) fn multiplies(dtype: DataType) -> bool {
    use DataType::{BF16, F16, F32, F64, I32, I64, U32, U64};
    matches!(dtype, F32 | F64 | F16 | BF16 | I32 | I64 | U32 | U64)
}

#[cfg(test)]
mod tests;
