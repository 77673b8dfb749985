//! Selection of the loop for an operation and an element type.
//!
//! A loop processes contiguous elements; [`walk`](super::walk) calls it for operands of other layouts. Element types
//! share a loop if their results are the same: wrapping operations and comparisons for equality use unsigned integers,
//! 16-bit floats are computed as `f32`, and operations that only move elements depend only on their size.

use super::dispatch::{VectorLoop, dispatch_by_length};
use super::element_loop::{GRAIN, Kernel, Run, each, plain, slices, with_type, zip};
use super::half::Half;
use super::math::{self, double, single};
use super::number::{Float, Number, power};
use super::op::{Binary, Unary};
use super::scalar_fallback::scalar_fallback;
use super::{compare, hyperbolic, quotient, remainder, shift, trigonometry};
use crate::array::element_size;
use bb::DataType;
use half::{bf16, f16};

/// Returns the kernel of an operation on one element, if it supports signed elements of that type.
///
/// `few` selects a loop without vectors. Its results are the same, but it costs less for few elements.
pub(crate) fn unary(op: Unary, dtype: DataType, few: bool) -> Option<Kernel<1>> {
    let size = element_size(dtype);
    if let Some(run) = scalar_fallback(op).filter(|_| dtype == DataType::F64) {
        return Some(Kernel { run, operands: [size], result: size, half: None, grain: GRAIN / 16 });
    }
    let half = match op {
        // These operations change only the sign bit of 16-bit floats, which needs no conversion.
        Unary::Neg | Unary::Abs => None,
        Unary::Sqrt if few => None,
        _ => Half::of(dtype),
    };
    let sixteen = Half::of(dtype).is_some();
    // SAFETY of each loop: `each` and `plain` have the contract of `Run`, for elements of the type `T`.
    let run: Option<Run<1>> = unsafe {
        match op {
            Unary::Neg if sixteen => Some(|out, x, n| each(out, x, n, |bits: u16| bits ^ 0x8000)),
            Unary::Abs if sixteen => Some(|out, x, n| each(out, x, n, |bits: u16| bits & 0x7fff)),
            Unary::Neg => with_type!(signed dtype, T => |out, x, n| each(out, x, n, <T as Number>::neg)),
            Unary::Abs => with_type!(signed dtype, T => |out, x, n| each(out, x, n, <T as Number>::abs)),
            Unary::Relu => {
                with_type!(signed dtype, T => |out, x, n| each(out, x, n, |x: T| Number::max(x, T::default())))
            }
            Unary::Sqrt if few => {
                with_type!(few dtype, T => |out, x, n| plain(out, x, n, |[x]: [T; 1]| Float::sqrt(x)))
            }
            _ if dtype == DataType::F64 => double::function(op),
            _ if dtype.is_float() => {
                let others = || trigonometry::function(op).or_else(|| hyperbolic::function(op));
                single::function(op).or_else(others)
            }
            _ => None,
        }
    };
    let grain = match op {
        Unary::Neg | Unary::Abs | Unary::Relu => GRAIN,
        Unary::Sqrt => GRAIN / 2,
        _ => GRAIN / 4,
    };
    Some(Kernel { run: run?, operands: [size], result: size, half, grain })
}

