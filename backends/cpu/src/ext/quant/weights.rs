//! 8-bit weights, packed once for many products with operands that are quantised by their range.

use super::product::Corrections;
use super::{Zeros, dense_f32, numbers, scalar, signed};
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::gemm::integer::{self, Bytes, Few, Left, Packed, Right, Sums};
use crate::gemm::{Dims, Strided};
use crate::kernels::Shared;
use crate::kernels::quantize::{self, Scaled, Target};
use bb::ir::memory;
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

/// Memory that several products with the same weights reuse.
pub(in crate::ext) struct Room {
    bytes: Vec<u8>,
    zeros: Zeros,
    few: Option<FewRows>,
}

/// Additional memory for products of few rows.
struct FewRows {
    left: Left,
    sums: Vec<i32>,
    /// For each column, the amount that is subtracted from a sum for each unit of the row's zero point.
    below: Vec<i32>,
    /// For each row, its zero point, and the number that is added to its sums.
    rows: Vec<i32>,
    added: Vec<i32>,
}

impl Weights {
    /// Packs a matrix of bytes with one scale for all columns, or one for each column. Returns `None` for unsupported
    /// operands.
    pub(in crate::ext) fn new(
        cpu: &Cpu,
        w: &Array,
        scale: &Array,
        zero: Option<&Array>,
    ) -> Result<Option<Weights>> {
        let (&[k, n], Some(is_signed)) = (w.shape(), signed(w.dtype())) else { return Ok(None) };
        let bytes = integer::right_bytes(UNSIGNED.signed, is_signed);
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

    /// Allocates memory for products with `m` rows.
    pub(in crate::ext) fn room(&self, cpu: &Cpu, m: usize) -> Result<Room> {
        const OP: &str = "dynamic_matmul";
        let ([k, n], pool) = (self.dims, cpu.pool());
        let zeros = Zeros::read(pool, self.zero.as_ref(), n, self.bytes.shift())?;
        let zeros = zeros.unwrap_or(Zeros::One(self.bytes.shift()));
        let bytes = memory::filled(OP, 0, m.saturating_mul(k))?;
        let few = if m <= Few::most() {
            let depth = i32::try_from(k).unwrap_or(i32::MAX);
            let below = self.packed.sums().iter().enumerate().map(|(j, &sum)| match &zeros {
                // A single zero point is included in the number that is added to all sums of a row.
                Zeros::One(_) => sum,
                list @ Zeros::List(_) => sum.wrapping_sub(depth.wrapping_mul(list.at(j))),
            });
            // SAFETY: the bytes have `m` rows of `k`, and are kept together with what reads them.
            let left = unsafe {
                Left::new(pool, [m, k], Strided::dense(bytes.as_ptr(), k), UNSIGNED, !zeros.none())?
            };
            Some(FewRows {
                left,
                sums: memory::filled(OP, 0, m * Few::stride(n))?,
                below: memory::collected(OP, below)?,
                rows: memory::filled(OP, 0, m)?,
                added: memory::filled(OP, 0, m)?,
            })
        } else {
            None
        };
        Ok(Room { bytes, zeros, few })
    }

    /// Quantises the rows of `x` by their range, multiplies them with the weights, and scales the products. `room` must be
    /// allocated for this number of rows. If an element is not finite, returns false and computes nothing.
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
        let a = Strided::dense(room.bytes.as_ptr(), k);
        let scales = self.scales.as_ref().map_or(&[][..], numbers);
        let scale = step * self.scale.unwrap_or(1.0);
        let point = i32::from(point);
        if let Some(few) = &mut room.few {
            // SAFETY: the room has `m` rows of `k` bytes, and lives as long as the operand.
            unsafe { few.left.read(a) };
            self.few_rows(few, [m, k, n], point, &room.zeros);
            for (out, x) in out.chunks_exact_mut(n).zip(few.sums.chunks_exact(Few::stride(n))) {
                let x = x.get(..n).unwrap_or_default();
                quantize::scaled(Scaled { out, x, scale, scales, bias: &[] });
            }
            return Ok(true);
        }
        let dims = Dims { m, k, n };
        let zeros = Zeros::read(pool, self.zero.as_ref(), n, self.bytes.shift())?;
        let zeros = zeros.unwrap_or(Zeros::One(self.bytes.shift()));
        // SAFETY: the room has `m` rows of `k` bytes, and lives as long as the operand.
        let left = unsafe { Left::new(pool, [m, k], a, UNSIGNED, !zeros.none())? };
        let corrections = Corrections::new(pool, dims, &left, Zeros::One(point), zeros)?;
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

    /// Computes the sums of a few rows with the zero point `point`.
    fn few_rows(&self, few: &mut FewRows, [m, k, n]: [usize; 3], point: i32, zeros: &Zeros) {
        let FewRows { left, sums, below, rows, added } = few;
        let product = Few { rows: m, cols: n, left, right: &self.packed };
        // SAFETY: the operands have these extents, and the room was made for as many rows of sums.
        unsafe { product.sums(k, sums.as_mut_ptr()) };
        let mut of = integer::Zeros::default();
        if point != 0 {
            rows.fill(point);
            of.rows = rows;
        }
        match zeros {
            Zeros::One(0) => {}
            &Zeros::One(zero) => {
                let depth = i32::try_from(k).unwrap_or(i32::MAX);
                for (added, &sum) in added.iter_mut().zip(left.sums()) {
                    *added = zero.wrapping_mul(depth.wrapping_mul(point).wrapping_sub(sum));
                }
                of.added = added;
            }
            Zeros::List(list) => of.cols = list,
        }
        product.correct(sums, &of, below);
    }
}

/// The quantised rows are unsigned bytes.
const UNSIGNED: Bytes = Bytes { signed: false, flipped: false };
