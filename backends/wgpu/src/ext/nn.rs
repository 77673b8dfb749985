//! Implements `Nn`: activations, functions of rows, convolutions and pooling.

use crate::elem::{Elem, Kind};
use crate::open::Wgpu;
use crate::ops::arithmetic::{dense, map};
use crate::ops::{own, row, window};
use crate::wgsl::map::{Function, Unary};
use crate::wgsl::row::Row;
use crate::wgsl::window::Window;
use crate::{Result, Tensor};
use bb::ext::{AveragePoolOptions, ConvOptions, LayerNormalizationOptions, MaxPoolOptions};
use bb::ir::Axis;

/// Returns whether all tensors are `f32`.
pub(super) fn single(xs: &[&Tensor]) -> bool {
    xs.iter().all(|x| x.elem() == Elem::F32)
}

/// Reshapes the operand to `[rows, length]`, where a row consists of the dimensions from `axis` on, and makes the other
/// tensors contiguous. Returns `None` if the other tensors do not have the shape of a row.
pub(super) fn trailing(
    on: &Wgpu,
    op: &'static str,
    x: &Tensor,
    axis: i64,
    others: &[&Tensor],
) -> Result<Option<(Tensor, Vec<Tensor>)>> {
    let axis = Axis::new(axis, x.shape().len())?.get();
    let (lead, row) = x.shape().split_at_checked(axis).unwrap_or_default();
    if !others.iter().all(|other| other.shape() == row) {
        return Ok(None);
    }
    let [rows, length]: [usize; 2] = [lead.iter().product(), row.iter().product()];
    let x = crate::ops::shape::reshape(on.gpu(), x, &[rows, length])?;
    let others = others.iter().map(|other| dense(on.gpu(), op, other)).collect::<Result<Vec<_>>>()?;
    Ok(Some((x, others)))
}

#[bb::native]
impl bb::ext::Nn for Wgpu {
    fn relu(&self, x: &Tensor) -> Result<Tensor> {
        match x.elem().kind() {
            Kind::Truth => self.body().relu(x),
            _ => map(self.gpu(), "relu", Function::Unary(Unary::Relu), x.elem(), &[x]),
        }
    }

    fn leaky_relu(&self, x: &Tensor, alpha: f64) -> Result<Tensor> {
        self.float("leaky_relu", Unary::LeakyRelu, x, &[alpha])
            .unwrap_or_else(|| self.body().leaky_relu(x, alpha))
    }

    fn elu(&self, x: &Tensor, alpha: f64) -> Result<Tensor> {
        self.float("elu", Unary::Elu, x, &[alpha]).unwrap_or_else(|| self.body().elu(x, alpha))
    }

    fn gelu(&self, x: &Tensor, tanh: bool) -> Result<Tensor> {
        let function = if tanh { Unary::GeluTanh } else { Unary::Gelu };
        self.float("gelu", function, x, &[]).unwrap_or_else(|| self.body().gelu(x, tanh))
    }

    fn swish(&self, x: &Tensor, alpha: f64) -> Result<Tensor> {
        self.float("swish", Unary::Swish, x, &[alpha]).unwrap_or_else(|| self.body().swish(x, alpha))
    }

    fn hard_sigmoid(&self, x: &Tensor, alpha: f64, beta: f64) -> Result<Tensor> {
        self.float("hard_sigmoid", Unary::HardSigmoid, x, &[alpha, beta])
            .unwrap_or_else(|| self.body().hard_sigmoid(x, alpha, beta))
    }

    fn thresholded_relu(&self, x: &Tensor, alpha: f64) -> Result<Tensor> {
        self.float("thresholded_relu", Unary::ThresholdedRelu, x, &[alpha])
            .unwrap_or_else(|| self.body().thresholded_relu(x, alpha))
    }

    fn softmax(&self, x: &Tensor, axis: i64) -> Result<Tensor> {
        if !single(&[x]) {
            return self.body().softmax(x, axis);
        }
        let axis = Axis::new(axis, x.shape().len())?.get();
        row::rows(self.gpu(), "softmax", Row::Softmax { masked: false }, x, axis, &[], 0.0)
    }

    fn log_softmax(&self, x: &Tensor, axis: i64) -> Result<Tensor> {
        if !single(&[x]) {
            return self.body().log_softmax(x, axis);
        }
        let axis = Axis::new(axis, x.shape().len())?.get();
        row::rows(self.gpu(), "log_softmax", Row::LogSoftmax, x, axis, &[], 0.0)
    }

