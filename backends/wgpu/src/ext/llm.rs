//! Implements `Llm`: RMS normalisation, and attention.

use super::nn::{single, trailing};
use crate::elem::Elem;
use crate::open::Wgpu;
use crate::ops::arithmetic::{map, map_with};
use crate::ops::{matmul, own, row, shape};
use crate::wgsl::map::{Binary, Function, Unary};
use crate::wgsl::row::Row;
use crate::{Result, Tensor};
use bb::ext::AttentionOptions;
use bb::ir::infer;
use bb::{DataType, TensorData};

#[bb::native]
impl bb::ext::Llm for Wgpu {
    fn rms_normalization(&self, x: &Tensor, scale: &Tensor, axis: i64, epsilon: f64) -> Result<Tensor> {
        let op = "rms_normalization";
        own(self.gpu(), op, &[x])?;
        let rows = if single(&[x, scale]) { trailing(self, op, x, axis, &[scale])? } else { None };
        let Some((rows, others)) = rows else {
            return self.body().rms_normalization(x, scale, axis, epsilon);
        };
        let others: Vec<&Tensor> = others.iter().collect();
        let y = row::rows(self.gpu(), op, Row::Rms, &rows, 1, &others, epsilon as f32)?;
        shape::reshape(self.gpu(), &y, x.shape())
    }

    fn attention(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        bias: Option<&Tensor>,
        options: AttentionOptions,
    ) -> Result<Tensor> {
        match self.attended([q, k, v], bias, &options)? {
            Some(y) => Ok(y),
            None => self.body().attention(q, k, v, bias, options),
        }
    }
}

impl Wgpu {
    /// Computes attention with four kernels, or five if there is a bias. Returns `None` if the operation's body
    /// must compute it.
    fn attended(
        &self,
        [q, k, v]: [&Tensor; 3],
        bias: Option<&Tensor>,
        options: &AttentionOptions,
    ) -> Result<Option<Tensor>> {
        let gpu = self.gpu();
        let AttentionOptions { scale, softcap, precision, excludes } = *options;
        let plain = softcap <= 0.0 && precision.is_none_or(|precision| precision == DataType::F32);
        if !plain || !single(&[q, k, v]) || !bias.is_none_or(|bias| single(&[bias])) {
            return Ok(None);
        }
        let (&[b, h, s, d], &[kb, g, t, kd], &[vb, vg, vt, e]) = (q.shape(), k.shape(), v.shape()) else {
            return Ok(None);
        };
        if [kb, vb] != [b, b]
            || vg != g
            || kd != d
            || vt != t
            || [b, h, g, s, t, d, e].contains(&0)
            || h % g != 0
        {
            return Ok(None);
        }
        let products = [b, h, s, t];
        if let Some(bias) = bias
            && infer::broadcast("attention", &[bias.shape(), &products])?[..] != products
        {
            return Ok(None);
        }
        let factor = scale.unwrap_or_else(|| 1.0 / (d as f64).sqrt()) as f32;
        let factor = crate::ops::host::constant(gpu, &TensorData::scalar(factor))?;
        let times = Function::Binary(Binary::Mul);
        // Apply the scale to the smaller of the two operands.
        let (q, k) = match h * s <= g * t {
            true => (map(gpu, "attention", times, q.elem(), &[q, &factor])?, k.clone()),
            false => (q.clone(), map(gpu, "attention", times, k.elem(), &[k, &factor])?),
        };
        // Several query heads may share one key head, so treat their queries as rows of one matrix.
        let many = h / g;
        let q = shape::reshape(gpu, &q, &[b, g, many * s, d])?;
        let scores = matmul::matmul(gpu, &q, &shape::transpose(gpu, &k, &[0, 1, 3, 2])?)?;
        let mut scores = shape::reshape(gpu, &scores, &products)?;
        if let Some(bias) = bias {
            let elem = scores.elem();
            let sum = map_with(gpu, "attention", Function::Binary(Binary::Add), elem, &[&scores, bias], &[])?;
            scores = if excludes {
                let out = Function::Unary(Unary::IsInf(true, false));
                let out = map(gpu, "attention", out, Elem::Bool, &[bias])?;
                map(gpu, "attention", Function::Select, elem, &[&out, bias, &sum])?
            } else {
                sum
            };
        }
        let shares = row::rows(gpu, "attention", Row::Softmax { masked: true }, &scores, 3, &[], 0.0)?;
        let shares = shape::reshape(gpu, &shares, &[b, g, many * s, t])?;
        let y = matmul::matmul(gpu, &shares, v)?;
        shape::reshape(gpu, &y, &[b, h, s, e]).map(Some)
    }
}
