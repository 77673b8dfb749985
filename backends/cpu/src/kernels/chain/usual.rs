//! Chains that follow convolutions in many networks: a scale and a shift, as in normalizations, and an activation.
//!
//! Each chain has its own loop, because processing line by line takes longer than these functions. The functions, their
//! order and the bits of the results are the same as with the lines.

use super::{Code, HELD, Line, NOWHERE, PLACES, Place};
use crate::kernels::lanes::{Baseline, Lanes};
#[cfg(target_arch = "x86_64")]
use crate::level::Level;
use crate::level::level;

/// The activation at the end of a chain.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Activation {
    /// No activation.
    Same,
    Relu,
    /// Bounds, the lower bound first.
    Clip([f32; 2]),
    /// `x * clip(a * x + b)`: the numbers `[a, b]`, and the bounds of the clip.
    Swish([f32; 2], [f32; 2]),
}

/// A chain whose operands are one tensor and single numbers that are not NaN.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usual {
    x: *const f32,
    /// The factor of the elements, and the number that is added to the product.
    affine: Option<[f32; 2]>,
    activation: Activation,
}

impl Usual {
    /// Returns the chain of these lines, if it is a usual one.
    ///
    /// # Safety
    ///
    /// Single places have an element.
    pub(super) unsafe fn of(lines: &[Line], places: &[Place; PLACES]) -> Option<Usual> {
        let (&Line { code: Code::Load, place }, lines) = lines.split_first()? else { return None };
        let tensor = places.get(place).filter(|place| !place.single)?;
        let number = |place: usize| {
            let ptr = places.get(place).filter(|place| place.single)?.ptr;
            // SAFETY: this function's contract.
            Some(unsafe { *ptr }).filter(|x| !x.is_nan())
        };
        let numbers = |[first, second]: [usize; 2]| Some([number(first)?, number(second)?]);
        let x = tensor.ptr.cast_const();
        if let [
            Line { code: Code::Mul, place: by },
            Line { code: Code::Add, place: plus },
            Line { code: Code::Max, place: low },
            Line { code: Code::Min, place: high },
            Line { code: Code::Mul, place: again },
        ] = *lines
            && again == place
        {
            let activation = Activation::Swish(numbers([by, plus])?, numbers([low, high])?);
            return Some(Usual { x, affine: None, activation });
        }
        let (affine, lines) = match *lines {
            [Line { code: Code::Mul, place: by }, Line { code: Code::Add, place: plus }, ref rest @ ..] => {
                (Some(numbers([by, plus])?), rest)
            }
            _ => (None, lines),
        };
        let activation = match *lines {
            [] => Activation::Same,
            [Line { code: Code::Relu, place: NOWHERE }] => Activation::Relu,
            [Line { code: Code::Max, place: low }, Line { code: Code::Min, place: high }] => {
                Activation::Clip(numbers([low, high])?)
            }
            [
                Line { code: Code::Keep, place: HELD },
                Line { code: Code::Mul, place: by },
                Line { code: Code::Add, place: plus },
                Line { code: Code::Max, place: low },
                Line { code: Code::Min, place: high },
                Line { code: Code::Mul, place: HELD },
            ] => Activation::Swish(numbers([by, plus])?, numbers([low, high])?),
            _ => return None,
        };
        Some(Usual { x, affine, activation })
    }

    /// Writes `n` results.
    ///
    /// # Safety
    ///
    /// The tensor has `n` elements, and `out` has room for `n` elements; `out` may point to the tensor.
    pub(super) unsafe fn run(&self, out: *mut f32, n: usize) {
        // SAFETY: this function has the same contract; `level` returns only a level of this processor.
        unsafe {
            match level() {
                #[cfg(target_arch = "x86_64")]
                Level::Avx512 => x86::avx512(self, out, n),
                #[cfg(target_arch = "x86_64")]
                Level::Avx2 => x86::avx2(self, out, n),
                _ => each::<Baseline>(self, out, n),
            }
        }
    }
}

