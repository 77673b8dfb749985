//! Matrix products of any number type, for types without a kernel of their own.

use super::number::Number;
use bb::DataType;
use half::{bf16, f16};

/// A matrix: rows and columns walked with strides in elements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matrix {
    pub(crate) ptr: *const u8,
    pub(crate) row: isize,
    pub(crate) col: isize,
}

/// Writes the row-major product of an `m` by `k` and a `k` by `n` matrix to `out`.
///
/// # Safety
///
/// `a` and `b` have elements of the type the function was chosen for at all of their indices, and
/// `out` has room for `m * n`.
pub(crate) type Product = unsafe fn(m: usize, k: usize, n: usize, a: Matrix, b: Matrix, out: *mut u8);

unsafe fn product<T: Number>(m: usize, k: usize, n: usize, a: Matrix, b: Matrix, out: *mut u8) {
    let (pa, pb, out) = (a.ptr.cast::<T>(), b.ptr.cast::<T>(), out.cast::<T>());
    let mut sums = vec![T::ZERO.widen(); n];
    for i in 0..m as isize {
        sums.fill(T::ZERO.widen());
        for l in 0..k as isize {
            for (j, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the indices are below `m`, `k` and `n`.
                unsafe {
                    let x = *pa.offset(i * a.row + l * a.col);
                    *sum = x.mul_sum(*pb.offset(l * b.row + j as isize * b.col), *sum);
                }
            }
        }
        for (j, &sum) in sums.iter().enumerate() {
            // SAFETY: the caller has room for `m * n` elements.
            unsafe { out.add(i as usize * n + j).write(T::narrow(sum)) }
        }
    }
}

/// Returns the kernel of the product, if it takes that element type.
pub(crate) fn kernel(dtype: DataType) -> Option<Product> {
    match dtype {
        DataType::F32 => Some(product::<f32>),
        DataType::F64 => Some(product::<f64>),
        DataType::F16 => Some(product::<f16>),
        DataType::BF16 => Some(product::<bf16>),
        DataType::I32 => Some(product::<i32>),
        DataType::I64 => Some(product::<i64>),
        DataType::U32 => Some(product::<u32>),
        DataType::U64 => Some(product::<u64>),
        _ => None,
    }
}
