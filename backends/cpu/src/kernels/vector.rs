//! The vector kernels of [`simd`](crate::simd) and [`gemm`](crate::gemm), reached by element type.
//!
//! Worth their set-up from a few dozen elements on; for fewer see the neighbours of this module.

use super::{binary, reduce, unary};
use crate::gemm::{Dims as Extents, Element, batched};
use crate::layout::Dim;
use crate::simd::element::{Binary, Math, MathFn, Number, Sign};
use crate::simd::{Strided, compare, select};
use bb::DataType;
use half::{bf16, f16};

/// Elements from which the vector kernels pay.
pub(crate) const FEW: usize = 32;

/// The two innermost dimensions of a loop over `N` operands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plane<const N: usize> {
    pub(crate) extents: [usize; 2],
    rows: [isize; N],
    cols: [isize; N],
}

impl<const N: usize> Plane<N> {
    /// Splits the two innermost dimensions off the others.
    pub(crate) fn split(dims: &[Dim<N>]) -> (&[Dim<N>], Plane<N>) {
        let plane = |rows: Option<&Dim<N>>, cols: Option<&Dim<N>>| {
            let part = |d: Option<&Dim<N>>| d.map_or((1, [0; N]), |d| (d.extent, d.strides));
            let ((r, rows), (c, cols)) = (part(rows), part(cols));
            Plane { extents: [r, c], rows, cols }
        };
        match dims {
            [] => (dims, plane(None, None)),
            [cols] => (&[], plane(None, Some(cols))),
            [outer @ .., rows, cols] => (outer, plane(Some(rows), Some(cols))),
        }
    }

    /// Returns the number of elements.
    pub(crate) fn len(&self) -> usize {
        let [rows, cols] = self.extents;
        rows * cols
    }

    /// Describes operand `i`, whose first element `ptr` points at.
    fn operand<T>(&self, i: usize, ptr: *const u8) -> Strided<T> {
        let stride = |list: &[isize; N]| list.get(i).copied().unwrap_or(0);
        Strided { ptr: ptr.cast(), row: stride(&self.rows), col: stride(&self.cols) }
    }
}

/// Runs a body with a name for the Rust type of the elements.
macro_rules! with_type {
    ([$($variant:ident: $t:ty),*] $dtype:expr, $name:ident => $body:expr) => {
        match $dtype { $( DataType::$variant => { type $name = $t; $body } )* _ => {} }
    };
    (float $dtype:expr, $name:ident => $body:expr) => {
        with_type!([F32: f32, F64: f64, F16: f16, BF16: bf16] $dtype, $name => $body)
    };
    (number $dtype:expr, $name:ident => $body:expr) => {
        with_type!([F32: f32, F64: f64, F16: f16, BF16: bf16, I8: i8, I16: i16, I32: i32, I64: i64,
            U8: u8, U16: u16, U32: u32, U64: u64] $dtype, $name => $body)
    };
    (equatable $dtype:expr, $name:ident => $body:expr) => {
        with_type!([F32: f32, F64: f64, F16: f16, BF16: bf16, I8: i8, I16: i16, I32: i32, I64: i64,
            U8: u8, U16: u16, U32: u32, U64: u64, Bool: u8] $dtype, $name => $body)
    };
}

/// Computes an operation on two elements of one type; `out` has no gaps.
///
/// # Safety
///
/// `a` and `b` have elements of type `dtype`, which the operation takes, at every index of the plane,
/// and `out` has room for as many results.
pub(crate) unsafe fn binary(
    kind: binary::Kind,
    dtype: DataType,
    plane: &Plane<2>,
    out: *mut u8,
    a: *const u8,
    b: *const u8,
) {
    use binary::Kind;
    let op = match kind {
        Kind::Add => Binary::Add,
        Kind::Sub => Binary::Sub,
        Kind::Mul => Binary::Mul,
        Kind::Div => Binary::Div,
        Kind::Pow => Binary::Pow,
        // SAFETY: the caller's promise.
        Kind::Equal => return unsafe { compared(compare::Compare::Equal, dtype, plane, out, a, b) },
        // SAFETY: as above.
        Kind::Greater => return unsafe { compared(compare::Compare::Greater, dtype, plane, out, a, b) },
        // SAFETY: as above.
        Kind::Less => return unsafe { compared(compare::Compare::Less, dtype, plane, out, a, b) },
    };
    // SAFETY: the caller's promise.
    unsafe { arithmetic(op, dtype, plane, out, a, b) }
}

/// Computes an arithmetic operation on two numbers of one type; `out` has no gaps.
///
/// # Safety
///
/// As for [`binary()`].
pub(crate) unsafe fn arithmetic(
    op: Binary,
    dtype: DataType,
    plane: &Plane<2>,
    out: *mut u8,
    a: *const u8,
    b: *const u8,
) {
    // SAFETY: the caller's promise.
    with_type!(number dtype, T => unsafe {
        crate::simd::binary::binary::<T>(op, plane.extents, out.cast(), plane.operand(0, a), plane.operand(1, b));
    });
}

unsafe fn compared(
    op: compare::Compare,
    dtype: DataType,
    plane: &Plane<2>,
    out: *mut u8,
    a: *const u8,
    b: *const u8,
) {
    // SAFETY: the caller's promise.
    with_type!(equatable dtype, T => unsafe {
        compare::compare::<T>(op, plane.extents, out, plane.operand(0, a), plane.operand(1, b));
    });
}

