//! Combines updates with the elements at positions, or replaces these elements.

use super::dispatch::{VectorLoop, dispatch_by_length};
use super::number::Number;
use bb::DataType;
use bb::ext::ScatterReduction;
use half::{bf16, f16};
use std::marker::PhantomData;
use std::{ptr, slice};

/// The way to combine an update with the element at its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// The update replaces the element.
    Replace,
    Add,
    Mul,
    Max,
    Min,
}

impl Meeting {
    /// Returns the variant for a reduction of ONNX.
    pub(crate) fn of(reduction: ScatterReduction) -> Meeting {
        match reduction {
            ScatterReduction::None => Meeting::Replace,
            ScatterReduction::Add => Meeting::Add,
            ScatterReduction::Mul => Meeting::Mul,
            ScatterReduction::Max => Meeting::Max,
            ScatterReduction::Min => Meeting::Min,
        }
    }
}

/// A function that combines contiguous updates with the elements at positions. The arguments are the positions, the
/// number of updates for each position, the updates, and the element at position 0.
///
/// # Safety of calls
///
/// There are updates for each position, and the same number of elements from each position on; updates and elements do
/// not overlap.
pub(crate) type Update = unsafe fn(&[usize], usize, *const u8, *mut u8);

/// Returns the kernel for elements of a type, which have `size` bytes.
pub(crate) fn kernel(meeting: Meeting, dtype: DataType, size: usize) -> Option<Update> {
    Some(match (meeting, dtype) {
        (Meeting::Replace, _) => match size {
            1 => replace::<u8>,
            2 => replace::<u16>,
            4 => replace::<u32>,
            8 => replace::<u64>,
            16 => replace::<u128>,
            _ => return None,
        },
        // For bools, a sum is a logical or, and a product is a logical and.
        (Meeting::Add | Meeting::Max, DataType::Bool) => combine::<u8, Any>,
        (Meeting::Mul | Meeting::Min, DataType::Bool) => combine::<u8, All>,
        (Meeting::Add, _) => combining::<Sum>(dtype)?,
        (Meeting::Mul, _) => combining::<Product>(dtype)?,
        (Meeting::Max, _) => combining::<Greatest>(dtype)?,
        (Meeting::Min, _) => combining::<Least>(dtype)?,
    })
}

macro_rules! numbers {
    ($($name:ident = $t:ident),*) => {
        /// A way to combine numbers of every type.
        trait JoinNumbers: $(Join<$t> +)* {}
        impl<J: $(Join<$t> +)*> JoinNumbers for J {}

        fn combining<J: JoinNumbers>(dtype: DataType) -> Option<Update> {
            Some(match dtype {
                $(DataType::$name => combine::<$t, J>,)*
                _ => return None,
            })
        }
    };
}

numbers! {
    F32 = f32, F64 = f64, F16 = f16, BF16 = bf16, I8 = i8, I16 = i16, I32 = i32, I64 = i64, U8 = u8, U16 = u16, U32 = u32,
    U64 = u64
}

/// A way to combine an element `a` with its update `b`.
trait Join<T>: Copy {
    fn join(a: T, b: T) -> T;
}

macro_rules! joins {
    ($($name:ident: $bound:ident, |$a:ident, $b:ident| $joined:expr;)*) => {$(
        #[derive(Clone, Copy)]
        struct $name;

        impl<T: $bound> Join<T> for $name {
            #[inline(always)]
            fn join($a: T, $b: T) -> T {
                $joined
            }
        }
    )*};
}

joins! {
    Sum: Number, |a, b| a.add(b);
    Product: Number, |a, b| a.mul(b);
    // If both are equal, the result is the update. Only NaN cannot be compared with itself.
    Greatest: Number, |a, b| if a > b || a.partial_cmp(&a).is_none() { a } else { b };
    Least: Number, |a, b| if a < b || a.partial_cmp(&a).is_none() { a } else { b };
    Any: Bits, |a, b| a.or(b);
    All: Bits, |a, b| a.and(b);
}

/// Booleans, as bytes.
trait Bits: Copy {
    fn or(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
}

impl Bits for u8 {
    #[inline(always)]
    fn or(self, other: u8) -> u8 {
        self | other
    }

    #[inline(always)]
    fn and(self, other: u8) -> u8 {
        self & other
    }
}

/// # Safety
///
/// As for [`Update`], of elements of type `T`, which need no alignment.
unsafe fn replace<T: Copy>(at: &[usize], run: usize, from: *const u8, to: *mut u8) {
    let (from, to) = (from.cast::<T>(), to.cast::<T>());
    for (i, &at) in at.iter().enumerate() {
        // SAFETY: the caller guarantees that the updates and the elements are valid. Single elements are moved
        // directly, because a copy of variable length is a call.
        unsafe {
            if run == 1 {
                to.add(at).write_unaligned(from.add(i).read_unaligned());
            } else {
                ptr::copy_nonoverlapping(
                    from.add(i * run).cast::<u8>(),
                    to.add(at).cast(),
                    run * size_of::<T>(),
                );
            }
        }
    }
}

/// A loop that combines neighbouring elements with their updates.
struct Run<'a, T, J> {
    to: &'a mut [T],
    from: &'a [T],
    join: PhantomData<J>,
}

impl<T: Copy, J: Join<T>> VectorLoop for Run<'_, T, J> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (to, &from) in self.to.iter_mut().zip(self.from) {
            *to = J::join(*to, from);
        }
    }
}

/// # Safety
///
/// As for [`Update`], of elements of type `T`.
unsafe fn combine<T: Copy, J: Join<T>>(at: &[usize], run: usize, from: *const u8, to: *mut u8) {
    let (from, to) = (from.cast::<T>(), to.cast::<T>());
    for (i, &at) in at.iter().enumerate() {
        // SAFETY: the caller guarantees that the updates and the elements are valid.
        unsafe {
            if run == 1 {
                let to = to.add(at);
                *to = J::join(*to, *from.add(i));
            } else {
                let to = slice::from_raw_parts_mut(to.add(at), run);
                let from = slice::from_raw_parts(from.add(i * run), run);
                dispatch_by_length(run, Run { to, from, join: PhantomData::<J> });
            }
        }
    }
}
