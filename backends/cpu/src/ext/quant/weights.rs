//! Weights of eight bits, packed once for many products with what is quantised by its range.

use super::product::Corrections;
use super::{Zeros, dense_f32, numbers, scalar, signed};
use crate::array::Array;
use crate::backend::Cpu;
use crate::error::Result;
use crate::gemm::integer::{self, Bytes, Left, Packed, Right, Sums};
use crate::gemm::{Dims, Strided};
use crate::kernels::Shared;
use crate::kernels::quantize::{self, Scaled, Target};
use bb::{DataType, Tensor};

/// A packed matrix, `[k, n]`, with its scales and zero points.
pub(crate) struct Weights {
    packed: Packed,
    bytes: Bytes,
    dims: [usize; 2],
    zero: Option<Array>,
    scale: Option<f32>,
    scales: Option<Array>,
}

/// What products with weights need again and again.
pub(in crate::ext) struct Room {
    bytes: Vec<u8>,
}

impl Weights {
    /// Packs a matrix of bytes with one scale, or one for each column. `None` for other operands.
    pub(in crate::ext) fn new(
        cpu: &Cpu,
        w: &Array,
        scale: &Array,
        zero: Option<&Array>,
    ) -> Result<Option<Weights>> {
        let (&[k, n], Some(is_signed)) = (w.shape(), signed(w.dtype())) else { return Ok(None) };
        let bytes = Bytes { signed: true, flipped: !is_signed };
        let single = scalar(scale);
        let vector = scale.dtype() == DataType::F32 && *scale.shape() == [n];
        if k == 0 || k >= 1 << 30 || !(vector || single.is_some() && scale.rank() <= 2) {
            return Ok(None);
        }
        if Zeros::read(cpu.pool(), zero, n, 0)?.is_none() {
            return Ok(None);
        }
        let [row, col] = w.strides()[..] else { return Ok(None) };
        let right = Right::Strided(Strided { ptr: w.ptr(), row, col }, bytes);
        // SAFETY: the matrix has these extents.
        let packed = unsafe { Packed::new(cpu.pool(), [k, n], &right)? };
        let scales = if single.is_some() { None } else { dense_f32(cpu.pool(), scale)? };
        Ok(Some(Weights { packed, bytes, dims: [k, n], zero: zero.cloned(), scale: single, scales }))
    }

    /// Returns the size in bytes.
    pub(in crate::ext) fn bytes(&self) -> usize {
        self.packed.bytes()
    }

    /// Makes room for products with `m` rows.
    pub(in crate::ext) fn room(&self, m: usize) -> Result<Room> {
        let [k, _] = self.dims;
        Ok(Room { bytes: bb::ir::memory::filled("dynamic_matmul", 0, m.saturating_mul(k))? })
    }

    /// Multiplies the rows of `x`, quantised by their range, and scales the products. The result is false if an element
    /// is not finite; nothing is computed then.
    pub(in crate::ext) fn multiply(
        &self,
        cpu: &Cpu,
        x: &[f32],
        out: &mut [f32],
        room: &mut Room,
    ) -> Result<bool> {
        let ([k, n], pool) = (self.dims, cpu.pool());
        let m = x.len() / k;
        let Some((step, point)) = quantize::range(x) else { return Ok(false) };
        quantize::quantize(&mut room.bytes, x, quantize::divisor(step), Target::new(false, point.into()));
        let zeros = Zeros::read(pool, self.zero.as_ref(), n, self.bytes.shift())?;
        let zeros = zeros.unwrap_or(Zeros::One(self.bytes.shift()));
        let dims = Dims { m, k, n };
        let bytes = Bytes { signed: false, flipped: false };
        let scales = self.scales.as_ref().map_or(&[][..], numbers);
        let scale = step * self.scale.unwrap_or(1.0);
        // SAFETY: the room has `m` rows of `k` bytes, and lives as long as the operand.
        let left =
            unsafe { Left::new(pool, [m, k], Strided::dense(room.bytes.as_ptr(), k), bytes, !zeros.none())? };
        let corrections = Corrections::new(pool, dims, &left, Zeros::One(point.into()), zeros)?;
        let to = Shared(out.as_mut_ptr());
        let finish = |sums: &Sums<'_>| {
            let scales = scales.get(sums.col..).unwrap_or_default();
            for (i, x) in sums.rows() {
                // SAFETY: `out` has `m` rows of `n` numbers, and no other call writes these.
                let out = unsafe { std::slice::from_raw_parts_mut(to.get().add(i * n + sums.col), x.len()) };
                quantize::scaled(Scaled { out, x, scale, scales, bias: &[] });
            }
        };
        // SAFETY: the operands have these extents.
        unsafe { integer::product(dims, &left, &Right::Packed(&self.packed), &corrections.zeros(), &finish) };
        Ok(true)
    }
}
