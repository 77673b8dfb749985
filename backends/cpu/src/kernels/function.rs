//! Functions of one element, which are applied to many elements in vectors.

use super::dispatch::{VectorLoop, dispatch};
use super::element_loop::slices;

/// A function that is compiled with and without fused multiply-add. An argument is near if it is within
/// [`bounds`](Self::bounds).
pub(super) trait Function<T>: Copy {
    /// Whether [`far`](Self::far) computes the values at arguments that are not near.
    const APART: bool = false;

    /// Returns the bounds of near arguments, or `None` if a special computation for near arguments is not faster.
    fn bounds(self) -> Option<[T; 2]>;

    /// Writes the values at `x`. If `NEAR`, all of them are near; this is faster and does not change the values.
    fn each<const FMA: bool, const NEAR: bool>(self, out: &mut [T], x: &[T]);

    /// Returns the value at an argument that is not near, without vectors.
    fn far(self, x: T) -> T {
        x
    }
}

/// The number of elements of a block. A shorter block at the end is padded.
const BLOCK: usize = 64;
/// The number of elements that are checked for near arguments together. With shorter loops, the processor would start
/// the computation later.
const BLOCKS: usize = 4 * BLOCK;
/// The padded length of the last block if it has only a few elements.
const SHORT: usize = 16;

struct Apply<'a, T, F> {
    out: &'a mut [T],
    x: &'a [T],
    function: F,
}

impl<T: Copy + PartialOrd, F: Function<T>> VectorLoop for Apply<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Apply { out, x, function } = self;
        let Some(bounds) = function.bounds() else {
            return function.each::<FMA, false>(out, x);
        };
        for (out, x) in out.chunks_mut(BLOCKS).zip(x.chunks(BLOCKS)) {
            if near(bounds, x) {
                function.each::<FMA, true>(out, x);
                continue;
            }
            for (out, x) in out.chunks_mut(BLOCK).zip(x.chunks(BLOCK)) {
                block::<FMA, T, F>(function, bounds, out, x);
            }
        }
    }
}

/// Returns whether all arguments are near, that is, within the bounds.
#[inline(always)]
fn near<T: Copy + PartialOrd>([low, high]: [T; 2], x: &[T]) -> bool {
    // `fold` is vectorised, unlike `all`, which ends early. Blocks are unrolled, so that vectors keep their full width.
    let both = |near: bool, &x: &T| near & (x >= low) & (x <= high);
    let (blocks, rest) = x.as_chunks::<BLOCK>();
    blocks.iter().fold(rest.iter().fold(true, both), |near, block| near & block.iter().fold(true, both))
}

/// Writes the values at `x`, which may be near or not.
#[inline(always)]
fn block<const FMA: bool, T: Copy + PartialOrd, F: Function<T>>(
    function: F,
    bounds: [T; 2],
    out: &mut [T],
    x: &[T],
) {
    let near = near(bounds, x);
    if near || F::APART {
        function.each::<FMA, true>(out, x);
    } else {
        function.each::<FMA, false>(out, x);
    }
    if F::APART && !near {
        for (out, &x) in out.iter_mut().zip(x) {
            if !self::near(bounds, &[x]) {
                *out = function.far(x);
            }
        }
    }
}

/// Writes `f(x)` for each element.
#[inline(always)]
pub(super) fn one_by_one<T: Copy>(out: &mut [T], x: &[T], f: impl Fn(T) -> T) {
    for (out, &x) in out.iter_mut().zip(x) {
        *out = f(x);
    }
}

/// The number of elements whose stages are computed one after another. The results of a stage stay in the first-level
/// cache.
const STAGE: usize = 128;

