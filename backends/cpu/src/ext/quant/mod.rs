//! Implements `Quant`: 8-bit integers have kernels; other types use the operations' bodies.

mod conv;
mod copies;
mod depthwise;
mod elements;
mod filters;
pub(crate) mod n_bits;
mod product;
mod weights;

pub(crate) use conv::{Operands, conv_integer, qlinear_conv};
pub(crate) use filters::Filters;
pub(super) use weights::Room;
pub(crate) use weights::Weights;

use super::{dense_f32, floats};
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::gemm::integer::Ints;
use crate::ops::dense;
use crate::pool::Pool;
use bb::ext::{ConvIntegerOptions, MatMulNBitsOptions, QLinearConvOptions, QuantizeLinearOptions};
use bb::{DataType, Tensor};
use std::sync::Arc;

/// Returns whether a byte type is signed; `None` for other element types.
fn signed(dtype: DataType) -> Option<bool> {
    match dtype {
        DataType::I8 => Some(true),
        DataType::U8 => Some(false),
        _ => None,
    }
}

/// Returns a byte as an integer.
fn number(byte: u8, signed: bool) -> i32 {
    if signed { byte.cast_signed().into() } else { byte.into() }
}

/// Returns the elements of a contiguous array of bytes.
fn bytes(x: &Array) -> &[u8] {
    debug_assert!(x.is_dense() && signed(x.dtype()).is_some());
    if x.is_empty() {
        return &[];
    }
    // SAFETY: the array has `len` contiguous bytes, which live as long as it.
    unsafe { std::slice::from_raw_parts(x.ptr(), x.len()) }
}

/// Returns the elements of a contiguous array of `f32`.
fn numbers(x: &Array) -> &[f32] {
    debug_assert!(x.is_dense());
    if x.is_empty() {
        return &[];
    }
    // SAFETY: the array has `len` contiguous elements of this type, which live as long as it.
    unsafe { std::slice::from_raw_parts(floats(x), x.len()) }
}

/// Returns the element of an `f32` array with one element; `None` for other arrays.
fn scalar(x: &Array) -> Option<f32> {
    // SAFETY: the array has an element of this type.
    (x.len() == 1 && x.dtype() == DataType::F32).then(|| unsafe { *floats(x) })
}

/// Returns the element of an array of bytes with one element; `None` for other arrays.
fn zero_scalar(x: &Array) -> Option<i32> {
    let signed = signed(x.dtype())?;
    // SAFETY: the array has an element of one byte.
    (x.len() == 1).then(|| number(unsafe { *x.ptr() }, signed))
}

/// Zero points: a single one for all rows or columns, or a list.
#[derive(Debug)]
enum Zeros {
    One(i32),
    List(Ints),
}

impl Zeros {
    /// Reads zero points and adds `moved` to each. A missing operand means 0. `n` is the required length of a list. Returns
    /// `Ok(None)` for unsupported operands.
    fn read(pool: &Arc<Pool>, x: Option<&Array>, n: usize, moved: i32) -> Result<Option<Zeros>> {
        let Some(x) = x else { return Ok(Some(Zeros::One(moved))) };
        if let Some(zero) = zero_scalar(x) {
            return Ok(Some(Zeros::One(zero + moved)));
        }
        let Some(signed) = signed(x.dtype()).filter(|_| *x.shape() == [n]) else { return Ok(None) };
        let x = dense(pool, x)?;
        let list = bytes(&x);
        Ok(match list {
            [first, rest @ ..] if rest.iter().all(|zero| zero == first) => {
                Some(Zeros::One(number(*first, signed) + moved))
            }
            _ => {
                let at = |i: usize| list.get(i).map_or(0, |&zero| number(zero, signed) + moved);
                Some(Zeros::List(Ints::new(pool, n, at)?))
            }
        })
    }

    fn at(&self, i: usize) -> i32 {
        match self {
            Zeros::One(zero) => *zero,
            Zeros::List(list) => list.get(i).copied().unwrap_or(0),
        }
    }

    /// Returns whether all zero points are 0.
    fn none(&self) -> bool {
        matches!(self, Zeros::One(0))
    }

    /// Returns a list of `n` zero points, or an empty list if all are 0.
    fn list(self, pool: &Arc<Pool>, n: usize) -> Result<Ints> {
        match self {
            Zeros::One(0) => Ok(Ints::none()),
            Zeros::One(zero) => Ints::new(pool, n, |_| zero),
            Zeros::List(list) => Ok(list),
        }
    }
}

#[bb::native]
impl bb::ext::Quant for Cpu {
    fn quantize_linear(
        &self,
        x: &Array,
        scale: &Array,
        zero: Option<&Array>,
        to: DataType,
        options: QuantizeLinearOptions,
    ) -> Result<Array> {
        match self.quantized(x, scale, zero, to, options)? {
            Some(y) => Ok(y),
            None => self.body().quantize_linear(x, scale, zero, to, options),
        }
    }

