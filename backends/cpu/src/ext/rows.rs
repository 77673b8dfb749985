//! Functions of whole rows: softmax, and normalisations by mean and variance.
//!
//! Each function returns `None` for operands that its kernel does not support. 16-bit floats are computed in `f32` and rounded
//! once.

use super::{computed, floats, rounded, rows_from, single};
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::kernels::{FEW, normalize, softmax};
use crate::layout::broadcast_strides;
use crate::ops::{dense, made};
use bb::ext::LayerNormalizationOptions;
use bb::ir::Axis;
use bb::{DataType, Shape, Tensor};

impl Cpu {
    /// Returns `x` as a contiguous `f32` array if it has the type of `like`, which kernels must support, and the shape of
    /// `like` from dimension `axis` on.
    pub(super) fn trailing(&self, x: &Array, like: &Array, axis: usize) -> Result<Option<Array>> {
        let tail = like.shape().get(axis..).unwrap_or_default();
        if x.shape() == tail && x.dtype() == like.dtype() { single(self.pool(), x) } else { Ok(None) }
    }

    /// Returns `x` as a contiguous `f32` array if it has the type of `like`, and broadcasts to one element for each row of
    /// `like`. A row consists of the dimensions from `axis` on.
    fn leading(&self, x: &Array, like: &Array, axis: usize) -> Result<Option<Array>> {
        let (rows, cols) = like.shape().split_at_checked(axis).unwrap_or_default();
        let Some(lead) = x.shape().len().checked_sub(cols.len()) else { return Ok(None) };
        let (own, ones) = x.shape().split_at_checked(lead).unwrap_or_default();
        let fits = lead <= rows.len()
            && ones.iter().all(|&n| n == 1)
            && own.iter().rev().zip(rows.iter().rev()).all(|(own, rows)| own == rows || *own == 1);
        if !fits || x.dtype() != like.dtype() {
            return Ok(None);
        }
        let strides = x.strides();
        let strides = broadcast_strides(own, strides.get(..lead).unwrap_or_default(), rows);
        single(self.pool(), &x.view(Shape::from_slice(rows), strides, 0))
    }

    /// Computes softmax, or its logarithm if `LOG`, along the last dimension.
    pub(super) fn shares<const LOG: bool>(&self, x: &Array, axis: i64) -> Result<Option<Array>> {
        if !Axis::new(axis, x.shape().len()).is_ok_and(|at| at.get() + 1 == x.shape().len()) {
            return Ok(None);
        }
        let extents = rows_from(x.shape(), x.shape().len().saturating_sub(1));
        // In short rows of 16-bit floats, each step is rounded, as in the body. All other results are rounded once.
        if !LOG && x.dtype() != DataType::F32 && computed(x) && extents[1] <= softmax::TERMS {
            // The body computes many rows together, which costs less if they are very short.
            if extents[1] < FEW {
                return Ok(None);
            }
            let (dense, dtype) = (dense(self.pool(), x)?, x.dtype());
            // SAFETY: the operand and `out` have these contiguous rows of this type, which are short.
            let out = made(self.pool(), dtype, Shape::from_slice(dense.shape()), |out| unsafe {
                softmax::of_halves(dtype, extents, out, dense.ptr());
            })?;
            return Ok(Some(out));
        }
        let Some(dense) = single(self.pool(), x)? else { return Ok(None) };
        // SAFETY: the operand and `out` have these contiguous rows.
        let out = made(self.pool(), DataType::F32, Shape::from_slice(dense.shape()), |out| unsafe {
            softmax::softmax::<LOG>(extents, out.cast(), floats(&dense));
        })?;
        rounded(self.pool(), out, x.dtype()).map(Some)
    }

    /// Normalises rows by their mean and variance. The scale and the bias are either one row, or one number for each row.
    pub(super) fn normalized(
        &self,
        x: &Array,
        scale: &Array,
        bias: Option<&Array>,
        options: LayerNormalizationOptions,
    ) -> Result<Option<Array>> {
        let LayerNormalizationOptions { axis, epsilon } = options;
        let Ok(at) = Axis::new(axis, x.shape().len()).map(Axis::get) else { return Ok(None) };
        let by_row = scale.shape() != x.shape().get(at..).unwrap_or_default();
        let operand = |v: &Array| if by_row { self.leading(v, x, at) } else { self.trailing(v, x, at) };
        let (Some(factor), Some(dense)) = (operand(scale)?, single(self.pool(), x)?) else { return Ok(None) };
        let shift = match bias.map(operand).transpose()? {
            None => None,
            Some(None) => return Ok(None),
            Some(shift) => shift,
        };
        let shift_ptr = shift.as_ref().map_or(std::ptr::null(), floats);
        let extents = rows_from(dense.shape(), at);
        let kernel = if by_row { normalize::instance_norm } else { normalize::layer_norm };
        // SAFETY: the operand and `out` have these contiguous rows; scale and bias have one row each, or an element for each.
        let out = made(self.pool(), DataType::F32, Shape::from_slice(dense.shape()), |out| unsafe {
            kernel(extents, out.cast(), floats(&dense), floats(&factor), shift_ptr, epsilon);
        })?;
        rounded(self.pool(), out, x.dtype()).map(Some)
    }
}
