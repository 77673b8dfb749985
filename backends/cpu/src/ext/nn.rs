//! `Nn`: activations, normalisations of rows, and sliding windows.

use super::recurrent::Sequence;
use super::{conv, dense_f32, floats, rows_from, window};
use crate::array::Array;
use crate::backend::Cpu;
use crate::error::Result;
use crate::kernels::normalize;
use crate::kernels::op::Unary;
use crate::ops::{elementwise, made};
use bb::ext::{ConvOptions, LayerNormalizationOptions, MaxPoolOptions};
use bb::ir::Axis;
use bb::{Backend, DataType, Shape, Tensor};

impl Cpu {
    /// Returns the operand as a contiguous array of `f32` if it has this type and its shape is that of the dimensions
    /// of `like` from `axis` on.
    pub(super) fn trailing(&self, x: &Array, like: &Array, axis: usize) -> Result<Option<Array>> {
        let tail = like.shape().get(axis..).unwrap_or_default();
        if x.shape() == tail { dense_f32(self.pool(), x) } else { Ok(None) }
    }
}

#[bb::native]
impl bb::ext::Nn for Cpu {
    fn relu(&self, x: &Array) -> Result<Array> {
        match x.dtype() {
            dtype if dtype.is_float() || dtype.is_integer() => {
                elementwise::unary(self.pool(), Unary::Relu, x)
            }
            _ => bb::ext::nn::relu(self, x),
        }
    }

    fn leaky_relu(&self, x: &Array, alpha: f64) -> Result<Array> {
        let alpha_f32 = alpha as f32;
        self.map_f32(x, |v| if v < 0.0 { v * alpha_f32 } else { v })
            .unwrap_or_else(|| bb::ext::nn::leaky_relu(self, x, alpha))
    }

    fn gelu(&self, x: &Array, tanh: bool) -> Result<Array> {
        let op = if tanh { Unary::GeluTanh } else { Unary::Gelu };
        self.float(op, x).unwrap_or_else(|| bb::ext::nn::gelu(self, x, tanh))
    }

    fn swish(&self, x: &Array, alpha: f64) -> Result<Array> {
        let plain = if alpha == 1.0 { self.float(Unary::Silu, x) } else { None };
        plain.unwrap_or_else(|| bb::ext::nn::swish(self, x, alpha))
    }

    fn softmax(&self, x: &Array, axis: i64) -> Result<Array> {
        let at = Axis::new(axis, x.shape().len()).map(Axis::get);
        let last = at.is_ok_and(|at| at + 1 == x.shape().len());
        let Some(dense) = dense_f32(self.pool(), x)?.filter(|_| last) else {
            return bb::ext::nn::softmax(self, x, axis);
        };
        let extents = rows_from(dense.shape(), dense.shape().len().saturating_sub(1));
        // SAFETY: the operand and `out` have these contiguous rows.
        made(self.pool(), DataType::F32, Shape::from_slice(dense.shape()), |out| unsafe {
            normalize::softmax(extents, out.cast(), floats(&dense));
        })
    }

    fn layer_normalization(
        &self,
        x: &Array,
        scale: &Array,
        bias: Option<&Array>,
        options: LayerNormalizationOptions,
    ) -> Result<Array> {
        let LayerNormalizationOptions { axis, epsilon } = options;
        let body = || bb::ext::nn::layer_normalization(self, x, scale, bias, options);
        let Ok(at) = Axis::new(axis, x.shape().len()).map(Axis::get) else {
            return body();
        };
        let (Some(dense), Some(factor)) = (dense_f32(self.pool(), x)?, self.trailing(scale, x, at)?) else {
            return body();
        };
        let shift = match bias {
            None => None,
            Some(bias) => match self.trailing(bias, x, at)? {
                None => return body(),
                shift => shift,
            },
        };
        let shift_ptr = shift.as_ref().map_or(std::ptr::null(), floats);
        let extents = rows_from(dense.shape(), at);
        // SAFETY: the operand and `out` have these contiguous rows; scale and bias have one row each.
        made(self.pool(), DataType::F32, Shape::from_slice(dense.shape()), |out| unsafe {
            normalize::layer_norm(extents, out.cast(), floats(&dense), floats(&factor), shift_ptr, epsilon);
        })
    }

    fn conv(&self, x: &Array, w: &Array, bias: Option<&Array>, options: ConvOptions<'_>) -> Result<Array> {
        let plan = conv::Plan::new(x, w, bias, options);
        match plan.filter(|_| x.dtype() == DataType::F32) {
            Some(plan) => conv::conv(self, &plan, x, w, bias),
            None => bb::ext::nn::conv(self, x, w, bias, options),
        }
    }

    fn lstm(
        &self,
        x: &Array,
        w: &Array,
        hidden: &Array,
        cell: &Array,
        w_scale: Option<&Array>,
        w_zero: Option<&Array>,
        backwards: bool,
    ) -> Result<Vec<Array>> {
        let (cell_state, bias) = (Some(cell), None);
        let all = Sequence { x, w, hidden, cell: cell_state, scale: w_scale, zero: w_zero, bias, backwards };
        match all.run(self, 4)? {
            Some(results) => Ok(results),
            None => bb::ext::nn::lstm(self, x, w, hidden, cell, w_scale, w_zero, backwards),
        }
    }

    fn gru(
        &self,
        x: &Array,
        w: &Array,
        hidden: &Array,
        bias: Option<&Array>,
        backwards: bool,
    ) -> Result<Vec<Array>> {
        let all = Sequence { x, w, hidden, cell: None, scale: None, zero: None, bias, backwards };
        match all.run(self, 3)? {
            Some(results) => Ok(results),
            None => bb::ext::nn::gru(self, x, w, hidden, bias, backwards),
        }
    }

    fn max_pool(&self, x: &Array, kernel: &[i64], options: MaxPoolOptions<'_>) -> Result<Array> {
        let MaxPoolOptions { strides, pads, dilations, ceil } = options;
        let plane = window::Plane::of(x.shape(), kernel, [strides, pads, dilations]);
        match plane.filter(|_| x.dtype() == DataType::F32 && !ceil) {
            Some(plane) => window::pool(self, &plane, x),
            None => bb::ext::nn::max_pool(self, x, kernel, options),
        }
    }

    fn batch_normalization(
        &self,
        x: &Array,
        scale: &Array,
        bias: &Array,
        mean: &Array,
        variance: &Array,
        epsilon: f64,
    ) -> Result<Array> {
        use bb::ext::{Create, Scalar};
        let vectors = [scale, bias, mean, variance];
        let channels = x.shape().get(1).copied();
        let simple = x.dtype() == DataType::F32
            && vectors.iter().all(|v| v.dtype() == DataType::F32 && Some(v.len()) == channels);
        if !simple {
            return bb::ext::nn::batch_normalization(self, x, scale, bias, mean, variance, epsilon);
        }
        let root = self.sqrt(&self.add(variance, &self.scalar_like(variance, epsilon)?)?)?;
        let factor = self.mul(scale, &self.reciprocal(&root)?)?;
        let shift = self.sub(bias, &self.mul(mean, &factor)?)?;
        window::scaled(self, x, &factor, &shift)
    }
}