/// # Safety
///
/// As for [`Usual::run`], with the instruction set of the vectors.
#[inline(always)]
unsafe fn each<V: Lanes>(usual: &Usual, out: *mut f32, n: usize) {
    let &Usual { x, affine, activation } = usual;
    // This is a macro because a closure might be compiled as a function without the instruction set.
    macro_rules! walk {
        ($v:ident => $result:expr) => {{
            let whole = n - n % V::LANES;
            for at in (0..whole).step_by(V::LANES) {
                let $v = V::load(x.add(at));
                $result.store(out.add(at));
            }
            if whole < n {
                let $v = V::load_some(x.add(whole), n - whole);
                $result.store_some(out.add(whole), n - whole);
            }
        }};
    }
    macro_rules! after {
        ($v:ident => $result:expr) => {
            match affine {
                Some([scale, shift]) => {
                    let (scale, shift) = (V::splat(scale), V::splat(shift));
                    walk!(x => {
                        let $v = x.mul(scale).add(shift);
                        $result
                    });
                }
                None => walk!($v => $result),
            }
        };
    }
    // SAFETY: this function's contract.
    unsafe {
        match activation {
            Activation::Same => after!(v => v),
            Activation::Relu => after!(v => v.max_number(V::zero())),
            Activation::Clip([low, high]) => {
                let (low, high) = (V::splat(low), V::splat(high));
                after!(v => v.max_number(low).min_number(high));
            }
            Activation::Swish([by, plus], [low, high]) => {
                let (by, plus) = (V::splat(by), V::splat(plus));
                let (low, high) = (V::splat(low), V::splat(high));
                after!(v => v.mul(by).add(plus).max_number(low).min_number(high).mul(v));
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Usual, each};
    use crate::kernels::lanes::x86::{F32x8, F32x16};

    /// # Safety
    ///
    /// As for [`Usual::run`](super::Usual::run).
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
    pub(super) unsafe fn avx512(usual: &Usual, out: *mut f32, n: usize) {
        // SAFETY: this function has the same contract.
        unsafe { each::<F32x16>(usual, out, n) }
    }

    /// # Safety
    ///
    /// As for [`Usual::run`](super::Usual::run).
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn avx2(usual: &Usual, out: *mut f32, n: usize) {
        // SAFETY: this function has the same contract.
        unsafe { each::<F32x8>(usual, out, n) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::chain::walk;
    use crate::level::{at, levels};

    /// Checks that the results of usual chains have the same bits as the results of the loop over lines.
    #[test]
    fn usual_chains_are_what_their_lines_say() {
        let line = |code, place| Line { code, place };
        let affine = [line(Code::Mul, 1), line(Code::Add, 2)];
        let bounds = [line(Code::Max, 5), line(Code::Min, 6)];
        let rising = [line(Code::Mul, 3), line(Code::Add, 4)];
        let (keep, kept, relu) = (line(Code::Keep, HELD), line(Code::Mul, HELD), line(Code::Relu, NOWHERE));
        let parts: [&[&[Line]]; 8] = [
            &[&affine],
            &[&[relu]],
            &[&affine, &[relu]],
            &[&bounds],
            &[&affine, &bounds],
            &[&rising, &bounds, &[line(Code::Mul, 0)]],
            &[&[keep], &rising, &bounds, &[kept]],
            &[&affine, &[keep], &rising, &bounds, &[kept]],
        ];
        let special = [0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e-45, 3e38];
        for n in [1, 7, 8, 15, 16, 17, 100] {
            let of = |i: usize| special.get(i % 20).copied().unwrap_or(0.37 * i as f32 - 11.0);
            let mut x: Vec<f32> = (0..n).map(of).collect();
            let mut numbers = [1.7, -0.3, 1.0 / 6.0, 0.5, 0.0, 1.0f32];
            let mut places = [Place::NONE; PLACES];
            let [tensor, singles @ ..] = &mut places;
            tensor.ptr = x.as_mut_ptr();
            for (place, number) in singles.iter_mut().zip(&mut numbers) {
                *place = Place { ptr: number, single: true };
            }
            for parts in parts {
                let lines = [&[&[line(Code::Load, 0)][..]], parts].concat().concat();
                // SAFETY: the single places have an element.
                let usual = unsafe { Usual::of(&lines, &places) };
                for level in levels() {
                    let (mut got, mut want) = (vec![0.0f32; n], vec![0.0f32; n]);
                    // SAFETY: the places and the results have `n` elements, or a single one.
                    at(level, || unsafe {
                        usual.iter().for_each(|usual| usual.run(got.as_mut_ptr(), n));
                        walk::<Baseline>(&lines, &places, want.as_mut_ptr(), n);
                    });
                    for (got, want) in got.iter().zip(&want) {
                        let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
                        assert!(same, "{lines:?} of {n} at {level:?}: {got:e}, expected {want:e}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_number_that_is_nan_is_left_to_the_lines() {
        let lines = [
            Line { code: Code::Load, place: 0 },
            Line { code: Code::Max, place: 1 },
            Line { code: Code::Min, place: 1 },
        ];
        let (mut x, mut number) = ([1.0f32], f32::NAN);
        let mut places = [Place::NONE; PLACES];
        let [first, second, ..] = &mut places;
        first.ptr = x.as_mut_ptr();
        *second = Place { ptr: &raw mut number, single: true };
        // SAFETY: the single place has an element.
        assert!(unsafe { Usual::of(&lines, &places) }.is_none());
    }
}
