//! Operations on two elements, row by row.

use super::number::{Float, Number, power};
use bb::DataType;
use half::{bf16, f16};

/// Computes `n` elements of `out`, which has no gaps, from operands walked with strides in elements.
///
/// # Safety
///
/// Both operands have `n` elements of the type the function was chosen for at their strides, and
/// `out` has room for `n` results.
pub(crate) type Row = unsafe fn(n: usize, a: *const u8, sa: isize, b: *const u8, sb: isize, out: *mut u8);

/// An operation on two elements.
trait Op<A, B> {
    type Out: Copy;
    fn apply(a: A, b: B) -> Self::Out;
}

unsafe fn row<A: Copy, B: Copy, O: Op<A, B>>(
    n: usize,
    a: *const u8,
    sa: isize,
    b: *const u8,
    sb: isize,
    out: *mut u8,
) {
    let (a, b, out) = (a.cast::<A>(), b.cast::<B>(), out.cast::<O::Out>());
    // SAFETY: the caller's promise covers every index below `n`.
    unsafe {
        match (sa, sb) {
            (1, 1) => (0..n).for_each(|i| out.add(i).write(O::apply(*a.add(i), *b.add(i)))),
            (1, 0) if n > 0 => {
                let b = *b;
                (0..n).for_each(|i| out.add(i).write(O::apply(*a.add(i), b)));
            }
            (0, 1) if n > 0 => {
                let a = *a;
                (0..n).for_each(|i| out.add(i).write(O::apply(a, *b.add(i))));
            }
            _ => (0..n as isize).for_each(|i| {
                out.offset(i).write(O::apply(*a.offset(i * sa), *b.offset(i * sb)));
            }),
        }
    }
}

macro_rules! operations {
    ($($op:ident: $bound:ident, $out:ty, |$a:ident, $b:ident| $apply:expr;)*) => {$(
        struct $op;
        impl<T: $bound> Op<T, T> for $op {
            type Out = $out;
            #[inline(always)]
            fn apply($a: T, $b: T) -> $out { $apply }
        }
    )*};
}

operations! {
    Add: Number, T, |a, b| a.add(b);
    Sub: Number, T, |a, b| a.sub(b);
    Mul: Number, T, |a, b| a.mul(b);
    Div: Number, T, |a, b| a.div(b);
    Pow: Float, T, |a, b| a.pow(b);
    Equal: PartialEq, bool, |a, b| a == b;
    Greater: PartialOrd, bool, |a, b| a > b;
    Less: PartialOrd, bool, |a, b| a < b;
}

/// An integer to the power of an `i64`.
struct PowSigned;
impl<T: Number> Op<T, i64> for PowSigned {
    type Out = T;
    fn apply(a: T, b: i64) -> T {
        power(a, b < 0, b.unsigned_abs())
    }
}

/// An integer to the power of a `u64`.
struct PowUnsigned;
impl<T: Number> Op<T, u64> for PowUnsigned {
    type Out = T;
    fn apply(a: T, b: u64) -> T {
        power(a, false, b)
    }
}

/// Which operation on two elements of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Add,
    Sub,
    Mul,
    Div,
    Pow,
    Equal,
    Greater,
    Less,
}

macro_rules! by_type {
    ($dtype:expr, $op:ident, [$($variant:ident: $t:ty),*]) => {
        match $dtype { $( DataType::$variant => Some(row::<$t, $t, $op> as Row), )* _ => None }
    };
    (floats $dtype:expr, $op:ident) => { by_type!($dtype, $op, [F32: f32, F64: f64, F16: f16, BF16: bf16]) };
    (numbers $dtype:expr, $op:ident) => {
        by_type!($dtype, $op, [F32: f32, F64: f64, F16: f16, BF16: bf16, I8: i8, I16: i16, I32: i32, I64: i64,
            U8: u8, U16: u16, U32: u32, U64: u64])
    };
    (equatable $dtype:expr, $op:ident) => {
        by_type!($dtype, $op, [F32: f32, F64: f64, F16: f16, BF16: bf16, I8: i8, I16: i16, I32: i32, I64: i64,
            U8: u8, U16: u16, U32: u32, U64: u64, Bool: u8])
    };
}

/// Returns the kernel of an operation, if it takes that element type.
pub(crate) fn kernel(kind: Kind, dtype: DataType) -> Option<Row> {
    match kind {
        Kind::Add => by_type!(numbers dtype, Add),
        Kind::Sub => by_type!(numbers dtype, Sub),
        Kind::Mul => by_type!(numbers dtype, Mul),
        Kind::Div => by_type!(numbers dtype, Div),
        Kind::Pow => by_type!(floats dtype, Pow),
        Kind::Equal => by_type!(equatable dtype, Equal),
        Kind::Greater => by_type!(numbers dtype, Greater),
        Kind::Less => by_type!(numbers dtype, Less),
    }
}

/// Returns the kernel of an integer of type `base` to the power of an `i64` or, unsigned, a `u64`.
pub(crate) fn integer_power(base: DataType, unsigned: bool) -> Option<Row> {
    match (base, unsigned) {
        (DataType::I32, false) => Some(row::<i32, i64, PowSigned>),
        (DataType::I32, true) => Some(row::<i32, u64, PowUnsigned>),
        (DataType::I64, false) => Some(row::<i64, i64, PowSigned>),
        (DataType::I64, true) => Some(row::<i64, u64, PowUnsigned>),
        _ => None,
    }
}
