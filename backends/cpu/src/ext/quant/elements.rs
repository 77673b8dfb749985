//! Element-wise operations on quantised tensors.

use super::{bytes, dense_f32, floats, numbers, scalar, signed, zero_scalar};
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::kernels::quantize::{self, Source, Target};
use crate::kernels::{Shared, walk};
use crate::ops::{dense, made};
use bb::ext::{Create, QuantizeLinearOptions};
use bb::{DataType, Shape, Tensor};

/// The number of elements below which a second thread costs more than it saves.
const GRAIN: usize = 1 << 15;

/// The repetition of a small operand along a contiguous tensor: each of its `count` elements applies to `inner` consecutive
/// elements of the tensor, and the sequence repeats `outer` times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Repeats {
    outer: usize,
    count: usize,
    inner: usize,
}

impl Repeats {
    /// Returns the repetition of an operand that has one element or extends along one dimension; `None` for other operands.
    fn of(own: &[usize], shape: &[usize]) -> Option<Repeats> {
        let len: usize = shape.iter().product();
        if own.len() > shape.len() {
            return None;
        }
        let missing = shape.len() - own.len();
        let Some(at) = own.iter().position(|&extent| extent != 1) else {
            return Some(Repeats { outer: 1, count: 1, inner: len });
        };
        let (before, from) = shape.split_at_checked(missing + at)?;
        let (&count, after) = from.split_first()?;
        let one = own.iter().filter(|&&extent| extent != 1).count() == 1;
        (one && own.get(at) == Some(&count)).then(|| Repeats {
            outer: before.iter().product(),
            count,
            inner: after.iter().product(),
        })
    }
}

/// Calls `f` for ranges of the elements of `x`, with the memory for their results.
///
/// # Safety
///
/// `out` has room for a result for each element.
unsafe fn in_parts<T: Sync, U>(x: &[T], out: *mut U, f: impl Fn(usize, &[T], &mut [U]) + Sync) {
    let shared = Shared(out);
    walk::split(x.len(), 1, GRAIN, |from, to| {
        // SAFETY: no other call writes these results.
        let out = unsafe { std::slice::from_raw_parts_mut(shared.get().add(from), to - from) };
        f(from, x.get(from..to).unwrap_or_default(), out);
    });
}

/// Calls `f` for each run of elements of `x` that use the same element of the small operand, with the index of that element.
///
/// # Safety
///
/// `out` has room for a result for each element.
unsafe fn in_rows<T: Sync, U>(
    repeats: Repeats,
    x: &[T],
    out: *mut U,
    f: impl Fn(usize, &[T], &mut [U]) + Sync,
) {
    let Repeats { outer, count, inner } = repeats;
    let shared = Shared(out);
    walk::split(outer * count, inner, GRAIN, |from, to| {
        for row in from..to {
            // SAFETY: no other call writes these results.
            let out = unsafe { std::slice::from_raw_parts_mut(shared.get().add(row * inner), inner) };
            f(row % count, x.get(row * inner..(row + 1) * inner).unwrap_or_default(), out);
        }
    });
}

/// Returns element `i` of a list, or its only element if the list has one.
fn at<T: Copy + Default>(list: &[T], i: usize) -> T {
    list.get(if list.len() == 1 { 0 } else { i }).copied().unwrap_or_default()
}

impl Cpu {
    /// Quantises floats to bytes. Returns `None` for unsupported operands.
    pub(super) fn quantized(
        &self,
        x: &Array,
        scale: &Array,
        zero: Option<&Array>,
        to: DataType,
        QuantizeLinearOptions { precision, .. }: QuantizeLinearOptions,
    ) -> Result<Option<Array>> {
        let Some(is_signed) = signed(to).filter(|_| matches!(precision, None | Some(DataType::F32))) else {
            return Ok(None);
        };
        let Some((repeats, scales, zeros)) = self.steps(x, scale, zero)? else { return Ok(None) };
        let Some(x) = dense_f32(self.pool(), x)? else { return Ok(None) };
        let (scales, zeros) =
            (numbers(&scales), zeros.as_ref().map(|z| (bytes(z), z.dtype() == DataType::I8)));
        let target = |i: usize| {
            Target::new(is_signed, zeros.map_or(0, |(list, signed)| super::number(at(list, i), signed)))
        };
        // SAFETY: `out` has room for as many bytes.
        made(self.pool(), to, Shape::from_slice(x.shape()), |out| unsafe {
            if repeats.count == 1 {
                in_parts(numbers(&x), out, |_, x, out| {
                    quantize::quantize(out, x, at(scales, 0), target(0));
                });
            } else {
                in_rows(repeats, numbers(&x), out, |i, x, out| {
                    quantize::quantize(out, x, at(scales, i), target(i));
                });
            }
        })
        .map(Some)
    }

