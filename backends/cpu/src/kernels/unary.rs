//! Operations on one element, row by row.

use super::number::{Float, Number};
use bb::DataType;
use half::{bf16, f16};

/// Computes `n` elements of `out`, which has no gaps, from `x` walked with a stride in elements.
///
/// # Safety
///
/// `x` has `n` elements of the type the function was chosen for at its stride, and `out` has room
/// for `n` results.
pub(crate) type Row = unsafe fn(n: usize, x: *const u8, stride: isize, out: *mut u8);

trait Op<T> {
    fn apply(x: T) -> T;
}

unsafe fn row<T: Copy, O: Op<T>>(n: usize, x: *const u8, stride: isize, out: *mut u8) {
    let (x, out) = (x.cast::<T>(), out.cast::<T>());
    // SAFETY: the caller's promise covers every index below `n`.
    unsafe {
        if stride == 1 {
            (0..n).for_each(|i| out.add(i).write(O::apply(*x.add(i))));
        } else {
            (0..n as isize).for_each(|i| out.offset(i).write(O::apply(*x.offset(i * stride))));
        }
    }
}

macro_rules! operations {
    ($($op:ident: $bound:ident, |$x:ident| $apply:expr;)*) => {$(
        struct $op;
        impl<T: $bound> Op<T> for $op {
            #[inline(always)]
            fn apply($x: T) -> T { $apply }
        }
    )*};
}

operations! {
    Neg: Number, |x| x.neg();
    Abs: Number, |x| x.abs();
    Sqrt: Float, |x| x.sqrt();
    Exp: Float, |x| x.exp();
    Log: Float, |x| x.log();
}

/// Which operation on one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Neg,
    Abs,
    Sqrt,
    Exp,
    Log,
}

macro_rules! by_type {
    ($dtype:expr, $op:ident, [$($variant:ident: $t:ty),*]) => {
        match $dtype { $( DataType::$variant => Some(row::<$t, $op> as Row), )* _ => None }
    };
    (floats $dtype:expr, $op:ident) => { by_type!($dtype, $op, [F32: f32, F64: f64, F16: f16, BF16: bf16]) };
    (numbers $dtype:expr, $op:ident) => {
        by_type!($dtype, $op, [F32: f32, F64: f64, F16: f16, BF16: bf16, I8: i8, I16: i16, I32: i32, I64: i64,
            U8: u8, U16: u16, U32: u32, U64: u64])
    };
}

/// Returns the kernel of an operation, if it takes that element type.
pub(crate) fn kernel(kind: Kind, dtype: DataType) -> Option<Row> {
    match kind {
        Kind::Neg => by_type!(numbers dtype, Neg),
        Kind::Abs => by_type!(numbers dtype, Abs),
        Kind::Sqrt => by_type!(floats dtype, Sqrt),
        Kind::Exp => by_type!(floats dtype, Exp),
        Kind::Log => by_type!(floats dtype, Log),
    }
}
