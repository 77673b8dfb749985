//! Discrete Fourier transforms of any length, computed as products with matrices of roots of unity.
//!
//! A complex number is a pair along the last dimension. A pair takes two rows and two columns of the matrix, so that
//! real and complex numbers need only one matrix product. Transforms of complex numbers and long transforms are
//! decomposed, which causes fewer rounding errors: a composite length into two shorter transforms, a long prime length
//! into a convolution whose length is a power of two.

use crate::ext::{Border, math};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{Error, Tensor};
use bb_ir::convert::{Rounding, cast};
use bb_ir::{DataType, TensorData, memory};
use std::f64::consts::PI;

/// The maximum number of elements of a matrix of roots of unity.
const MOST: usize = 1 << 20;

/// The maximum composite length that is not decomposed.
const SHORT: usize = 8;

/// The body of [`Image::dft`](super::Image::dft).
pub fn dft(
    on: &Tracer,
    x: &TracedTensor,
    length: i64,
    inverse: bool,
    onesided: bool,
) -> Result<TracedTensor, TraceStop> {
    let wrong = |param, problem| {
        Error::from(bb_ir::Error::Param { op: "dft", param, problem, shape: x.shape().into() }).into()
    };
    let parts = match *x.shape() {
        [.., _, parts @ 1..=2] => parts,
        _ => {
            return Err(wrong(
                "x",
                "must have a dimension of 1 or 2 parts behind the one that is transformed",
            ));
        }
    };
    if onesided && (parts == 2) != inverse {
        return Err(wrong(
            "onesided",
            "is about transforms of real signals, and inverses of complex frequencies",
        ));
    }
    match usize::try_from(length) {
        Ok(length @ 1..=LONGEST) => math::floats(on, "dft", x, accumulator(length), |x| {
            transform(on, x, Transform { length, inverse, onesided })
        }),
        _ => Err(wrong("length", "must be positive, and what memory can hold")),
    }
}

/// Returns the type that accumulates the sums of a transform, unless the operand's type is wider.
///
/// Sums of many terms would lose digits in narrower types. Sums of few terms lose no more digits than the roots of
/// unity.
pub fn accumulator(length: usize) -> DataType {
    /// The maximum number of terms that are summed in `f32`.
    const FEW: usize = 16;
    if length <= FEW { DataType::F32 } else { DataType::F64 }
}

/// The maximum length of a transform.
const LONGEST: usize = 1 << 22;

/// The parameters of a transform.
#[derive(Debug, Clone, Copy)]
struct Transform {
    /// The number of elements that are transformed. An operand with fewer elements is padded with zeros; an operand
    /// with more elements is truncated.
    length: usize,
    /// Whether the transform goes from frequencies to a signal and divides by the length.
    inverse: bool,
    /// Whether only half of the frequencies is stored. The signal is then real, and the other half is the mirror image.
    onesided: bool,
}

impl Transform {
    /// Returns the number of frequencies that are stored.
    fn kept(self) -> usize {
        if self.onesided { self.length / 2 + 1 } else { self.length }
    }

    /// Returns the sign of the exponent.
    fn sign(self) -> f64 {
        if self.inverse { 1.0 } else { -1.0 }
    }

    /// Returns the factor that scales each sum.
    fn scale(self) -> f64 {
        if self.inverse { 1.0 / self.length as f64 } else { 1.0 }
    }
}

/// Transforms `x: [..., n, 1]` (real) or `x: [..., n, 2]` (complex) along the last but one dimension.
///
/// The result is `[..., length / 2 + 1, 2]` if only `onesided` is set; `[..., length, 1]` if `onesided` and `inverse`
/// are set, which requires a complex operand; and `[..., length, 2]` otherwise. `length` is positive.
fn transform(on: &Tracer, x: &TracedTensor, t: Transform) -> Result<TracedTensor, TraceStop> {
    let [lead @ .., n, parts] = x.shape() else { return on.identity(x) };
    let (lead, parts) = (lead.to_vec(), *parts);
    let to_real = t.inverse && t.onesided;
    let taken = (*n).min(if to_real { t.kept() } else { t.length });
    let along = lead.len() as i64;
    let x = if taken < *n { on.slice(x, &[0], &[taken as i64], &[along], &[])? } else { x.clone() };
    let (out, out_parts) = if to_real { (t.length, 1) } else { (t.kept(), 2) };
    let complex = parts == 2 && !to_real;
    if complex || (taken * parts).saturating_mul(out * out_parts) > MOST {
        return apart(on, &x, t);
    }
    let matrix = if to_real {
        mirrored_roots(taken, t)
    } else {
        roots(taken, parts, out, t.length, t.sign(), t.scale())
    };
    let matrix = constant(on, &x, &[taken * parts, out * out_parts], &matrix)?;
    let flat: Vec<usize> = lead.iter().copied().chain([taken * parts]).collect();
    let product = on.matmul(&on.reshape(&x, &flat)?, &matrix)?;
    let shape: Vec<usize> = lead.into_iter().chain([out, out_parts]).collect();
    on.reshape(&product, &shape)
}

