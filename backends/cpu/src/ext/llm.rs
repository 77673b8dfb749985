//! Implements `Llm`: normalisation of rows, and attention.

use super::{attention, floats, ragged, rounded, rows_from, single};
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::kernels::normalize;
use crate::ops::made;
use bb::ext::{AttentionOptions, RaggedAttentionOptions};
use bb::ir::Axis;
use bb::{DataType, Shape, Tensor};

#[bb::native]
impl bb::ext::Llm for Cpu {
    fn rms_normalization(&self, x: &Array, scale: &Array, axis: i64, epsilon: f64) -> Result<Array> {
        let body = || self.body().rms_normalization(x, scale, axis, epsilon);
        let Ok(at) = Axis::new(axis, x.shape().len()).map(Axis::get) else {
            return body();
        };
        let (Some(dense), Some(factor)) = (single(self.pool(), x)?, self.trailing(scale, x, at)?) else {
            return body();
        };
        let extents = rows_from(dense.shape(), at);
        // SAFETY: the operand and `out` have these contiguous rows, and `scale` has one row.
        let out = made(self.pool(), DataType::F32, Shape::from_slice(dense.shape()), |out| unsafe {
            normalize::rms_norm(extents, out.cast(), floats(&dense), floats(&factor), epsilon);
        })?;
        rounded(self.pool(), out, x.dtype())
    }

    fn attention(
        &self,
        q: &Array,
        k: &Array,
        v: &Array,
        bias: Option<&Array>,
        options: AttentionOptions,
    ) -> Result<Array> {
        match attention::attention(self, [q, k, v], bias, options)? {
            Some(y) => Ok(y),
            None => self.body().attention(q, k, v, bias, options),
        }
    }

    fn ragged_attention(
        &self,
        q: &Array,
        k: &Array,
        v: &Array,
        past_k: &Array,
        past_v: &Array,
        starts: &Array,
        pasts: &Array,
        table: &Array,
        past_k_scale: Option<&Array>,
        past_v_scale: Option<&Array>,
        options: RaggedAttentionOptions,
    ) -> Result<Array> {
        let operands = ragged::PagedOperands {
            new: [q, k, v],
            past: [past_k, past_v],
            numbers: [starts, pasts, table],
            scales: [past_k_scale, past_v_scale],
        };
        if let Some(y) = ragged::attention(self, &operands, options)? {
            return Ok(y);
        }
        let (k_scale, v_scale) = (past_k_scale, past_v_scale);
        self.body().ragged_attention(q, k, v, past_k, past_v, starts, pasts, table, k_scale, v_scale, options)
    }
}
