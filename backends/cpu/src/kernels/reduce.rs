//! Reductions: many elements to one.

use super::number::Number;
use crate::layout::{Dim, for_each_index};
use bb::DataType;
use half::{bf16, f16};

/// Reduces over `reduced` for each index of `kept`, writing results in order.
///
/// # Safety
///
/// `x` has elements of the type the function was chosen for at every index of `kept` and `reduced`
/// together, and `out` has room for as many results as `kept` has indices.
pub(crate) type Reduce =
    unsafe fn(kept: &[Dim<1>], reduced: &[Dim<1>], count: usize, x: *const u8, out: *mut u8);

/// Which reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sum,
    Mean,
    Max,
    Min,
}

/// A reduction of elements `T`.
trait Op<T> {
    type State: Copy;
    const START: Self::State;
    fn take(state: Self::State, x: T) -> Self::State;
    fn join(a: Self::State, b: Self::State) -> Self::State;
    fn finish(state: Self::State, count: usize) -> T;
}

struct Sum;
impl<T: Number> Op<T> for Sum {
    type State = T::Sum;
    const START: T::Sum = T::NO_SUM;
    #[inline(always)]
    fn take(state: T::Sum, x: T) -> T::Sum {
        T::sum(state, x.widen())
    }
    #[inline(always)]
    fn join(a: T::Sum, b: T::Sum) -> T::Sum {
        T::sum(a, b)
    }
    fn finish(state: T::Sum, count: usize) -> T {
        if count == 0 { T::ZERO } else { T::narrow(state) }
    }
}

struct Mean;
impl<T: Number> Op<T> for Mean {
    type State = T::Sum;
    const START: T::Sum = T::NO_SUM;
    #[inline(always)]
    fn take(state: T::Sum, x: T) -> T::Sum {
        T::sum(state, x.widen())
    }
    #[inline(always)]
    fn join(a: T::Sum, b: T::Sum) -> T::Sum {
        T::sum(a, b)
    }
    fn finish(state: T::Sum, count: usize) -> T {
        T::mean(state, count)
    }
}

struct Max;
impl<T: Number> Op<T> for Max {
    type State = T;
    const START: T = T::LEAST;
    #[inline(always)]
    fn take(state: T, x: T) -> T {
        x.max(state)
    }
    #[inline(always)]
    fn join(a: T, b: T) -> T {
        a.max(b)
    }
    fn finish(state: T, _: usize) -> T {
        state
    }
}

struct Min;
impl<T: Number> Op<T> for Min {
    type State = T;
    const START: T = T::GREATEST;
    #[inline(always)]
    fn take(state: T, x: T) -> T {
        x.min(state)
    }
    #[inline(always)]
    fn join(a: T, b: T) -> T {
        a.min(b)
    }
    fn finish(state: T, _: usize) -> T {
        state
    }
}

/// Independent states of one row, which a processor advances at once.
const LANES: usize = 16;

/// Elements summed one after another; longer rows are halved, so that errors grow with the
/// logarithm of the length.
const RUN: usize = 4096;

unsafe fn fold<T: Copy, O: Op<T>>(n: usize, x: *const T, stride: isize) -> O::State {
    // SAFETY: the caller has `n` elements at this stride.
    unsafe {
        if n > RUN {
            let half = n / 2 / LANES * LANES;
            return O::join(
                fold::<T, O>(half, x, stride),
                fold::<T, O>(n - half, x.offset(half as isize * stride), stride),
            );
        }
        let mut lanes = [O::START; LANES];
        let whole = n / LANES * LANES;
        if stride == 1 {
            for i in (0..whole).step_by(LANES) {
                for (j, lane) in lanes.iter_mut().enumerate() {
                    *lane = O::take(*lane, *x.add(i + j));
                }
            }
        } else {
            for i in (0..whole).step_by(LANES) {
                for (j, lane) in lanes.iter_mut().enumerate() {
                    *lane = O::take(*lane, *x.offset((i + j) as isize * stride));
                }
            }
        }
        let mut state = O::START;
        if whole > 0 {
            state = lanes.into_iter().fold(state, O::join);
        }
        for i in whole..n {
            state = O::take(state, *x.offset(i as isize * stride));
        }
        state
    }
}