/// Returns `exp(sign 2πi m / length)`. `m` may exceed `length`.
fn root(m: usize, length: usize, sign: f64) -> (f64, f64) {
    let (sin, cos) = (2.0 * PI * (m % length) as f64 / length as f64).sin_cos();
    (cos, sign * sin)
}

/// Returns the matrix that maps `taken` numbers, of `parts` components each, to `out` complex numbers. Its coefficients
/// are roots of unity.
fn roots(taken: usize, parts: usize, out: usize, length: usize, sign: f64, scale: f64) -> Vec<f64> {
    let mut matrix = Vec::with_capacity(taken * parts * out * 2);
    for n in 0..taken {
        for part in 0..parts {
            for k in 0..out {
                let (re, im) = root(n * k, length, sign);
                let (re, im) = if part == 0 { (re, im) } else { (-im, re) };
                matrix.extend([re * scale, im * scale]);
            }
        }
    }
    matrix
}

/// Returns the matrix that maps `taken` frequencies to a real signal. Each frequency also accounts for its mirror
/// image, which is not stored.
fn mirrored_roots(taken: usize, t: Transform) -> Vec<f64> {
    let mut matrix = Vec::with_capacity(taken * 2 * t.length);
    for k in 0..taken {
        let times = if k == 0 || 2 * k == t.length { 1.0 } else { 2.0 } * t.scale();
        for part in 0..2 {
            for n in 0..t.length {
                let (re, im) = root(n * k, t.length, 1.0);
                matrix.push(times * if part == 0 { re } else { -im });
            }
        }
    }
    matrix
}

/// Transforms complex numbers, or computes a transform whose matrix would be too large, by decomposition.
fn apart(on: &Tracer, x: &TracedTensor, t: Transform) -> Result<TracedTensor, TraceStop> {
    let along = x.rank() as i64 - 2;
    let x = if x.shape().last() == Some(&1) { extended(on, x, along + 1, 2)? } else { x.clone() };
    let to_real = t.inverse && t.onesided;
    let mut x = extended(on, &x, along, if to_real { t.kept() } else { t.length })?;
    if to_real {
        // Each frequency that is not stored is the complex conjugate of a stored frequency.
        let kept = t.kept();
        let place = |k| if k < kept { k } else { t.length - k } as i64;
        let order = memory::collected("dft", (0..t.length).map(place)).map_err(Error::from)?;
        let signs = (0..t.length).flat_map(|k| match k {
            _ if k == 0 || 2 * k == t.length => [1.0, 0.0],
            _ if k < kept => [1.0, 1.0],
            _ => [1.0, -1.0],
        });
        let signs = memory::collected("dft", signs).map_err(Error::from)?;
        let signs = constant(on, &x, &[t.length, 2], &signs)?;
        x = on.mul(&on.gather(&x, &on.host(&[t.length], &order)?, along)?, &signs)?;
    }
    let y = complex(on, &x, t.length, t.sign())?;
    let y = if t.inverse { on.mul(&y, &on.scalar_like(&y, t.scale())?)? } else { y };
    match (t.onesided, t.inverse) {
        (true, true) => on.slice(&y, &[0], &[1], &[along + 1], &[]),
        (true, false) => on.slice(&y, &[0], &[t.kept() as i64], &[along], &[]),
        (false, _) => Ok(y),
    }
}

/// Pads `x` with zeros at the end of `axis` up to `extent`.
fn extended(on: &Tracer, x: &TracedTensor, axis: i64, extent: usize) -> Result<TracedTensor, TraceStop> {
    let mut pads = vec![0; 2 * x.rank()];
    let have = x.shape().get(axis as usize).copied().unwrap_or(extent);
    if let Some(end) = pads.get_mut(x.rank() + axis as usize) {
        *end = extent as i64 - have as i64;
    }
    on.pad(x, None, &pads, Border::Constant)
}

/// Creates a constant of the operand's element type.
fn constant(
    on: &Tracer,
    x: &TracedTensor,
    shape: &[usize],
    elements: &[f64],
) -> Result<TracedTensor, TraceStop> {
    let wide = TensorData::new(shape, elements).map_err(Error::from)?;
    on.constant(&cast(&wide, x.dtype(), Rounding::default()).map_err(Error::from)?)
}

/// Swaps the second and third dimensions from the end.
fn exchanged(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    let rank = x.rank();
    let mut perm: Vec<i64> = (0..rank as i64).collect();
    perm.swap(rank - 3, rank - 2);
    on.transpose(x, &perm)
}

