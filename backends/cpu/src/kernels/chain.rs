//! Chains of element-wise functions of `f32`. A few vectors of elements stay in registers from the first function to
//! the last, so that memory is only read for operands and written for results.

mod usual;

use super::lanes::{Baseline, Lanes};
#[cfg(target_arch = "x86_64")]
use crate::level::Level;
use crate::level::level;
use usual::Usual;

/// The maximum number of places of a program: its tensors, and its registers for intermediate results that later lines
/// read.
pub(crate) const PLACES: usize = 16;

/// An operation on the elements in the registers, which are `self`. `x` are the elements of the line's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// Loads `x`.
    Load,
    /// Writes the elements to the place.
    Keep,
    /// `self + x`.
    Add,
    /// `self - x`.
    Sub,
    /// `x - self`.
    SubFrom,
    /// `self * x`.
    Mul,
    /// `self / x`.
    Div,
    /// `x / self`.
    DivFrom,
    /// The maximum of `self` and `x`, or NaN if either is NaN.
    Max,
    /// The maximum of `x` and `self`. The order matters only for the sign of a zero.
    MaxFrom,
    /// The minimum of `self` and `x`, or NaN if either is NaN.
    Min,
    /// The minimum of `x` and `self`.
    MinFrom,
    /// `-self`.
    Neg,
    /// The absolute value.
    Abs,
    /// `max(self, 0)`; NaN stays NaN.
    Relu,
    /// The square root.
    Sqrt,
    /// Rounds to `f16`.
    RoundF16,
    /// Rounds to `bf16`.
    RoundBf16,
}

/// A line of a chain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    pub(crate) code: Code,
    /// The place that the line reads or writes: an index of the program's places, [`HELD`], or [`NOWHERE`] if the line
    /// has no place.
    pub(crate) place: usize,
}

/// The value of [`Line::place`] if the line has no place.
pub(crate) const NOWHERE: usize = PLACES;
/// A place in processor registers, for elements that the same chain reads again.
pub(crate) const HELD: usize = PLACES + 1;

/// The elements of a place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) ptr: *mut f32,
    /// Whether the place has a single element, which is used for all results.
    pub(crate) single: bool,
}

impl Place {
    pub(crate) const NONE: Place = Place { ptr: std::ptr::null_mut(), single: false };
}

/// Runs the lines for `n` elements of each place, and writes the final contents of the registers to `out`.
///
/// # Safety
///
/// Each place that a line reads or writes has `n` elements, or one element if it is single; single places are only
/// read. Written places and `out` overlap no other place, except that `out` may be a place that is read.
pub(crate) unsafe fn run(lines: &[Line], places: &[Place; PLACES], out: *mut f32, n: usize) {
    // SAFETY: this function has the same contract; `level` returns only a level of this processor.
    unsafe {
        if let Some(usual) = Usual::of(lines, places) {
            return usual.run(out, n);
        }
        match level() {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => x86::avx512(lines, places, out, n),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => x86::avx2(lines, places, out, n),
            _ => walk::<Baseline>(lines, places, out, n),
        }
    }
}

/// The number of vectors that each line processes together, which hides the latency of the functions.
const VECTORS: usize = 8;
/// The number of vectors that each line processes together for the last few elements.
const FEW: usize = 2;

/// # Safety
///
/// As for [`run`], with the instruction set of the vectors.
#[inline(always)]
unsafe fn walk<V: Lanes>(lines: &[Line], places: &[Place; PLACES], out: *mut f32, n: usize) {
    let mut at = 0;
    // SAFETY: this function's contract.
    unsafe {
        while at + VECTORS * V::LANES <= n {
            through::<V, VECTORS, false>(lines, places, out, [at, 0]);
            at += VECTORS * V::LANES;
        }
        match n - at {
            0 => {}
            left if left <= FEW * V::LANES => through::<V, FEW, true>(lines, places, out, [at, left]),
            left => through::<V, VECTORS, true>(lines, places, out, [at, left]),
        }
    }
}

