//! Implements `Nn`: activations, normalisations of rows, sliding windows, and selection by indices.

use super::pooling::{self, Pooling};
use super::recurrent::{self, CellKind, Operands};
use super::window::Plane;
use super::{computed, conv, rounded, single, transposed, window};
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::kernels::op::Unary;
use crate::ops::{cumulative, elementwise, indexed, reduce};
use bb::ext::{
    AveragePoolOptions, ConvOptions, ConvTransposeOptions, FusedConvOptions, GruOptions,
    LayerNormalizationOptions, LstmOptions, MaxPoolOptions, RnnOptions,
};
use bb::{Backend, DataType, Tensor};

#[bb::native]
impl bb::ext::Nn for Cpu {
    fn relu(&self, x: &Array) -> Result<Array> {
        match x.dtype() {
            dtype if dtype.is_float() || dtype.is_integer() => {
                elementwise::unary(self.pool(), Unary::Relu, x)
            }
            _ => self.body().relu(x),
        }
    }

    fn leaky_relu(&self, x: &Array, alpha: f64) -> Result<Array> {
        let alpha_f32 = alpha as f32;
        let leaky = |v| {
            // An unconditional product avoids a branch.
            let scaled = v * alpha_f32;
            if v < 0.0 { scaled } else { v }
        };
        self.map_f32(x, leaky).unwrap_or_else(|| self.body().leaky_relu(x, alpha))
    }

    fn gelu(&self, x: &Array, tanh: bool) -> Result<Array> {
        let op = if tanh { Unary::GeluTanh } else { Unary::Gelu };
        self.float(op, x).unwrap_or_else(|| self.body().gelu(x, tanh))
    }

    fn swish(&self, x: &Array, alpha: f64) -> Result<Array> {
        if alpha == 1.0 && x.dtype().is_float() {
            return elementwise::unary(self.pool(), Unary::Silu, x);
        }
        match single(self.pool(), x)? {
            Some(wide) => {
                let y = elementwise::swish(self.pool(), &wide, alpha as f32)?;
                rounded(self.pool(), y, x.dtype())
            }
            None => self.body().swish(x, alpha),
        }
    }

    fn thresholded_relu(&self, x: &Array, alpha: f64) -> Result<Array> {
        let alpha_f32 = alpha as f32;
        self.map_f32(x, |v| if v > alpha_f32 { v } else { 0.0 })
            .unwrap_or_else(|| self.body().thresholded_relu(x, alpha))
    }

    fn cum_sum(&self, x: &Array, axis: i64, exclusive: bool, reverse: bool) -> Result<Array> {
        match cumulative::sums(self.pool(), x, axis, exclusive, reverse)? {
            Some(y) => Ok(y),
            None => self.body().cum_sum(x, axis, exclusive, reverse),
        }
    }

    fn reduce_prod(&self, x: &Array, axes: &[i64], keepdims: bool) -> Result<Array> {
        match reduce::product(self.pool(), x, axes, keepdims)? {
            Some(y) => Ok(y),
            None => self.body().reduce_prod(x, axes, keepdims),
        }
    }

    fn softmax(&self, x: &Array, axis: i64) -> Result<Array> {
        match self.shares::<false>(x, axis)? {
            Some(y) => Ok(y),
            None => self.body().softmax(x, axis),
        }
    }

    fn log_softmax(&self, x: &Array, axis: i64) -> Result<Array> {
        match self.shares::<true>(x, axis)? {
            Some(y) => Ok(y),
            None => self.body().log_softmax(x, axis),
        }
    }

    fn layer_normalization(
        &self,
        x: &Array,
        scale: &Array,
        bias: Option<&Array>,
        options: LayerNormalizationOptions,
    ) -> Result<Array> {
        match self.normalized(x, scale, bias, options)? {
            Some(y) => Ok(y),
            None => self.body().layer_normalization(x, scale, bias, options),
        }
    }

    fn conv(&self, x: &Array, w: &Array, bias: Option<&Array>, options: ConvOptions<'_>) -> Result<Array> {
        let alike = w.dtype() == x.dtype() && bias.is_none_or(|bias| bias.dtype() == x.dtype());
        match if alike { conv::conv(self, x, w, bias, options, None)? } else { None } {
            Some(y) => Ok(y),
            None => self.body().conv(x, w, bias, options),
        }
    }

    fn fused_conv(
        &self,
        x: &Array,
        w: &Array,
        bias: Option<&Array>,
        xs: &[&Array],
        program: &[i64],
        options: FusedConvOptions<'_>,
    ) -> Result<Array> {
        // Plans prepare their steps and fuse the program there; outside plans, the body computes
        // it.
        self.body().fused_conv(x, w, bias, xs, program, options)
    }

    fn rnn(
        &self,
        x: &Array,
        weights: &Array,
        hidden: &Array,
        lengths: Option<&Array>,
        options: RnnOptions<'_>,
    ) -> Result<Vec<Array>> {
        let RnnOptions { backwards, functions, parameters, clip } = options;
        let (kind, cell, bias) = (CellKind::Rnn, None, None);
        let operands = Operands {
            kind,
            x,
            weights,
            scale: None,
            zero: None,
            packed: None,
            hidden,
            cell,
            bias,
            lengths,
            peepholes: None,
            functions: kind.functions(functions, parameters)?,
            backwards,
            clip,
        };
        match recurrent::run(self, operands)? {
            Some(results) => Ok(results),
            None => self.body().rnn(x, weights, hidden, lengths, options),
        }
    }