/// Columns reduced side by side when neighbours in memory belong to different results.
const COLUMNS: usize = 64;

unsafe fn reduce<T: Copy, O: Op<T>>(
    kept: &[Dim<1>],
    reduced: &[Dim<1>],
    count: usize,
    x: *const u8,
    out: *mut u8,
) {
    let x = x.cast::<T>();
    let mut out = out.cast::<T>();
    if let [outer @ .., Dim { extent, strides: [1] }] = kept
        && reduced.last().is_some_and(|d| d.strides != [1])
    {
        for_each_index(outer, |[k]| {
            for start in (0..*extent).step_by(COLUMNS) {
                let width = COLUMNS.min(*extent - start);
                let mut states = [O::START; COLUMNS];
                for_each_index(reduced, |[r]| {
                    // SAFETY: the caller has elements at every index of `kept` and `reduced`.
                    let line = unsafe { x.offset(k + r).add(start) };
                    for (j, state) in states.iter_mut().take(width).enumerate() {
                        // SAFETY: `start + j` is below the extent.
                        *state = O::take(*state, unsafe { *line.add(j) });
                    }
                });
                for state in states.iter().take(width) {
                    // SAFETY: there is room for a result of every index of `kept`.
                    unsafe {
                        out.write(O::finish(*state, count));
                        out = out.add(1);
                    }
                }
            }
        });
        return;
    }
    let (outer, row) = match reduced {
        [outer @ .., row] => (outer, *row),
        [] => (reduced, Dim { extent: 1, strides: [1] }),
    };
    for_each_index(kept, |[k]| {
        let mut state = O::START;
        for_each_index(outer, |[r]| {
            // SAFETY: the caller has elements at every index of `kept` and `reduced`.
            let part = unsafe { fold::<T, O>(row.extent, x.offset(k + r), row.strides[0]) };
            state = O::join(state, part);
        });
        // SAFETY: there is room for a result of every index of `kept`.
        unsafe {
            out.write(O::finish(state, count));
            out = out.add(1);
        }
    });
}

macro_rules! by_type {
    ($dtype:expr, $op:ident, [$($variant:ident: $t:ty),*]) => {
        match $dtype { $( DataType::$variant => Some(reduce::<$t, $op> as Reduce), )* _ => None }
    };
    (wide $dtype:expr, $op:ident) => {
        by_type!($dtype, $op, [F32: f32, F64: f64, F16: f16, BF16: bf16, I32: i32, I64: i64, U32: u32, U64: u64])
    };
    (ordered $dtype:expr, $op:ident) => {
        by_type!($dtype, $op, [F32: f32, F64: f64, F16: f16, BF16: bf16, I8: i8, I32: i32, I64: i64, U8: u8, U32: u32, U64: u64])
    };
}

/// Returns the kernel of a reduction, if it takes that element type.
pub(crate) fn kernel(kind: Kind, dtype: DataType) -> Option<Reduce> {
    match (kind, dtype) {
        (Kind::Max, DataType::Bool) => Some(reduce::<u8, Max>),
        (Kind::Min, DataType::Bool) => Some(reduce::<u8, All>),
        (Kind::Sum, _) => by_type!(wide dtype, Sum),
        (Kind::Mean, _) => by_type!(wide dtype, Mean),
        (Kind::Max, _) => by_type!(ordered dtype, Max),
        (Kind::Min, _) => by_type!(ordered dtype, Min),
    }
}

/// The least of truth values, of which true is the greatest.
struct All;
impl Op<u8> for All {
    type State = u8;
    const START: u8 = 1;
    fn take(state: u8, x: u8) -> u8 {
        Ord::min(state, x)
    }
    fn join(a: u8, b: u8) -> u8 {
        Ord::min(a, b)
    }
    fn finish(state: u8, _: usize) -> u8 {
        state
    }
}