    /// Returns the repetition of a scale and a zero point, and both as contiguous arrays. Returns `None` for operands that the
    /// kernels do not support, and for many short rows.
    fn steps(
        &self,
        x: &Array,
        scale: &Array,
        zero: Option<&Array>,
    ) -> Result<Option<(Repeats, Array, Option<Array>)>> {
        let Some(repeats) = Repeats::of(scale.shape(), x.shape()) else { return Ok(None) };
        if repeats.count > 1 && repeats.inner < 8 {
            return Ok(None);
        }
        let fits = |zero: &Array| {
            let own = Repeats::of(zero.shape(), x.shape());
            signed(zero.dtype()).is_some() && (zero.len() == 1 && own.is_some() || own == Some(repeats))
        };
        if !zero.is_none_or(fits) {
            return Ok(None);
        }
        let Some(scales) = dense_f32(self.pool(), scale)? else { return Ok(None) };
        let zeros = zero.map(|zero| dense(self.pool(), zero)).transpose()?;
        Ok(Some((repeats, scales, zeros)))
    }

    /// Converts quantised bytes to floats. Returns `None` for unsupported operands.
    pub(super) fn dequantized(
        &self,
        x: &Array,
        scale: &Array,
        zero: Option<&Array>,
        to: DataType,
    ) -> Result<Option<Array>> {
        let Some(is_signed) = signed(x.dtype()).filter(|_| to == DataType::F32) else { return Ok(None) };
        let Some((repeats, scales, zeros)) = self.steps(x, scale, zero)? else { return Ok(None) };
        let x = dense(self.pool(), x)?;
        let (scales, zeros) =
            (numbers(&scales), zeros.as_ref().map(|z| (bytes(z), z.dtype() == DataType::I8)));
        let source = |i: usize| {
            let zero = zeros.map_or(0, |(list, signed)| super::number(at(list, i), signed));
            Source::new(is_signed, zero, at(scales, i))
        };
        // SAFETY: `out` has room for as many numbers.
        made(self.pool(), to, Shape::from_slice(x.shape()), |out| unsafe {
            let out = out.cast::<f32>();
            if repeats.count == 1 {
                in_parts(bytes(&x), out, |_, x, out| quantize::dequantize(out, x, source(0)));
            } else {
                in_rows(repeats, bytes(&x), out, |i, x, out| quantize::dequantize(out, x, source(i)));
            }
        })
        .map(Some)
    }

    /// Quantises floats by the range of the elements. Returns `None` for other types, for no elements, and for elements that
    /// are not finite.
    pub(super) fn by_range(&self, x: &Array) -> Result<Option<[Array; 3]>> {
        let Some(x) = dense_f32(self.pool(), x)? else { return Ok(None) };
        let Some((scale, zero)) = quantize::range(numbers(&x)) else { return Ok(None) };
        let target = Target::new(false, zero.into());
        // SAFETY: `out` has room for as many bytes, or for one element.
        unsafe {
            let y = made(self.pool(), DataType::U8, Shape::from_slice(x.shape()), |out| {
                in_parts(numbers(&x), out, |_, x, out| {
                    quantize::quantize(out, x, quantize::divisor(scale), target);
                });
            })?;
            let scale = made(self.pool(), DataType::F32, Shape::new(), |out| out.cast::<f32>().write(scale))?;
            let zero = made(self.pool(), DataType::U8, Shape::new(), |out| out.write(zero))?;
            Ok(Some([y, scale, zero]))
        }
    }

