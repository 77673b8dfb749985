//! Loops that quantise numbers to 8-bit integers, and dequantise them.
//!
//! Each loop computes in one pass the steps of the operations' bodies, with the same roundings and
//! results.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "integers become the nearest floats, and floats are within the range of the integers"
)]

use super::dispatch::{VectorLoop, dispatch};
#[cfg(target_arch = "x86_64")]
use crate::level::{Level, extras, level};

/// A quantisation to eight bits: the zero point, and the minimum and the maximum value of the bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    zero: f32,
    least: f32,
    most: f32,
}

impl Target {
    /// Returns the target for signed or unsigned bytes with a zero point.
    pub(crate) const fn new(signed: bool, zero: i32) -> Target {
        let [least, most] = if signed { [-128.0, 127.0] } else { [0.0, 255.0] };
        Target { zero: zero as f32, least, most }
    }

    /// Rounds a quotient, adds the zero point, and returns the byte, which is 0 for NaN.
    #[inline(always)]
    fn byte(self, quotient: f32) -> u8 {
        let v = quotient.round_ties_even() + self.zero;
        let v = if v < self.least { self.least } else { v };
        let v = if v > self.most { self.most } else { v };
        let v = if v.is_nan() { 0.0 } else { v };
        // SAFETY: the number is within the bounds of a byte.
        let whole: i32 = unsafe { v.to_int_unchecked() };
        whole as u8
    }
}

/// The quantisation of bytes that are dequantised.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source {
    /// The exclusive-or mask that makes a byte unsigned.
    mask: u8,
    /// The zero point of the unsigned bytes.
    zero: i32,
    scale: f32,
}

impl Source {
    /// Returns the source for signed or unsigned bytes with a zero point and a scale.
    pub(crate) const fn new(signed: bool, zero: i32, scale: f32) -> Source {
        let (mask, moved) = if signed { (0x80, 128) } else { (0, 0) };
        Source { mask, zero: zero.wrapping_add(moved), scale }
    }

    /// Returns the number that a byte represents.
    #[inline(always)]
    fn number(self, byte: u8) -> f32 {
        i32::from(byte ^ self.mask).wrapping_sub(self.zero) as f32 * self.scale
    }
}

/// A loop that writes `f(x)` for each element.
struct Each<'a, T, U, F> {
    out: &'a mut [U],
    x: &'a [T],
    f: F,
}

impl<T: Copy, U, F: Fn(T) -> U> VectorLoop for Each<'_, T, U, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (out, &x) in self.out.iter_mut().zip(self.x) {
            *out = (self.f)(x);
        }
    }
}

/// An element type that is quantised.
pub(crate) trait Unquantized: Copy {
    /// Returns the nearest `f32`.
    fn float(self) -> f32;
}

impl Unquantized for f32 {
    #[inline(always)]
    fn float(self) -> f32 {
        self
    }
}

impl Unquantized for i32 {
    #[inline(always)]
    fn float(self) -> f32 {
        self as f32
    }
}

/// Quantises `x / scale`.
pub(crate) fn quantize(out: &mut [u8], x: &[f32], scale: f32, target: Target) {
    dispatch(Each { out, x, f: |v: f32| target.byte(v / scale) });
}

/// Quantises `x * scale / y_scale`.
pub(crate) fn requantize<T: Unquantized>(out: &mut [u8], x: &[T], scale: f32, y_scale: f32, target: Target) {
    dispatch(Each { out, x, f: |v: T| target.byte(v.float() * scale / y_scale) });
}

/// Rows of sums that are quantised in one call, because one call for each row would take as long as its few sums.
pub(crate) struct Rows<'a, S, P> {
    pub(crate) sums: &'a [i32],
    /// The distance between rows, and the number of sums of each row that are quantised, at most `N`.
    pub(crate) stride: usize,
    pub(crate) width: usize,
    /// The scale of each row. The sums of the row are multiplied by it before they are divided by `y_scale`.
    pub(crate) scale: S,
    pub(crate) y_scale: f32,
    pub(crate) target: Target,
    /// The function that receives the bytes of each row. Bytes after the last sum have no meaning.
    pub(crate) put: P,
}

/// The loop over [`Rows`] of at most `N` sums.
struct EachRow<'a, S, P, const N: usize>(Rows<'a, S, P>);

impl<S: Fn(usize) -> f32, P: Fn(usize, &[u8; N]), const N: usize> VectorLoop for EachRow<'_, S, P, N> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Rows { sums, stride, width, scale, y_scale, target, put } = self.0;
        let mut bytes = [[0; N]; GROUP];
        for (group, sums) in sums.chunks(GROUP * stride.max(1)).enumerate() {
            let first = group * GROUP;
            for ((i, bytes), sums) in (first..).zip(&mut bytes).zip(sums.chunks(stride.max(1))) {
                let scale = scale(i);
                // The loop has a variable length, because the compiler would compute parts of a constant length element
                // by element.
                for (to, &x) in bytes.iter_mut().zip(sums.get(..width).unwrap_or_default()) {
                    *to = target.byte(x.float() * scale / y_scale);
                }
            }
            // A load that overlaps several recent stores stalls until they have reached the cache, so `put` is called
            // only after the whole group is written.
            for ((i, bytes), _) in (first..).zip(&bytes).zip(sums.chunks(stride.max(1))) {
                put(i, bytes);
            }
        }
    }
}