    fn gru(
        &self,
        x: &Array,
        weights: &Array,
        hidden: &Array,
        bias: Option<&Array>,
        lengths: Option<&Array>,
        options: GruOptions<'_>,
    ) -> Result<Vec<Array>> {
        let GruOptions { linear, backwards, functions, parameters, clip } = options;
        let (kind, cell) = (CellKind::Gru { linear }, None);
        let operands = Operands {
            kind,
            x,
            weights,
            scale: None,
            zero: None,
            packed: None,
            hidden,
            cell,
            bias,
            lengths,
            peepholes: None,
            functions: kind.functions(functions, parameters)?,
            backwards,
            clip,
        };
        match recurrent::run(self, operands)? {
            Some(results) => Ok(results),
            None => self.body().gru(x, weights, hidden, bias, lengths, options),
        }
    }

    fn lstm(
        &self,
        x: &Array,
        weights: &Array,
        hidden: &Array,
        cell: &Array,
        scale: Option<&Array>,
        zero: Option<&Array>,
        lengths: Option<&Array>,
        peepholes: Option<&Array>,
        options: LstmOptions<'_>,
    ) -> Result<Vec<Array>> {
        let LstmOptions { coupled, backwards, functions, parameters, clip } = options;
        let (kind, bias) = (CellKind::Lstm { coupled }, None);
        let operands = Operands {
            kind,
            x,
            weights,
            scale,
            zero,
            packed: None,
            hidden,
            cell: Some(cell),
            bias,
            lengths,
            peepholes,
            functions: kind.functions(functions, parameters)?,
            backwards,
            clip,
        };
        match recurrent::run(self, operands)? {
            Some(results) => Ok(results),
            None => self.body().lstm(x, weights, hidden, cell, scale, zero, lengths, peepholes, options),
        }
    }

    fn max_pool(&self, x: &Array, kernel: &[i64], options: MaxPoolOptions<'_>) -> Result<Array> {
        let MaxPoolOptions { strides, pads, dilations, ceil } = options;
        let plane = Plane::pooling(x.shape(), kernel, [strides, pads, dilations], ceil);
        match plane.filter(|plane| pooling::serves(plane, x.shape()) && pooling::takes_greatest(plane, x)) {
            Some(plane) => pooling::pool(self, &plane, x, Pooling::Greatest),
            None => self.body().max_pool(x, kernel, options),
        }
    }

    fn average_pool(&self, x: &Array, kernel: &[i64], options: AveragePoolOptions<'_>) -> Result<Array> {
        let AveragePoolOptions { strides, pads, dilations, ceil, count_pad } = options;
        let plane = Plane::pooling(x.shape(), kernel, [strides, pads, dilations], ceil);
        match plane.filter(|plane| computed(x) && pooling::serves(plane, x.shape())) {
            Some(plane) => pooling::pool(self, &plane, x, Pooling::Mean { padding: count_pad }),
            None => self.body().average_pool(x, kernel, options),
        }
    }

    fn conv_transpose(
        &self,
        x: &Array,
        w: &Array,
        bias: Option<&Array>,
        options: ConvTransposeOptions<'_>,
    ) -> Result<Array> {
        let plan = transposed::Plan::new(x, w, bias, options);
        match plan.filter(|_| computed(x)) {
            Some(plan) => transposed::conv_transpose(self, &plan, x, w, bias),
            None => self.body().conv_transpose(x, w, bias, options),
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
        use bb::ext::Create;
        let vectors = [scale, bias, mean, variance];
        let channels = x.shape().get(1..2).unwrap_or_default();
        let simple = computed(x) && vectors.iter().all(|v| computed(v) && v.shape() == channels);
        if !simple {
            return self.body().batch_normalization(x, scale, bias, mean, variance, epsilon);
        }
        let wide = |v: &Array| rounded(self.pool(), v.clone(), DataType::F32);
        let (scale, bias, mean, variance) = (&wide(scale)?, &wide(bias)?, &wide(mean)?, &wide(variance)?);
        let root = self.sqrt(&self.add(variance, &self.scalar_like(variance, epsilon)?)?)?;
        // Use the body's order of operations, so that a plan that computes the body has
        // bit-identical results.
        let factor = self.div(scale, &root)?;
        let shift = self.sub(bias, &self.mul(mean, &factor)?)?;
        window::scaled(self, x, &factor, &shift)
    }

    fn gather_elements(&self, data: &Array, indices: &Array, axis: i64) -> Result<Array> {
        match indexed::gather_elements(self.pool(), data, indices, axis)? {
            Some(y) => Ok(y),
            None => self.body().gather_elements(data, indices, axis),
        }
    }

    fn gather_nd(&self, data: &Array, indices: &Array, batch_dims: i64) -> Result<Array> {
        match indexed::gather_nd(self.pool(), data, indices, batch_dims)? {
            Some(y) => Ok(y),
            None => self.body().gather_nd(data, indices, batch_dims),
        }
    }
}