/// Writes a function of each element that is computed in three stages. Each stage reads two results of the previous one.
/// A processor overlaps the computations of more elements if each of them is shorter, and all constants of a stage fit in
/// registers.
#[inline(always)]
pub(super) fn in_stages<T: Copy + Default>(
    out: &mut [T],
    x: &[T],
    first: impl Fn(T) -> [T; 2],
    middle: impl Fn([T; 2]) -> [T; 2],
    last: impl Fn(T, [T; 2]) -> T,
) {
    let (mut a, mut b) = ([T::default(); STAGE], [T::default(); STAGE]);
    for (out, x) in out.chunks_mut(STAGE).zip(x.chunks(STAGE)) {
        for ((a, b), &x) in a.iter_mut().zip(&mut b).zip(x) {
            [*a, *b] = first(x);
        }
        for ((a, b), _) in a.iter_mut().zip(&mut b).zip(x) {
            [*a, *b] = middle([*a, *b]);
        }
        for ((&a, &b), (out, &x)) in a.iter().zip(&b).zip(out.iter_mut().zip(x)) {
            *out = last(x, [a, b]);
        }
    }
}

/// Writes the values of a function at each element of `x`.
pub(super) fn apply<T: Copy + Default + PartialOrd, F: Function<T>>(function: F, out: &mut [T], x: &[T]) {
    // Up to three elements at the end are computed one by one. For more elements, a padded block costs less.
    let whole = if x.len() % BLOCK < 4 { x.len() } else { x.len() / BLOCK * BLOCK };
    let ((out, out_end), (x, x_end)) = (out.split_at_mut(whole), x.split_at(whole));
    dispatch(Apply { out, x, function });
    match x_end.len() {
        0 => {}
        1..=SHORT => padded::<T, F, SHORT>(function, out_end, x_end),
        _ => padded::<T, F, BLOCK>(function, out_end, x_end),
    }
}

/// Writes the values for at most `N` elements, which are padded to a block of `N`.
fn padded<T: Copy + Default + PartialOrd, F: Function<T>, const N: usize>(
    function: F,
    out: &mut [T],
    x: &[T],
) {
    let (mut from, mut to) = ([T::default(); N], [T::default(); N]);
    from.split_at_mut(x.len()).0.copy_from_slice(x);
    dispatch(Apply { out: &mut to, x: &from, function });
    out.copy_from_slice(to.split_at(x.len()).0);
}

/// Writes the values of a function at each element of the operand.
///
/// # Safety
///
/// Same as for [`Run`](super::element_loop::Run).
pub(super) unsafe fn map<T: Copy + Default + PartialOrd, F: Function<T> + Default>(
    out: *mut u8,
    x: [*const u8; 1],
    n: usize,
) {
    // SAFETY: this function has the same contract.
    let (out, [x]) = unsafe { slices::<T, T, 1>(out, x, n) };
    apply(F::default(), out, x);
}

/// Declares a type for each function, so that a loop can be generic over the function.
macro_rules! functions {
    ($t:ty; $($name:ident<$fma:ident, $near:ident> $bounds:expr, $(far $far:expr,)? |$x:ident| $value:expr;)*) => {$(
        #[derive(Clone, Copy, Default)]
        struct $name;

        impl $crate::kernels::function::Function<$t> for $name {
            $(
                // The macro repetition must name `$far`, so this constant does.
                const APART: bool = { let _: fn($t) -> $t = $far; true };

                #[inline(always)]
                fn far(self, x: $t) -> $t {
                    $far(x)
                }
            )?

            #[inline(always)]
            fn bounds(self) -> Option<[$t; 2]> {
                $bounds
            }

            #[inline(always)]
            fn each<const $fma: bool, const $near: bool>(self, out: &mut [$t], x: &[$t]) {
                $crate::kernels::function::one_by_one(out, x, |$x| $value);
            }
        }
    )*};
}

/// Declares a type for each function that is computed in stages.
macro_rules! staged {
    ($t:ty; $($name:ident<$fma:ident> |$out:ident, $x:ident| $each:expr;)*) => {$(
        #[derive(Clone, Copy, Default)]
        struct $name;

        impl $crate::kernels::function::Function<$t> for $name {
            #[inline(always)]
            fn bounds(self) -> Option<[$t; 2]> {
                None
            }

            #[inline(always)]
            fn each<const $fma: bool, const NEAR: bool>(self, $out: &mut [$t], $x: &[$t]) {
                $each
            }
        }
    )*};
}

pub(super) use {functions, staged};