/// The number of rows that are quantised before they are passed to `put`.
const GROUP: usize = 8;

/// Quantises rows of at most `N` sums.
pub(crate) fn rows<const N: usize>(rows: Rows<'_, impl Fn(usize) -> f32, impl Fn(usize, &[u8; N])>) {
    dispatch(EachRow(rows));
}

/// Converts floats without a fraction to integers, and adds `plus`; the sums wrap.
///
/// # Safety
///
/// The numbers are within the range of `i32`.
pub(crate) unsafe fn whole(out: &mut [i32], x: &[f32], plus: i32) {
    // SAFETY: the caller guarantees that each float is in the range of `i32`.
    dispatch(Each { out, x, f: |v: f32| unsafe { v.to_int_unchecked::<i32>() }.wrapping_add(plus) });
}

/// Dequantises bytes.
pub(crate) fn dequantize(out: &mut [f32], x: &[u8], source: Source) {
    dispatch(Each { out, x, f: |v: u8| source.number(v) });
}

/// A loop over two operands that have an element for each result.
struct Along<'a, T, P, U, F> {
    out: &'a mut [U],
    x: &'a [T],
    by: &'a [P],
    f: F,
}

impl<T: Copy, P: Copy, U, F: Fn(T, P) -> U> VectorLoop for Along<'_, T, P, U, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for ((out, &x), &by) in self.out.iter_mut().zip(self.x).zip(self.by) {
            *out = (self.f)(x, by);
        }
    }
}

/// Quantises `x * scale / y_scale` with a scale for each element.
pub(crate) fn requantize_along<T: Unquantized>(
    out: &mut [u8],
    x: &[T],
    scales: &[f32],
    y_scale: f32,
    target: Target,
) {
    dispatch(Along { out, x, by: scales, f: |v: T, scale: f32| target.byte(v.float() * scale / y_scale) });
}

/// A loop that multiplies sums by `scale` and by a number for each column, and adds a bias for each column. If `scales`
/// or `bias` is empty, this step is left out.
pub(crate) struct Scaled<'a> {
    pub(crate) out: &'a mut [f32],
    pub(crate) x: &'a [i32],
    pub(crate) scale: f32,
    pub(crate) scales: &'a [f32],
    pub(crate) bias: &'a [f32],
}

impl VectorLoop for Scaled<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Scaled { out, x, scale, scales, bias } = self;
        // Rows of tiles are short, so loops over lists of variable length would take longer than the computation.
        let ((out, out_end), (x, x_end)) = (out.as_chunks_mut::<AT_ONCE>(), x.as_chunks::<AT_ONCE>());
        let whole = x.len() * AT_ONCE;
        let (mut by, mut plus) =
            (scales.as_chunks::<AT_ONCE>().0.iter(), bias.as_chunks::<AT_ONCE>().0.iter());
        for (out, x) in out.iter_mut().zip(x) {
            let mut v = [0.0; AT_ONCE];
            v.iter_mut().zip(x).for_each(|(v, &x)| *v = x as f32);
            match by.next() {
                Some(by) => v.iter_mut().zip(by).for_each(|(v, &by)| *v *= scale * by),
                None => v.iter_mut().for_each(|v| *v *= scale),
            }
            if let Some(plus) = plus.next() {
                v.iter_mut().zip(plus).for_each(|(v, &plus)| *v += plus);
            }
            *out = v;
        }
        let rest = |list: &[f32], i: usize| list.get(whole + i).copied();
        for (i, (out, &x)) in out_end.iter_mut().zip(x_end).enumerate() {
            let v = x as f32 * rest(scales, i).map_or(scale, |by| scale * by);
            *out = rest(bias, i).map_or(v, |plus| v + plus);
        }
    }
}

/// The number of sums that are scaled together.
const AT_ONCE: usize = 16;

/// Scales sums and adds a bias.
pub(crate) fn scaled(sums: Scaled<'_>) {
    dispatch(sums);
}

/// Adds or multiplies dequantised bytes, and quantises the results.
pub(crate) fn pairs(
    out: &mut [u8],
    [a, b]: [&[u8]; 2],
    [of_a, of_b]: [Source; 2],
    multiply: bool,
    (y_scale, target): (f32, Target),
) {
    if multiply {
        dispatch(Along {
            out,
            x: a,
            by: b,
            f: |a, b| target.byte(of_a.number(a) * of_b.number(b) / y_scale),
        });
    } else {
        dispatch(Along {
            out,
            x: a,
            by: b,
            f: |a, b| target.byte((of_a.number(a) + of_b.number(b)) / y_scale),
        });
    }
}

/// A loop that finds the minimum and the maximum element. Returns `None` if there is no element, or if an element is
/// NaN.
struct Range<'a>(&'a [f32]);

