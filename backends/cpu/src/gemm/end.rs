//! The epilogue of a tile. It adds a number to each row, adds another tensor, and applies an activation.
//!
//! It processes a tile that was just written, whose elements are in the first-level cache. An epilogue on the registers
//! would be faster with AVX-512, but AVX2 has only enough registers for the multiplication loop: the loop takes a third
//! longer if more code uses the sums.
//!
//! The functions and their order match a fused elementwise program, so that the results are identical to the bit.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

use super::tile::{Args, TileKernels};
use super::vector::Vector;

/// The epilogue of a product.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End<T> {
    /// The first element of the tensor that contains the result, and the first element of a tensor with the same layout
    /// that is added to the result. The second pointer may be null.
    pub(crate) beside: (*const T, *const T),
    /// The lower and the upper bound of the result. Neither is NaN; sums that are NaN stay NaN.
    pub(crate) bounds: [T; 2],
    /// If set to `[a, b]`, the bounds apply to `sum * a + b` instead, and the result is `sum` times the bounded value,
    /// as in hard swish.
    pub(crate) swish: Option<[T; 2]>,
}

/// The steps before and after the summation of a matrix product.
#[derive(Debug)]
pub(crate) struct Around<T> {
    /// One number for each row, which is added to the row's sums, or null.
    pub(crate) plus: *const T,
    /// Whether `plus` is added after the summation instead of before it.
    pub(crate) late: bool,
    /// The epilogue, or null.
    pub(crate) end: *const End<T>,
}

impl<T> Clone for Around<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Around<T> {}

impl<T> Around<T> {
    /// No steps.
    pub(crate) const NONE: Around<T> = Around { plus: std::ptr::null(), late: false, end: std::ptr::null() };

    /// Returns steps that add a number to the sums of each row before the summation; `plus` may be null.
    pub(crate) const fn plus(plus: *const T) -> Self {
        Around { plus, ..Around::NONE }
    }

    /// Returns the steps of one pass over a part of the inner dimension. A single pass is both the first and the last
    /// one.
    pub(crate) fn pass(self, is_first: bool, is_last: bool) -> Self {
        let adds = if self.late { is_last } else { is_first };
        let null = std::ptr::null();
        Around {
            plus: if adds { self.plus } else { null },
            end: if is_last { self.end } else { std::ptr::null() },
            ..self
        }
    }

    /// Returns the initial values of the sums of each row, or null.
    #[inline(always)]
    pub(super) fn start(&self) -> *const T {
        if self.late { std::ptr::null() } else { self.plus }
    }

    /// Returns the steps of the rows from `top` on.
    pub(crate) fn at_row(self, top: usize) -> Self {
        let plus = if self.plus.is_null() { self.plus } else { self.plus.wrapping_add(top) };
        Around { plus, ..self }
    }
}

/// A function that applies the epilogue to a tile with these numbers of rows and columns.
pub(super) type EndKernel<T> = unsafe fn(&Args<T>, usize, usize);

impl<T> Args<T> {
    /// Computes a tile and its epilogue.
    ///
    /// # Safety
    ///
    /// The operands cover the tile, which has `rows` rows and `columns` columns. The epilogue's operands cover its rows
    /// and results.
    #[inline(always)]
    pub(super) unsafe fn whole(
        &self,
        kernels: &TileKernels<T>,
        tile: super::tile::Tile<T>,
        [rows, columns]: [usize; 2],
    ) {
        let Around { plus, late, end } = self.around;
        // SAFETY: this function has the same contract.
        unsafe {
            if end.is_null() && (plus.is_null() || !late) {
                return tile(self);
            }
            #[cfg(target_arch = "x86_64")]
            if let Some(beside) = self.beside() {
                // Prefetches the addend from a distant cache while the sums are computed.
                for i in 0..rows {
                    for at in (0..columns).step_by(64 / size_of::<T>()) {
                        _mm_prefetch::<_MM_HINT_T0>(beside.wrapping_add(i * self.c_row + at).cast());
                    }
                }
            }
            tile(self);
            (kernels.end)(self, rows, columns);
        }
    }

    /// Returns a pointer to the tile's first element in the tensor that is added to the results.
    ///
    /// # Safety
    ///
    /// As for [`whole`](Self::whole).
    #[inline(always)]
    unsafe fn beside(&self) -> Option<*const T> {
        // SAFETY: this function has the same contract; both tensors have the same layout.
        unsafe {
            let &End { beside: (own, other), .. } = self.around.end.as_ref()?;
            if other.is_null() { None } else { Some(other.offset(self.c.cast_const().offset_from(own))) }
        }
    }
}

/// # Safety
///
/// The tile is written, and has `rows` rows and `columns` columns. The epilogue's operands cover its rows and results.
#[inline(always)]
pub(super) unsafe fn end<V: Vector>(args: &Args<V::Item>, rows: usize, columns: usize) {
    if !V::ENDS {
        return;
    }
    let &Args { c, c_row, around: Around { plus, late, end }, .. } = args;
    // SAFETY: this function's contract.
    unsafe {
        let plus = if late { plus } else { std::ptr::null() };
        let (beside, end) = (args.beside(), end.as_ref());
        // These are macros because a closure might be compiled as a function without the instruction set.
        macro_rules! pair {
            ($of:expr) => {{
                let [first, second] = $of;
                [V::splat(first), V::splat(second)]
            }};
        }
        macro_rules! read {
            ($from:expr, $mask:expr) => {
                match $mask {
                    None => V::load($from),
                    Some(mask) => V::load_some($from, mask),
                }
            };
        }
        macro_rules! walk {
            ($x:ident, $i:ident, $at:ident, $mask:ident => $result:expr) => {{
                let whole = columns - columns % V::LANES;
                for $i in 0..rows {
                    for first in (0..whole).step_by(V::LANES) {
                        let ($at, $mask) = ($i * c_row + first, None::<V::Mask>);
                        let to = c.add($i * c_row + first);
                        let $x = V::load(to);
                        $result.store(to);
                    }
                    if whole < columns {
                        let mask = V::mask(columns - whole);
                        let ($at, $mask) = ($i * c_row + whole, Some(mask));
                        let to = c.add($i * c_row + whole);
                        let $x = V::load_some(to, mask);
                        $result.store_some(to, mask);
                    }
                }
            }};
        }
        // Each combination of addends has its own loop without branches, because most tiles have few vectors.
        macro_rules! sorts {
            ($x:ident => $result:expr) => {
                match (plus.is_null(), beside) {
                    (true, None) => walk!($x, _i, _at, _mask => $result),
                    (false, None) => walk!(x, i, _at, _mask => {
                        let $x = x.add(V::splat(plus.add(i)));
                        $result
                    }),
                    (true, Some(from)) => walk!(x, _i, at, mask => {
                        let $x = x.add(read!(from.add(at), mask));
                        $result
                    }),
                    (false, Some(from)) => walk!(x, i, at, mask => {
                        let $x = x.add(V::splat(plus.add(i))).add(read!(from.add(at), mask));
                        $result
                    }),
                }
            };
        }
        match end {
            None => sorts!(x => x),
            Some(End { swish: None, bounds: [low, high], .. }) => {
                let bounds = pair!([low, high]);
                sorts!(x => x.within(bounds));
            }
            Some(End { swish: Some([by, more]), bounds: [low, high], .. }) => {
                let (bounds, [by, more]) = (pair!([low, high]), pair!([by, more]));
                sorts!(x => x.mul(by).add(more).within(bounds).mul(x));
            }
        }
    }
}