/// Runs the lines for the elements of `N` vectors from element `at` on. If `SOME`, only the first `count` elements are
/// read and written.
///
/// # Safety
///
/// As for [`walk`], for these elements.
#[inline(always)]
unsafe fn through<V: Lanes, const N: usize, const SOME: bool>(
    lines: &[Line],
    places: &[Place; PLACES],
    out: *mut f32,
    [at, count]: [usize; 2],
) {
    // SAFETY: this function's contract. All loops over the vectors are unrolled.
    unsafe {
        // Lanes beyond `count` are computed as well, but not written.
        let some = |i: usize| count.saturating_sub(i * V::LANES).min(V::LANES);
        let load = |place: *const f32, i: usize| {
            let place = place.wrapping_add(i * V::LANES);
            if SOME { V::load_some(place, some(i)) } else { V::load(place) }
        };
        let store = |v: V, place: *mut f32, i: usize| {
            let place = place.wrapping_add(i * V::LANES);
            if SOME { v.store_some(place, some(i)) } else { v.store(place) }
        };
        let mut vectors = [V::zero(); N];
        let mut held = [V::zero(); N];
        for line in lines {
            let place = places.get(line.place).copied().unwrap_or(Place::NONE);
            /// Combines the vectors with the elements of the place. The second expression is used for a single element
            /// that is not NaN.
            macro_rules! each {
                ($vector:ident, $x:ident => $result:expr) => {
                    each!($vector, $x => $result, _number => $result)
                };
                ($vector:ident, $x:ident => $result:expr, $number:ident => $simple:expr) => {
                    if line.place == HELD {
                        for ($vector, $x) in vectors.iter_mut().zip(held) {
                            *$vector = $result;
                        }
                    } else if place.single {
                        let $number = *place.ptr;
                        let $x = V::splat($number);
                        if $number.is_nan() {
                            for $vector in &mut vectors {
                                *$vector = $result;
                            }
                        } else {
                            for $vector in &mut vectors {
                                *$vector = $simple;
                            }
                        }
                    } else {
                        let from = place.ptr.add(at);
                        for (i, $vector) in vectors.iter_mut().enumerate() {
                            let $x = load(from, i);
                            *$vector = $result;
                        }
                    }
                };
                ($vector:ident => $result:expr) => {
                    for $vector in &mut vectors {
                        *$vector = $result;
                    }
                };
            }
            match line.code {
                Code::Load => each!(v, x => x),
                Code::Keep if line.place == HELD => held = vectors,
                Code::Keep => {
                    for (i, vector) in vectors.iter().enumerate() {
                        store(*vector, place.ptr.add(at), i);
                    }
                }
                Code::Add => each!(v, x => v.add(x)),
                Code::Sub => each!(v, x => v.sub(x)),
                Code::SubFrom => each!(v, x => x.sub(*v)),
                Code::Mul => each!(v, x => v.mul(x)),
                Code::Div => each!(v, x => v.div(x)),
                Code::DivFrom => each!(v, x => x.div(*v)),
                Code::Max => each!(v, x => v.max(x), number => v.max_number(x)),
                // The order matters only for zeros, because other equal numbers are identical.
                Code::MaxFrom => each!(v, x => x.max(*v), number => {
                    if number == 0.0 { x.max(*v) } else { v.max_number(x) }
                }),
                Code::Min => each!(v, x => v.min(x), number => v.min_number(x)),
                Code::MinFrom => each!(v, x => x.min(*v), number => {
                    if number == 0.0 { x.min(*v) } else { v.min_number(x) }
                }),
                Code::Neg => each!(v => v.neg()),
                Code::Abs => each!(v => v.abs()),
                Code::Relu => each!(v => v.max_number(V::zero())),
                Code::Sqrt => each!(v => v.sqrt()),
                Code::RoundF16 => each!(v => v.round_f16()),
                Code::RoundBf16 => each!(v => v.round_bf16()),
            }
        }
        for (i, vector) in vectors.iter().enumerate() {
            store(*vector, out.add(at), i);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Line, PLACES, Place, walk};
    use crate::kernels::lanes::x86::{F32x8, F32x16};

    /// # Safety
    ///
    /// As for [`run`](super::run).
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
    pub(super) unsafe fn avx512(lines: &[Line], places: &[Place; PLACES], out: *mut f32, n: usize) {
        // SAFETY: this function has the same contract.
        unsafe { walk::<F32x16>(lines, places, out, n) }
    }

    /// # Safety
    ///
    /// As for [`run`](super::run).
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn avx2(lines: &[Line], places: &[Place; PLACES], out: *mut f32, n: usize) {
        // SAFETY: this function has the same contract.
        unsafe { walk::<F32x8>(lines, places, out, n) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::{at, levels};
    use half::{bf16, f16};

    /// Returns numbers of all magnitudes, and numbers that functions treat specially.
    fn numbers(n: usize, seed: usize) -> Vec<f32> {
        let special =
            [0.0, -0.0, 1.0, -1.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 65519.9, 1e-45, f32::MAX];
        let of = |i: usize| {
            let bits = ((i * seed + 12_345) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            let drawn = f32::from_bits(bits as u32);
            special.get(bits as usize % 40).copied().unwrap_or(drawn)
        };
        (0..n).map(of).collect()
    }

    /// Returns the result of a line for one element, by its definition.
    fn defined(code: Code, own: f32, x: f32) -> f32 {
        let larger = |a: f32, b: f32| {
            if a.is_nan() || b.is_nan() {
                f32::NAN
            } else if b > a {
                b
            } else {
                a
            }
        };
        let smaller = |a: f32, b: f32| {
            if a.is_nan() || b.is_nan() {
                f32::NAN
            } else if b < a {
                b
            } else {
                a
            }
        };
        match code {
            Code::Load => x,
            Code::Keep => own,
            Code::Add => own + x,
            Code::Sub => own - x,
            Code::SubFrom => x - own,
            Code::Mul => own * x,
            Code::Div => own / x,
            Code::DivFrom => x / own,
            Code::Max => larger(own, x),
            Code::MaxFrom => larger(x, own),
            Code::Min => smaller(own, x),
            Code::MinFrom => smaller(x, own),
            Code::Neg => -own,
            Code::Abs => own.abs(),
            Code::Relu => larger(own, 0.0),
            Code::Sqrt => own.sqrt(),
            Code::RoundF16 => f16::from_f32(own).to_f32(),
            Code::RoundBf16 => bf16::from_f32(own).to_f32(),
        }
    }

    #[track_caller]
    fn assert_same(results: &[f32], expected: &[f32], what: &str) {
        for (i, (y, want)) in results.iter().zip(expected).enumerate() {
            let same = y.to_bits() == want.to_bits() || (y.is_nan() && want.is_nan());
            assert!(same, "{what}: {y:e} at {i}, expected {want:e}");
        }
    }

    const CODES: [Code; 18] = [
        Code::Load,
        Code::Keep,
        Code::Add,
        Code::Sub,
        Code::SubFrom,
        Code::Mul,
        Code::Div,
        Code::DivFrom,
        Code::Max,
        Code::MaxFrom,
        Code::Min,
        Code::MinFrom,
        Code::Neg,
        Code::Abs,
        Code::Relu,
        Code::Sqrt,
        Code::RoundF16,
        Code::RoundBf16,
    ];

    #[test]
    fn each_line_is_what_its_definition_says() {
        for level in levels() {
            for n in [1, 7, 8, 15, 16, 17, 100, 128, 129, 512] {
                let (mut first, mut second) = (numbers(n, 3), numbers(n, 7));
                for code in CODES {
                    let mut kept = vec![0.0; n];
                    let place = if code == Code::Keep { 2 } else { 1 };
                    let lines = [Line { code: Code::Load, place: 0 }, Line { code, place }];
                    let mut places = [Place::NONE; PLACES];
                    for (place, x) in places.iter_mut().zip([&mut first, &mut second, &mut kept]) {
                        place.ptr = x.as_mut_ptr();
                    }
                    let mut out = vec![0.0; n];
                    // SAFETY: the places and the results have `n` elements.
                    at(level, || unsafe { run(&lines, &places, out.as_mut_ptr(), n) });
                    let expected: Vec<f32> =
                        first.iter().zip(&second).map(|(&a, &b)| defined(code, a, b)).collect();
                    assert_same(&out, &expected, &format!("{code:?} of {n} at {level:?}"));
                    if code == Code::Keep {
                        assert_same(&kept, &expected, "what is kept");
                        continue;
                    }
                    // Tests a single element of the second operand for all results.
                    for &single in second.iter().take(20) {
                        let mut one = single;
                        places[1] = Place { ptr: &raw mut one, single: true };
                        // SAFETY: as above, and there is a single element.
                        at(level, || unsafe { run(&lines, &places, out.as_mut_ptr(), n) });
                        let expected: Vec<f32> = first.iter().map(|&a| defined(code, a, single)).collect();
                        assert_same(&out, &expected, &format!("{code:?} of {n} and {single} at {level:?}"));
                    }
                }
            }
        }
    }

    #[test]
    fn results_may_take_the_place_of_an_operand() {
        // `x * x - x`, written to `x`.
        let lines = [
            Line { code: Code::Load, place: 0 },
            Line { code: Code::Keep, place: 1 },
            Line { code: Code::Mul, place: 1 },
            Line { code: Code::Sub, place: 0 },
        ];
        for level in levels() {
            for n in [5, 16, 300] {
                let (mut x, mut block) = (numbers(n, 5), vec![0.0; n]);
                let expected: Vec<f32> = x.iter().map(|x| x * x - x).collect();
                let own = x.clone();
                let mut places = [Place::NONE; PLACES];
                let [first, second, ..] = &mut places;
                (first.ptr, second.ptr) = (x.as_mut_ptr(), block.as_mut_ptr());
                // SAFETY: the places have `n` elements; the result takes one that is only read.
                at(level, || unsafe { run(&lines, &places, x.as_mut_ptr(), n) });
                assert_same(&x, &expected, &format!("{n} at {level:?}"));
                // The same with the intermediate result in registers.
                x.copy_from_slice(&own);
                let held =
                    lines.map(|line| if line.place == 1 { Line { place: HELD, ..line } } else { line });
                // SAFETY: as above.
                at(level, || unsafe { run(&held, &places, x.as_mut_ptr(), n) });
                assert_same(&x, &expected, &format!("{n} at {level:?}, held"));
            }
        }
    }
}