    fn dequantize_linear(
        &self,
        x: &Array,
        scale: &Array,
        zero: Option<&Array>,
        to: DataType,
    ) -> Result<Array> {
        match self.dequantized(x, scale, zero, to)? {
            Some(y) => Ok(y),
            None => self.body().dequantize_linear(x, scale, zero, to),
        }
    }

    fn dynamic_quantize_linear(&self, x: &Array) -> Result<Vec<Array>> {
        match self.by_range(x)? {
            Some(results) => Ok(results.into()),
            None => self.body().dynamic_quantize_linear(x),
        }
    }

    fn matmul_integer(
        &self,
        a: &Array,
        b: &Array,
        a_zero: Option<&Array>,
        b_zero: Option<&Array>,
    ) -> Result<Array> {
        match self.integer_product(a, b, a_zero, b_zero, None)? {
            Some(y) => Ok(y),
            None => self.body().matmul_integer(a, b, a_zero, b_zero),
        }
    }

    fn dynamic_matmul(
        &self,
        x: &Array,
        b: &Array,
        b_scale: &Array,
        b_zero: Option<&Array>,
        bias: Option<&Array>,
    ) -> Result<Array> {
        match self.dynamic_product(x, b, b_scale, b_zero, bias, None)? {
            Some(y) => Ok(y),
            None => self.body().dynamic_matmul(x, b, b_scale, b_zero, bias),
        }
    }

    fn matmul_n_bits(
        &self,
        a: &Array,
        b: &Array,
        scales: &Array,
        zeros: Option<&Array>,
        order: Option<&Array>,
        options: MatMulNBitsOptions,
    ) -> Result<Array> {
        if order.is_none() && options.integers {
            if n_bits::Integers::takes(a.dtype())
                && let Some(blocks) = n_bits::Integers::new(self, b, scales, zeros, options)?
            {
                return blocks.product(self, a);
            }
        } else if order.is_none()
            && let Some(blocks) = n_bits::Blocks::new(self, b, scales, zeros, options)?
            && let Some(y) = blocks.product(self, a, b)?
        {
            return Ok(y);
        }
        self.body().matmul_n_bits(a, b, scales, zeros, order, options)
    }

    fn conv_integer(
        &self,
        x: &Array,
        w: &Array,
        bias: Option<&Array>,
        x_zero: Option<&Array>,
        w_zero: Option<&Array>,
        options: ConvIntegerOptions<'_>,
    ) -> Result<Array> {
        let operands = Operands { x, w, bias, x_zero, w_zero };
        match conv_integer(self, &operands, None, options)? {
            Some(y) => Ok(y),
            None => self.body().conv_integer(x, w, bias, x_zero, w_zero, options),
        }
    }

    fn qlinear_conv(
        &self,
        x: &Array,
        w: &Array,
        bias: Option<&Array>,
        x_zero: &Array,
        w_zero: &Array,
        scale: &Array,
        y_scale: &Array,
        y_zero: &Array,
        options: QLinearConvOptions<'_>,
    ) -> Result<Array> {
        let operands = Operands { x, w, bias, x_zero: Some(x_zero), w_zero: Some(w_zero) };
        match qlinear_conv(self, &operands, None, [scale, y_scale, y_zero], options)? {
            Some(y) => Ok(y),
            None => self.body().qlinear_conv(x, w, bias, x_zero, w_zero, scale, y_scale, y_zero, options),
        }
    }

    fn requantize(&self, x: &Array, scale: &Array, y_scale: &Array, y_zero: &Array) -> Result<Array> {
        match self.requantized(x, scale, y_scale, y_zero)? {
            Some(y) => Ok(y),
            None => self.body().requantize(x, scale, y_scale, y_zero),
        }
    }

    fn qlinear_add(
        &self,
        a: &Array,
        a_scale: &Array,
        a_zero: &Array,
        b: &Array,
        b_scale: &Array,
        b_zero: &Array,
        y_scale: &Array,
        y_zero: &Array,
    ) -> Result<Array> {
        match self.pairs([a, a_scale, a_zero], [b, b_scale, b_zero], [y_scale, y_zero], false)? {
            Some(y) => Ok(y),
            None => self.body().qlinear_add(a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero),
        }
    }

    fn qlinear_mul(
        &self,
        a: &Array,
        a_scale: &Array,
        a_zero: &Array,
        b: &Array,
        b_scale: &Array,
        b_zero: &Array,
        y_scale: &Array,
        y_zero: &Array,
    ) -> Result<Array> {
        match self.pairs([a, a_scale, a_zero], [b, b_scale, b_zero], [y_scale, y_zero], true)? {
            Some(y) => Ok(y),
            None => self.body().qlinear_mul(a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero),
        }
    }

    fn lookup(&self, x: &Array, table: &Array) -> Result<Array> {
        match self.looked_up(x, table)? {
            Some(y) => Ok(y),
            None => self.body().lookup(x, table),
        }
    }
}

#[cfg(test)]
mod tests;
