//! Reductions over any dimensions of any element type, on one thread.

use super::Extents;
use crate::kernels::number::Number;
use crate::kernels::op::Reduction;
use crate::layout::{Dim, for_each_index};
use crate::pace::{self, Pace, STRETCH};
use bb::DataType;
use half::{bf16, f16};

/// A function that reduces over some dimensions for each index of the other dimensions, and writes the results in
/// order.
///
/// # Safety
///
/// `x` has elements of the type that the function was selected for at every index of the extents, and `out` has room
/// for one result for each index of the kept dimensions.
pub(super) type General = unsafe fn(op: Reduction, extents: &Extents<'_>, x: *const u8, out: *mut u8);

/// The number of accumulators of a row. They are independent, so the processor can update them in parallel.
const LANES: usize = 16;

/// The maximum number of elements of a row that are reduced in lanes. Longer rows are split into halves, so that errors
/// grow with the logarithm of the length.
const RUN: usize = 4096;

/// The number of columns that are reduced together if neighbours in memory belong to different results.
const COLUMNS: usize = 64;

/// The maximum length of short rows.
const SHORT: usize = 32;

/// The number of short rows that are reduced together.
const TOGETHER: usize = 8;

/// The number of states that are joined sequentially before [`Pairs`] joins them with other states.
const JOINED: usize = 64;

/// Joins states in pairs: each of the kept states covers at least twice the number of parts of the next one. The number of
/// joins between a part and the result therefore grows with the logarithm of the number of parts.
struct Pairs<S> {
    kept: Vec<S>,
    count: usize,
}

impl<S: Copy> Pairs<S> {
    fn new() -> Pairs<S> {
        Pairs { kept: Vec::new(), count: 0 }
    }

    /// Adds the state of the next part.
    fn push(&mut self, mut state: S, join: impl Fn(S, S) -> S) {
        let mut parts = self.count;
        while parts & 1 == 1
            && let Some(before) = self.kept.pop()
        {
            state = join(before, state);
            parts >>= 1;
        }
        self.kept.push(state);
        self.count += 1;
    }

    /// Returns the state of all parts and of `last`, the state of the part after them.
    fn finish(self, last: S, join: impl Fn(S, S) -> S) -> S {
        self.kept.into_iter().rev().fold(last, |later, before| join(before, later))
    }
}

/// The steps of a reduction: `take` adds an element `T` to a state `S`, and `join` joins two states.
#[derive(Clone, Copy)]
struct Steps<S, F, G> {
    start: S,
    take: F,
    join: G,
}

impl<S: Copy, F, G: Fn(S, S) -> S> Steps<S, F, G> {
    /// Reduces `n` elements that are `stride` elements apart.
    ///
    /// # Safety
    ///
    /// `x` points to the first of these elements.
    unsafe fn fold<T: Copy>(&self, n: usize, x: *const T, stride: isize) -> S
    where
        F: Fn(S, T) -> S,
    {
        // SAFETY: the caller guarantees that the elements are valid; both halves are part of them.
        unsafe {
            if n > RUN {
                if n > STRETCH {
                    pace::look();
                }
                let half = n / 2 / LANES * LANES;
                let (low, high) = (
                    self.fold(half, x, stride),
                    self.fold(n - half, x.offset(half.cast_signed() * stride), stride),
                );
                return (self.join)(low, high);
            }
            let mut lanes = [self.start; LANES];
            let whole = n / LANES * LANES;
            for i in (0..whole).step_by(LANES) {
                if stride == 1 {
                    for (j, lane) in lanes.iter_mut().enumerate() {
                        *lane = (self.take)(*lane, *x.add(i + j));
                    }
                } else {
                    for (j, lane) in lanes.iter_mut().enumerate() {
                        *lane = (self.take)(*lane, *x.offset((i + j).cast_signed() * stride));
                    }
                }
            }
            let mut state = self.start;
            if whole > 0 {
                state = lanes.into_iter().fold(state, &self.join);
            }
            for i in whole..n {
                state = (self.take)(state, *x.offset(i.cast_signed() * stride));
            }
            state
        }
    }

    /// Reduces up to [`TOGETHER`] short rows together, each in the order of its elements.
    ///
    /// # Safety
    ///
    /// `x` has elements at all indices of these rows and columns.
    #[inline(always)]
    unsafe fn short<T: Copy>(
        &self,
        [rows, len]: [usize; 2],
        x: *const T,
        [row, step]: [isize; 2],
    ) -> [S; TOGETHER]
    where
        F: Fn(S, T) -> S,
    {
        let mut states = [self.start; TOGETHER];
        if rows == TOGETHER {
            for i in 0..len.cast_signed() {
                for (j, state) in (0..).zip(&mut states) {
                    // SAFETY: the caller guarantees that the element is valid.
                    *state = (self.take)(*state, unsafe { *x.offset(j * row + i * step) });
                }
            }
            return states;
        }
        for (j, state) in (0..).zip(&mut states).take(rows) {
            for i in 0..len.cast_signed() {
                // SAFETY: the caller guarantees that the element is valid.
                *state = (self.take)(*state, unsafe { *x.offset(j * row + i * step) });
            }
        }
        states
    }

    /// Reduces as [`General`] describes; `finish` converts a state to a result.
    ///
    /// # Safety
    ///
    /// Same as for [`General`].
    unsafe fn reduce<T: Copy>(
        &self,
        &Extents { kept, reduced, .. }: &Extents<'_>,
        x: *const u8,
        out: *mut u8,
        finish: impl Fn(S) -> T,
    ) where
        F: Fn(S, T) -> S,
    {
        let x = x.cast::<T>();
        let mut out = out.cast::<T>();
        let mut put = |state: S| {
            // SAFETY: the caller guarantees room for a result for each index of `kept`, and this is called once for each index.
            unsafe {
                out.write(finish(state));
                out = out.add(1);
            }
        };
        let mut pace = Pace::new();
        if let ([outer @ .., Dim { extent: rows, strides: [row] }], &[Dim { extent: len, strides: [step] }]) =
            (kept, reduced)
            && len <= SHORT
            && *row != 1
        {
            return for_each_index(outer, |[k]| {
                for first in (0..*rows).step_by(TOGETHER) {
                    let count = TOGETHER.min(rows - first);
                    pace.step(count * len);
                    let at = k + first.cast_signed() * row;
                    // SAFETY: the rows are indices of the kept dimensions.
                    let states = unsafe { self.short([count, len], x.offset(at), [*row, step]) };
                    states.into_iter().take(count).for_each(&mut put);
                }
            });
        }
        if let [outer @ .., Dim { extent, strides: [1] }] = kept
            && reduced.last().is_some_and(|d| d.strides != [1])
        {
            return for_each_index(outer, |[k]| {
                for start in (0..*extent).step_by(COLUMNS) {
                    let width = COLUMNS.min(*extent - start);
                    let mut states = [self.start; COLUMNS];
                    let mut pairs = Pairs::new();
                    let join = |low: [S; COLUMNS], high: [S; COLUMNS]| {
                        let mut joined = low;
                        joined.iter_mut().zip(high).for_each(|(low, high)| *low = (self.join)(*low, high));
                        joined
                    };
                    let mut lines = 0;
                    for_each_index(reduced, |[r]| {
                        if lines == 2 * JOINED {
                            pairs.push(std::mem::replace(&mut states, [self.start; COLUMNS]), join);
                            lines = 0;
                        }
                        lines += 1;
                        pace.step(width);
                        // SAFETY: the caller guarantees elements at every index, and `start + j` is below the extent.
                        let line = unsafe { std::slice::from_raw_parts(x.offset(k + r).add(start), width) };
                        for (state, &v) in states.iter_mut().zip(line) {
                            *state = (self.take)(*state, v);
                        }
                    });
                    pairs.finish(states, join).iter().take(width).for_each(|&state| put(state));
                }
            });
        }
        let (outer, row) = match reduced {
            [outer @ .., row] => (outer, *row),
            [] => (reduced, Dim { extent: 1, strides: [1] }),
        };
        let [stride] = row.strides;
        for_each_index(kept, |[k]| {
            let (mut state, mut rows, mut pairs) = (self.start, 0, Pairs::new());
            for_each_index(outer, |[r]| {
                if rows == JOINED {
                    pairs.push(std::mem::replace(&mut state, self.start), &self.join);
                    rows = 0;
                }
                rows += 1;
                pace.step(row.extent);
                // SAFETY: the caller guarantees elements at every index of `kept` and `reduced`.
                state = (self.join)(state, unsafe { self.fold(row.extent, x.offset(k + r), stride) });
            });
            put(pairs.finish(state, &self.join));
        });
    }
}

/// Computes sums or means.
///
/// # Safety
///
/// Same as for [`General`], with elements of type `T`.
unsafe fn sums<T: Number>(op: Reduction, extents: &Extents<'_>, x: *const u8, out: *mut u8) {
    let steps = Steps { start: T::NO_SUM, take: |sum: T::Sum, x: T| sum.add(x.widen()), join: T::Sum::add };
    let finish = |sum| match op {
        Reduction::Mean => T::mean(sum, extents.count),
        _ if extents.count == 0 => T::default(),
        _ => T::narrow(sum),
    };
    // SAFETY: this function has the same contract.
    unsafe { steps.reduce(extents, x, out, finish) }
}

/// Computes the maxima. For no elements, the result is `start`.
///
/// # Safety
///
/// Same as for [`General`], with elements of type `T`.
unsafe fn maxima<T: Number>(start: T, extents: &Extents<'_>, x: *const u8, out: *mut u8) {
    let steps = Steps { start, take: |most: T, x: T| x.max(most), join: T::max };
    // SAFETY: this function has the same contract.
    unsafe { steps.reduce(extents, x, out, |most| most) }
}

/// Computes the minima. For no elements, the result is `start`.
///
/// # Safety
///
/// Same as for [`General`], with elements of type `T`.
unsafe fn minima<T: Number>(start: T, extents: &Extents<'_>, x: *const u8, out: *mut u8) {
    let steps = Steps { start, take: |least: T, x: T| x.min(least), join: T::min };
    // SAFETY: this function has the same contract.
    unsafe { steps.reduce(extents, x, out, |least| least) }
}

/// Computes the products of elements.
///
/// # Safety
///
/// Same as for [`General`], with elements of type `T`.
unsafe fn products<T: Number>(extents: &Extents<'_>, x: *const u8, out: *mut u8) {
    let take = |product: T::Sum, x: T| product.mul(x.widen());
    let steps = Steps { start: T::Sum::ONE, take, join: T::Sum::mul };
    // SAFETY: this function has the same contract.
    unsafe { steps.reduce(extents, x, out, T::narrow) }
}

macro_rules! by_type {
    ($dtype:expr, $name:ident => $body:expr, [$($variant:ident: $t:ty),*]) => {
        match $dtype { $( DataType::$variant => { type $name = $t; Some($body) } )* _ => None }
    };
    (wide $dtype:expr, $name:ident => $body:expr) => {
        by_type!($dtype, $name => $body, [F32: f32, F64: f64, F16: f16, BF16: bf16, I32: i32, I64: i64, U32: u32, U64: u64])
    };
    (ordered $dtype:expr, $name:ident => $body:expr) => {
        by_type!($dtype, $name => $body, [F32: f32, F64: f64, F16: f16, BF16: bf16, I8: i8, I32: i32, I64: i64, U8: u8,
            U32: u32, U64: u64])
    };
}

/// Returns the kernel of a reduction, or `None` if it does not support the element type.
pub(super) fn general(op: Reduction, dtype: DataType) -> Option<General> {
    // SAFETY of each: the functions have the contract of `General`, for elements of type `T`.
    unsafe {
        match op {
            Reduction::Sum | Reduction::Mean => by_type!(wide dtype, T => sums::<T>),
            // For bools, false is the minimum value and true is the maximum value.
            Reduction::Max if dtype == DataType::Bool => {
                Some(|_, extents, x, out| maxima(0u8, extents, x, out))
            }
            Reduction::Min if dtype == DataType::Bool => {
                Some(|_, extents, x, out| minima(1u8, extents, x, out))
            }
            Reduction::Max => {
                by_type!(ordered dtype, T => |_, extents, x, out| maxima(T::LEAST, extents, x, out))
            }
            Reduction::Min => {
                by_type!(ordered dtype, T => |_, extents, x, out| minima(T::GREATEST, extents, x, out))
            }
        }
    }
}

/// Returns the kernel of products, or `None` if it does not support the element type.
pub(super) fn product(dtype: DataType) -> Option<General> {
    // SAFETY: the functions have the contract of `General`, for elements of type `T`.
    unsafe { by_type!(wide dtype, T => |_, extents, x, out| products::<T>(extents, x, out)) }
}