/// Returns the kernel of an operation on two elements of one type, if it supports that type.
///
/// `few` has the same meaning as for [`unary`].
pub(crate) fn binary(op: Binary, dtype: DataType, few: bool) -> Option<Kernel<2>> {
    // Powers have only one loop, because another function would give different results.
    let few = few && op != Binary::Pow;
    let half = Half::of(dtype).filter(|_| !op.compares());
    // SAFETY of each loop: `zip` and `plain` have the contract of `Run`, for elements of the type `T`.
    let run: Option<Run<2>> = unsafe {
        match op {
            _ if few && half.is_some() => with_type!([F16: f16, BF16: bf16] dtype, T => few_halves::<T>(op)?),
            Binary::Add => with_type!(bits dtype, T => |out, x, n| zip(out, x, n, <T as Number>::add)),
            Binary::Sub => with_type!(bits dtype, T => |out, x, n| zip(out, x, n, <T as Number>::sub)),
            Binary::Mul => with_type!(bits dtype, T => |out, x, n| zip(out, x, n, <T as Number>::mul)),
            Binary::Div if dtype.is_float() => {
                with_type!(float dtype, T => |out, x, n| zip(out, x, n, <T as Number>::div))
            }
            Binary::Div => quotient::kernel(dtype),
            Binary::Pow if dtype == DataType::F64 => {
                Some(|out, x, n| plain(out, x, n, |[a, b]: [f64; 2]| a.powf(b)))
            }
            Binary::Pow if dtype.is_float() => Some(math::powers),
            Binary::Pow => None,
            Binary::Max => with_type!(number dtype, T => |out, x, n| zip(out, x, n, <T as Number>::max)),
            Binary::Min => with_type!(number dtype, T => |out, x, n| zip(out, x, n, <T as Number>::min)),
            Binary::Fmod if dtype == DataType::F64 => Some(remainder::doubles),
            Binary::Fmod if dtype.is_float() => Some(remainder::singles),
            Binary::Fmod => None,
            Binary::ShiftLeft | Binary::ShiftRight => shift::kernel(op, dtype),
            _ => compare::kernel(op, dtype),
        }
    };
    let size = element_size(dtype);
    let result = if op.compares() { element_size(DataType::Bool) } else { size };
    let half = half.filter(|_| !few);
    let grain = match op {
        Binary::Pow => GRAIN / 16,
        Binary::Fmod => GRAIN / 4,
        _ => GRAIN,
    };
    Some(Kernel { run: run?, operands: [size; 2], result, half, grain })
}

/// Returns the loop of an operation on few 16-bit floats, which converts them one by one; `None` for powers and for operations
/// whose results are bools.
fn few_halves<T: Float>(op: Binary) -> Option<Run<2>> {
    // SAFETY of each loop: `plain` has the contract of `Run`, for elements of the type `T`.
    Some(unsafe {
        match op {
            Binary::Add => |out, x, n| plain(out, x, n, |[a, b]: [T; 2]| a.add(b)),
            Binary::Sub => |out, x, n| plain(out, x, n, |[a, b]: [T; 2]| a.sub(b)),
            Binary::Mul => |out, x, n| plain(out, x, n, |[a, b]: [T; 2]| a.mul(b)),
            Binary::Div => |out, x, n| plain(out, x, n, |[a, b]: [T; 2]| a.div(b)),
            Binary::Max => |out, x, n| plain(out, x, n, |[a, b]: [T; 2]| a.max(b)),
            Binary::Min => |out, x, n| plain(out, x, n, |[a, b]: [T; 2]| a.min(b)),
            Binary::Fmod => {
                |out, x, n| plain(out, x, n, |[a, b]: [T; 2]| T::from_f64(a.to_f64() % b.to_f64()))
            }
            _ => return None,
        }
    })
}

/// Returns the kernel that raises an integer of type `base` to the power of an `i64`, or of a `u64` if `unsigned`.
pub(crate) fn integer_power(base: DataType, unsigned: bool) -> Option<Kernel<2>> {
    /// # Safety
    ///
    /// As for [`Run`], of operands `T` and `i64`, or `u64` if `UNSIGNED`, and results `T`.
    unsafe fn powers<T: Number, const UNSIGNED: bool>(out: *mut u8, [a, b]: [*const u8; 2], n: usize) {
        // SAFETY: this function has the same contract; any eight bytes are valid as `i64` and as `u64`.
        let ((out, [a]), b) =
            unsafe { (slices::<T, T, 1>(out, [a], n), std::slice::from_raw_parts(b.cast::<i64>(), n)) };
        for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
            *out =
                if UNSIGNED { power(a, false, b.cast_unsigned()) } else { power(a, b < 0, b.unsigned_abs()) };
        }
    }
    let run: Run<2> = match (base, unsigned) {
        (DataType::I32, false) => powers::<i32, false>,
        (DataType::I32, true) => powers::<i32, true>,
        (DataType::I64, false) => powers::<i64, false>,
        (DataType::I64, true) => powers::<i64, true>,
        _ => return None,
    };
    let size = element_size(base);
    Some(Kernel { run, operands: [size, 8], result: size, half: None, grain: GRAIN / 16 })
}