    fn layer_normalization(
        &self,
        x: &Tensor,
        scale: &Tensor,
        bias: Option<&Tensor>,
        options: LayerNormalizationOptions,
    ) -> Result<Tensor> {
        let others: Vec<&Tensor> = std::iter::once(scale).chain(bias).collect();
        let op = "layer_normalization";
        own(self.gpu(), op, &[x])?;
        let rows = match single(&others) && single(&[x]) {
            true => trailing(self, op, x, options.axis, &others)?,
            false => None,
        };
        let Some((rows, others)) = rows else {
            return self.body().layer_normalization(x, scale, bias, options);
        };
        let others: Vec<&Tensor> = others.iter().collect();
        let layer = Row::Layer { bias: bias.is_some() };
        let y = row::rows(self.gpu(), op, layer, &rows, 1, &others, options.epsilon as f32)?;
        crate::ops::shape::reshape(self.gpu(), &y, x.shape())
    }

    fn conv(
        &self,
        x: &Tensor,
        w: &Tensor,
        bias: Option<&Tensor>,
        options: ConvOptions<'_>,
    ) -> Result<Tensor> {
        match self.convolved(x, w, bias, &options)? {
            Some(y) => Ok(y),
            None => self.body().conv(x, w, bias, options),
        }
    }

    fn max_pool(&self, x: &Tensor, kernel: &[i64], options: MaxPoolOptions<'_>) -> Result<Tensor> {
        let MaxPoolOptions { strides, pads, dilations, ceil } = options;
        match self.pooled("max_pool", Window::Max, x, kernel, [strides, pads, dilations], ceil)? {
            Some(y) => Ok(y),
            None => self.body().max_pool(x, kernel, options),
        }
    }

    fn average_pool(&self, x: &Tensor, kernel: &[i64], options: AveragePoolOptions<'_>) -> Result<Tensor> {
        let AveragePoolOptions { strides, pads, dilations, ceil, count_pad } = options;
        let window = Window::Mean { count_pad };
        match self.pooled("average_pool", window, x, kernel, [strides, pads, dilations], ceil)? {
            Some(y) => Ok(y),
            None => self.body().average_pool(x, kernel, options),
        }
    }
}

impl Wgpu {
    fn convolved(
        &self,
        x: &Tensor,
        w: &Tensor,
        bias: Option<&Tensor>,
        options: &ConvOptions<'_>,
    ) -> Result<Option<Tensor>> {
        own(self.gpu(), "conv", &[x, w])?;
        let operands: Vec<&Tensor> = std::iter::once(w).chain(bias).collect();
        let Some((&[filters, depth], kernel)) = w.shape().split_first_chunk::<2>() else { return Ok(None) };
        let groups = usize::try_from(options.group).unwrap_or(0);
        let channels = x.shape().get(1).copied();
        let fits = groups > 0
            && filters.is_multiple_of(groups)
            && depth.checked_mul(groups) == channels
            && bias.is_none_or(|bias| *bias.shape() == [filters]);
        if !fits || !single(&operands) || !single(&[x]) || filters == 0 || depth == 0 {
            return Ok(None);
        }
        let windows = window::Windows {
            op: "conv",
            window: Window::Conv { bias: bias.is_some() },
            kernel,
            strides: options.strides,
            pads: options.pads,
            dilations: options.dilations,
            filters,
            depth,
            groups,
        };
        window::windows(self.gpu(), &windows, x, &operands)
    }

    fn pooled(
        &self,
        op: &'static str,
        window: Window,
        x: &Tensor,
        kernel: &[i64],
        [strides, pads, dilations]: [&[i64]; 3],
        ceil: bool,
    ) -> Result<Option<Tensor>> {
        own(self.gpu(), op, &[x])?;
        let kernel: Option<Vec<usize>> = kernel.iter().map(|&k| usize::try_from(k).ok()).collect();
        let (Some(kernel), Some(&channels)) = (kernel, x.shape().get(1)) else { return Ok(None) };
        // Windows that only cover padding or that end beyond the padding are rare, so the body computes them.
        let covered = |(i, &pad): (usize, &i64)| {
            let places = kernel.get(i % kernel.len().max(1)).copied().unwrap_or(0);
            pad < places as i64
        };
        if ceil || !single(&[x]) || channels == 0 || !pads.iter().enumerate().all(covered) {
            return Ok(None);
        }
        let windows = window::Windows {
            op,
            window,
            kernel: &kernel,
            strides,
            pads,
            dilations,
            filters: channels,
            depth: 1,
            groups: channels,
        };
        window::windows(self.gpu(), &windows, x, &[])
    }
}