/// The number of independent minima and maxima.
const LANES: usize = 64;

impl VectorLoop for Range<'_> {
    type Output = Option<[f32; 2]>;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> Option<[f32; 2]> {
        let first = *self.0.first()?;
        let (whole, rest) = self.0.as_chunks::<LANES>();
        let (mut least, mut most, mut nan) = ([first; LANES], [first; LANES], [0u32; LANES]);
        for x in whole {
            for (((least, most), nan), &v) in least.iter_mut().zip(&mut most).zip(&mut nan).zip(x) {
                *least = if v < *least { v } else { *least };
                *most = if v > *most { v } else { *most };
                *nan |= u32::from(v.is_nan());
            }
        }
        for (((least, most), nan), &v) in least.iter_mut().zip(&mut most).zip(&mut nan).zip(rest) {
            *least = if v < *least { v } else { *least };
            *most = if v > *most { v } else { *most };
            *nan |= u32::from(v.is_nan());
        }
        let least = least.into_iter().fold(first, f32::min);
        let most = most.into_iter().fold(first, f32::max);
        (nan.iter().all(|&nan| nan == 0) && !first.is_nan()).then_some([least, most])
    }
}

/// Returns the scale and the zero point for a range that covers all elements and 0. Returns `None` if there is no
/// element, or if an element is not finite.
pub(crate) fn range(x: &[f32]) -> Option<(f32, u8)> {
    let [least, most] = dispatch(Range(x))?;
    let (least, most) = (least.min(0.0), most.max(0.0));
    let scale = (most - least) / 255.0;
    if !scale.is_finite() {
        return None;
    }
    let point = (-(least / divisor(scale))).clamp(0.0, 255.0).round_ties_even();
    Some((scale, point as u8))
}

/// Returns the divisor for a scale, which is 1 if the scale is 0.
pub(crate) fn divisor(scale: f32) -> f32 {
    if scale == 0.0 { 1.0 } else { scale }
}

/// Replaces bytes by entries of a table. The index of an entry is the byte XOR `mask`.
pub(crate) fn lookup(out: &mut [u8], x: &[u8], mask: u8, table: &[u8; 256]) {
    #[cfg(target_arch = "x86_64")]
    if level() == Level::Avx512 && extras() && is_x86_feature_detected!("avx512vbmi") {
        // SAFETY: the processor has the instructions.
        return unsafe { lookup_avx512(out, x, mask, table) };
    }
    entries(out, x, mask, table);
}

fn entries(out: &mut [u8], x: &[u8], mask: u8, table: &[u8; 256]) {
    for (out, &x) in out.iter_mut().zip(x) {
        *out = table.get(usize::from(x ^ mask)).copied().unwrap_or_default();
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
unsafe fn lookup_avx512(out: &mut [u8], x: &[u8], mask: u8, table: &[u8; 256]) {
    use std::arch::x86_64::*;
    let (outs, out_rest) = out.as_chunks_mut::<64>();
    let (xs, rest) = x.as_chunks::<64>();
    // SAFETY: the four parts are in the table, and each chunk has as many bytes as a vector.
    unsafe {
        let part = |i: usize| _mm512_loadu_si512(table.as_ptr().add(64 * i).cast());
        let (a, b, c, d) = (part(0), part(1), part(2), part(3));
        let mask = _mm512_set1_epi8(mask.cast_signed());
        for (out, x) in outs.iter_mut().zip(xs) {
            let index = _mm512_xor_si512(_mm512_loadu_si512(x.as_ptr().cast()), mask);
            let low = _mm512_permutex2var_epi8(a, index, b);
            let high = _mm512_permutex2var_epi8(c, index, d);
            let chosen = _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), low, high);
            _mm512_storeu_si512(out.as_mut_ptr().cast(), chosen);
        }
    }
    entries(out_rest, rest, mask, table);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::{at, levels};

    #[test]
    fn sums_of_any_number_are_scaled_and_biased() {
        let numbers = |from: f32| (0..50).map(|i| from + 0.37 * i as f32).collect::<Vec<_>>();
        let (scales, bias) = (numbers(0.5), numbers(-3.0));
        for n in [0, 1, 15, 16, 17, 31, 32, 48, 50] {
            let x: Vec<i32> = (0..n).map(|i| 1000 * i - 77).collect();
            for (scales, bias) in
                [(&[][..], &[][..]), (&scales[..], &[][..]), (&[][..], &bias[..]), (&scales[..], &bias[..])]
            {
                for level in levels() {
                    let mut out = vec![f32::NAN; x.len()];
                    at(level, || scaled(Scaled { out: &mut out, x: &x, scale: 0.3, scales, bias }));
                    for (i, (&got, &x)) in out.iter().zip(&x).enumerate() {
                        let by = scales.get(i).map_or(0.3, |by| 0.3 * by);
                        let want = x as f32 * by;
                        let want = bias.get(i).map_or(want, |bias| want + bias);
                        assert_eq!(got, want, "{i} of {n} at {level:?}");
                    }
                }
            }
        }
    }
}