/// Multiplies complex numbers `[..., shape, 2]` with a list of complex numbers from the host.
fn times(
    on: &Tracer,
    x: &TracedTensor,
    shape: &[usize],
    by: &[(f64, f64)],
) -> Result<TracedTensor, TraceStop> {
    let parts = |extent: usize| shape.iter().copied().chain([extent]).collect::<Vec<_>>();
    let re = constant(on, x, &parts(1), &by.iter().map(|c| c.0).collect::<Vec<_>>())?;
    let im = constant(on, x, &parts(2), &by.iter().flat_map(|c| [-c.1, c.1]).collect::<Vec<_>>())?;
    let swapped = on.gather(x, &on.host(&[2], &[1i64, 0])?, x.rank() as i64 - 1)?;
    on.add(&on.mul(x, &re)?, &on.mul(&swapped, &im)?)
}

/// Returns the sums of `x: [..., length, 2]` with roots of unity as coefficients, not divided by the length.
fn complex(on: &Tracer, x: &TracedTensor, length: usize, sign: f64) -> Result<TracedTensor, TraceStop> {
    let lead: Vec<usize> = x.shape().iter().take(x.rank() - 2).copied().collect();
    let shaped = |rest: &[usize]| lead.iter().chain(rest).copied().collect::<Vec<usize>>();
    let divisor = (2..).take_while(|d| d * d <= length).filter(|d| length.is_multiple_of(*d)).last();
    let divisor = divisor.filter(|_| length > SHORT);
    if divisor.is_none() && length.saturating_mul(length) <= MOST / 4 {
        let matrix = roots(length, 2, length, length, sign, 1.0);
        let matrix = constant(on, x, &[2 * length, 2 * length], &matrix)?;
        return on.reshape(&on.matmul(&on.reshape(x, &shaped(&[2 * length]))?, &matrix)?, x.shape());
    }
    let Some(a) = divisor else { return chirp(on, x, length, sign) };
    let b = length / a;
    let columns = exchanged(on, &on.reshape(x, &shaped(&[a, b, 2]))?)?;
    let y = complex(on, &columns, a, sign)?;
    let turns: Vec<(f64, f64)> =
        (0..b).flat_map(|n| (0..a).map(move |k| root(n * k, length, sign))).collect();
    let y = exchanged(on, &times(on, &y, &[b, a], &turns)?)?;
    let y = exchanged(on, &complex(on, &y, b, sign)?)?;
    on.reshape(&y, x.shape())
}

/// Returns the sums for a prime length. Because `nk = (n² + k² - (k - n)²) / 2`, they equal a convolution with a chirp.
///
/// Source: Bluestein: A linear filtering approach to the computation of the discrete Fourier transform, 1970.
fn chirp(on: &Tracer, x: &TracedTensor, length: usize, sign: f64) -> Result<TracedTensor, TraceStop> {
    let along = x.rank() as i64 - 2;
    let wide = (2 * length - 1).next_power_of_two();
    // The square saturates only for lengths that exceed the memory of any machine.
    let chirp: Vec<(f64, f64)> =
        (0..length).map(|n| root(n.saturating_mul(n) % (2 * length), 2 * length, sign)).collect();
    let mut answer = vec![(0.0, 0.0); wide];
    for (n, &(re, im)) in chirp.iter().enumerate() {
        for at in [n, (wide - n) % wide] {
            if let Some(slot) = answer.get_mut(at) {
                *slot = (re, -im);
            }
        }
    }
    let answer: Vec<(f64, f64)> =
        on_host(&answer, -1.0).into_iter().map(|(re, im)| (re / wide as f64, im / wide as f64)).collect();
    let turned = extended(on, &times(on, x, &[length], &chirp)?, along, wide)?;
    let product = times(on, &complex(on, &turned, wide, -1.0)?, &[wide], &answer)?;
    let sums = on.slice(&complex(on, &product, wide, 1.0)?, &[0], &[length as i64], &[along], &[])?;
    times(on, &sums, &[length], &chirp)
}

/// Computes the sums on the host, for a list whose length is a power of two.
fn on_host(x: &[(f64, f64)], sign: f64) -> Vec<(f64, f64)> {
    if x.len() < 2 {
        return x.to_vec();
    }
    let part = |from: usize| on_host(&x.iter().skip(from).step_by(2).copied().collect::<Vec<_>>(), sign);
    let (even, odd) = (part(0), part(1));
    let turned = odd.iter().enumerate().map(|(k, (re, im))| {
        let (c, s) = root(k, x.len(), sign);
        (re * c - im * s, re * s + im * c)
    });
    let pairs: Vec<_> = even.iter().copied().zip(turned).collect();
    let sum = pairs.iter().map(|(e, o)| (e.0 + o.0, e.1 + o.1));
    let difference = pairs.iter().map(|(e, o)| (e.0 - o.0, e.1 - o.1));
    sum.chain(difference).collect()
}