/// An element that is only moved. Its size is known, but it may be unaligned.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed)]
struct Unaligned<T>(T);

struct Select<'a, T> {
    out: &'a mut [Unaligned<T>],
    condition: &'a [u8],
    a: &'a [Unaligned<T>],
    b: &'a [Unaligned<T>],
}

/// An element that can be selected by a condition byte.
trait Choice: Copy {
    /// Returns `a` if the byte is not 0, else `b`.
    fn choose(condition: u8, a: Self, b: Self) -> Self;
}

macro_rules! choices {
    ($($t:ty),*) => {$(
        impl Choice for $t {
            // Selects with a mask, because the compiler would turn a condition into branches.
            #[inline(always)]
            fn choose(condition: u8, a: $t, b: $t) -> $t {
                let mask = <$t>::from(condition != 0).wrapping_neg();
                (a & mask) | (b & !mask)
            }
        }
    )*};
}

choices!(u8, u16, u32, u64, u128);

impl<T: Choice> VectorLoop for Select<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let operands = self.condition.iter().zip(self.a).zip(self.b);
        for (out, ((&c, &Unaligned(a)), &Unaligned(b))) in self.out.iter_mut().zip(operands) {
            *out = Unaligned(T::choose(c, a, b));
        }
    }
}

/// Writes the element of the second operand where the byte of the first is not 0, else the element of the third.
///
/// # Safety
///
/// As for [`Run`], of bytes, `T` and `T`, which need not be aligned.
unsafe fn selected<T: Choice>(out: *mut u8, [condition, a, b]: [*const u8; 3], n: usize) {
    // SAFETY: this function has the same contract, and nothing here needs an alignment.
    let ((out, [a, b]), condition) =
        unsafe { (slices(out, [a, b], n), std::slice::from_raw_parts(condition, n)) };
    dispatch_by_length(n, Select::<T> { out, condition, a, b });
}

/// Returns the kernel that chooses between elements of `size` bytes by a bool.
pub(crate) fn select(size: usize) -> Kernel<3> {
    let run: Run<3> = match size {
        1 => selected::<u8>,
        2 => selected::<u16>,
        4 => selected::<u32>,
        8 => selected::<u64>,
        _ => selected::<u128>,
    };
    Kernel { run, operands: [1, size, size], result: size, half: None, grain: GRAIN }
}

/// Returns whether any of `n` integers of `size` bytes is 0. The integers begin `stride` bytes apart.
///
/// # Safety
///
/// `x` points to the first of these integers.
pub(crate) unsafe fn any_zero(size: usize, x: *const u8, stride: isize, n: usize) -> bool {
    /// # Safety
    ///
    /// As for [`any_zero`].
    unsafe fn any<T: Number>(x: *const u8, stride: isize, n: usize) -> bool {
        let zero = T::default();
        if stride == size_of::<T>().cast_signed() {
            // SAFETY: the caller guarantees that the elements are valid; they are contiguous.
            let x = unsafe { std::slice::from_raw_parts(x.cast::<T>(), n) };
            return x.chunks(256).any(|chunk| chunk.iter().fold(false, |any, &v| any | (v == zero)));
        }
        // SAFETY: the caller guarantees that the elements are valid.
        (0..n.cast_signed()).any(|i| unsafe { *x.offset(i * stride).cast::<T>() } == zero)
    }
    // SAFETY: this function has the same contract.
    unsafe {
        match size {
            1 => any::<u8>(x, stride, n),
            2 => any::<u16>(x, stride, n),
            4 => any::<u32>(x, stride, n),
            _ => any::<u64>(x, stride, n),
        }
    }
}