    /// Scales sums or floats and quantises them to bytes. Returns `None` for unsupported operands.
    pub(super) fn requantized(
        &self,
        x: &Array,
        scale: &Array,
        of_y: &Array,
        y_zero: &Array,
    ) -> Result<Option<Array>> {
        let to = y_zero.dtype();
        let (Some(y_scale), Some(zero), Some(is_signed)) = (scalar(of_y), zero_scalar(y_zero), signed(to))
        else {
            return Ok(None);
        };
        let Some(repeats) = Repeats::of(scale.shape(), x.shape()) else { return Ok(None) };
        let Some(scales) = dense_f32(self.pool(), scale)? else { return Ok(None) };
        if !matches!(x.dtype(), DataType::I32 | DataType::F32) || y_zero.rank().max(of_y.rank()) > x.rank() {
            return Ok(None);
        }
        let x = dense(self.pool(), x)?;
        let target = Target::new(is_signed, zero);
        let (scales, len) = (numbers(&scales), x.len());
        made(self.pool(), to, Shape::from_slice(x.shape()), |out| {
            // SAFETY: the operand has `len` elements of this type, and `out` has room for `len` bytes.
            unsafe {
                if x.dtype() == DataType::I32 {
                    let x = std::slice::from_raw_parts(x.ptr().cast::<i32>(), len);
                    requantize_all(repeats, x, out, scales, (y_scale, target));
                } else {
                    let x = std::slice::from_raw_parts(floats(&x), len);
                    requantize_all(repeats, x, out, scales, (y_scale, target));
                }
            }
        })
        .map(Some)
    }

    /// Adds or multiplies two quantised tensors element by element. Returns `None` for unsupported operands.
    pub(super) fn pairs(
        &self,
        [a, a_scale, a_zero]: [&Array; 3],
        [b, b_scale, b_zero]: [&Array; 3],
        [y_scale, y_zero]: [&Array; 2],
        multiply: bool,
    ) -> Result<Option<Array>> {
        let source = |x: &Array, scale: &Array, zero: &Array| {
            Some(Source::new(signed(x.dtype())?, zero_scalar(zero)?, scalar(scale)?))
        };
        let (Some(of_a), Some(of_b)) = (source(a, a_scale, a_zero), source(b, b_scale, b_zero)) else {
            return Ok(None);
        };
        let to = y_zero.dtype();
        let (Some(y_scale), Some(zero), Some(is_signed)) = (scalar(y_scale), zero_scalar(y_zero), signed(to))
        else {
            return Ok(None);
        };
        let Ok(shape) = bb::ir::infer::broadcast("qlinear", &[a.shape(), b.shape()]) else { return Ok(None) };
        let whole = |x: &Array| -> Result<Array> {
            if x.shape() == &shape[..] {
                dense(self.pool(), x)
            } else {
                dense(self.pool(), &self.expand(x, &shape)?)
            }
        };
        let (a, b) = (whole(a)?, whole(b)?);
        let target = Target::new(is_signed, zero);
        // SAFETY: `out` has room for as many bytes.
        made(self.pool(), to, shape, |out| unsafe {
            in_parts(bytes(&a), out, |from, a, out| {
                let b = bytes(&b).get(from..).unwrap_or_default();
                quantize::pairs(out, [a, b], [of_a, of_b], multiply, (y_scale, target));
            });
        })
        .map(Some)
    }

    /// Maps each byte through a table of 256 bytes. Returns `None` for unsupported operands.
    pub(super) fn looked_up(&self, x: &Array, table: &Array) -> Result<Option<Array>> {
        let (Some(is_signed), Some(_)) = (signed(x.dtype()), signed(table.dtype())) else { return Ok(None) };
        let entries = dense(self.pool(), table)?;
        let Ok(entries) = <&[u8; 256]>::try_from(bytes(&entries)) else { return Ok(None) };
        if table.rank() != 1 {
            return Ok(None);
        }
        let x = dense(self.pool(), x)?;
        let mask = if is_signed { 0x80 } else { 0 };
        // SAFETY: `out` has room for as many bytes.
        made(self.pool(), table.dtype(), Shape::from_slice(x.shape()), |out| unsafe {
            in_parts(bytes(&x), out, |_, x, out| quantize::lookup(out, x, mask, entries));
        })
        .map(Some)
    }
}

/// Scales and quantises all elements.
///
/// # Safety
///
/// `out` has room for a byte for each element.
unsafe fn requantize_all<T: quantize::Unquantized + Sync>(
    repeats: Repeats,
    x: &[T],
    out: *mut u8,
    scales: &[f32],
    (y_scale, target): (f32, Target),
) {
    let Repeats { outer, count, inner } = repeats;
    // SAFETY: this function has the same contract.
    unsafe {
        if count == 1 {
            in_parts(x, out, |_, x, out| {
                quantize::requantize(out, x, at(scales, 0), y_scale, target);
            });
        } else if inner == 1 {
            let rows = Repeats { outer: 1, count: outer, inner: count };
            in_rows(rows, x, out, |_, x, out| {
                quantize::requantize_along(out, x, scales, y_scale, target);
            });
        } else {
            in_rows(repeats, x, out, |i, x, out| {
                quantize::requantize(out, x, at(scales, i), y_scale, target);
            });
        }
    }
}