/// Computes an operation on one element; `out` has no gaps.
///
/// # Safety
///
/// As for [`binary()`].
pub(crate) unsafe fn unary(kind: unary::Kind, dtype: DataType, plane: &Plane<1>, out: *mut u8, x: *const u8) {
    use unary::Kind;
    // SAFETY: the caller's promise.
    unsafe {
        match kind {
            Kind::Neg => signed(Sign::Neg, dtype, plane, out, x),
            Kind::Abs => signed(Sign::Abs, dtype, plane, out, x),
            Kind::Sqrt => math(MathFn::Sqrt, dtype, plane, out, x),
            Kind::Exp => math(MathFn::Exp, dtype, plane, out, x),
            Kind::Log => math(MathFn::Log, dtype, plane, out, x),
        }
    }
}

/// Computes an operation on the sign of numbers; `out` has no gaps.
///
/// # Safety
///
/// As for [`binary()`].
pub(crate) unsafe fn signed(op: Sign, dtype: DataType, plane: &Plane<1>, out: *mut u8, x: *const u8) {
    // SAFETY: the caller's promise.
    with_type!(number dtype, T => unsafe {
        crate::simd::unary::sign::<T>(op, plane.extents, out.cast(), plane.operand(0, x));
    });
}

/// Computes a function of floating-point elements; `out` has no gaps.
///
/// # Safety
///
/// As for [`binary()`].
pub(crate) unsafe fn math(op: MathFn, dtype: DataType, plane: &Plane<1>, out: *mut u8, x: *const u8) {
    fn run<T: Math>(op: MathFn, plane: &Plane<1>, out: *mut u8, x: *const u8) {
        // SAFETY: the caller's promise.
        unsafe { crate::simd::unary::math::<T>(op, plane.extents, out.cast(), plane.operand(0, x)) }
    }
    with_type!(float dtype, T => run::<T>(op, plane, out, x));
}

/// Writes `x` where the condition is true, else `y`; `out` has no gaps. False if there is no kernel
/// for elements of `size` bytes.
///
/// # Safety
///
/// The operands have elements at every index of the plane, the condition's of one byte, the others'
/// of `size`, aligned for integers of that size, and `out` has room for as many.
pub(crate) unsafe fn select(
    plane: &Plane<3>,
    size: usize,
    out: *mut u8,
    condition: *const u8,
    x: *const u8,
    y: *const u8,
) -> bool {
    unsafe fn run<T: Copy + Send + Sync>(
        plane: &Plane<3>,
        out: *mut u8,
        c: *const u8,
        x: *const u8,
        y: *const u8,
    ) -> bool {
        let (c, x, y) = (plane.operand(0, c), plane.operand(1, x), plane.operand(2, y));
        // SAFETY: the caller's promise.
        unsafe { select::select::<T>(plane.extents, out.cast(), c, x, y) };
        true
    }
    // SAFETY: the caller's promise.
    unsafe {
        match size {
            1 => run::<u8>(plane, out, condition, x, y),
            2 => run::<u16>(plane, out, condition, x, y),
            4 => run::<u32>(plane, out, condition, x, y),
            8 if x.addr().is_multiple_of(8) && y.addr().is_multiple_of(8) => {
                run::<u64>(plane, out, condition, x, y)
            }
            _ => false,
        }
    }
}

/// Tells whether an element of an integer type is zero.
///
/// # Safety
///
/// `x` has elements of type `dtype` at every index of the plane.
pub(crate) unsafe fn contains_zero(dtype: DataType, plane: &Plane<1>, x: *const u8) -> bool {
    let mut found = false;
    // SAFETY: the caller's promise.
    with_type!(number dtype, T => unsafe {
        found = crate::simd::binary::contains_zero::<T>(plane.extents, plane.operand(0, x));
    });
    found
}

/// Reduces the middle of three dimensions of floats.
///
/// # Safety
///
/// `x` has elements of type `dtype` at every index of `extents`, `out` room for the results.
pub(crate) unsafe fn reduce(
    kind: reduce::Kind,
    dtype: DataType,
    extents: [usize; 3],
    strides: [isize; 3],
    x: *const u8,
    out: *mut u8,
) {
    use crate::simd::reduce::Reduce;
    let op = match kind {
        reduce::Kind::Sum => Reduce::Sum,
        reduce::Kind::Mean => Reduce::Mean,
        reduce::Kind::Max => Reduce::Max,
        reduce::Kind::Min => Reduce::Min,
    };
    fn run<T: Number>(op: Reduce, extents: [usize; 3], strides: [isize; 3], x: *const u8, out: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { crate::simd::reduce::reduce::<T>(op, extents, out.cast(), x.cast(), strides) }
    }
    with_type!(float dtype, T => run::<T>(op, extents, strides, x, out));
}

/// A matrix: rows and columns walked with strides in elements.
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
    extents: Extents,
    a: Matrix,
    b: Matrix,
    out: *mut u8,
    offsets: impl Fn(usize) -> (isize, isize) + Sync,
) {
    fn run<T: Element>(
        batch: usize,
        extents: Extents,
        a: Matrix,
        b: Matrix,
        out: *mut u8,
        offsets: impl Fn(usize) -> (isize, isize) + Sync,
    ) {
        let of = |x: Matrix| Strided::<T> { ptr: x.ptr.cast(), row: x.row, col: x.col };
        // SAFETY: the caller's promise.
        unsafe { batched::<T>(batch, extents, out.cast(), of(a), of(b), offsets) }
    }
    with_type!([F32: f32, F64: f64, F16: f16, BF16: bf16, I32: i32, I64: i64, U32: u32, U64: u64] dtype,
        T => run::<T>(batch, extents, a, b, out, offsets));
}

/// Tells whether [`products`] takes an element type.
pub(crate) fn multiplies(dtype: DataType) -> bool {
    use DataType::{BF16, F16, F32, F64, I32, I64, U32, U64};
    matches!(dtype, F32 | F64 | F16 | BF16 | I32 | I64 | U32 | U64)
}
