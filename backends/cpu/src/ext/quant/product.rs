//! Matrix products of bytes.

use super::{Zeros, dense_f32, numbers, scalar, signed};
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::gemm::integer::{self, Bytes, Ints, Left, Packed, Right, Sums};
use crate::gemm::{Dims, Strided};
use crate::kernels::Shared;
use crate::kernels::quantize::{self, Scaled};
use crate::layout::{Dim, broadcast_strides, collapse};
use crate::ops::made;
use crate::pool::Pool;
use bb::ir::{infer, memory};
use bb::{DataType, Shape, Tensor};
use std::sync::Arc;

/// The maximum inner dimension of a product. Kernels store it as an `i32`.
const DEEPEST: usize = 1 << 30;

/// One or more pairs of integer matrices.
struct Matrices {
    dims: Dims,
    /// The number of rows of one left operand. `dims` may combine the rows of several left operands.
    rows: usize,
    a: Strided<u8>,
    b: Strided<u8>,
    /// The offsets of each pair's operands from the operands of the first pair.
    offsets: Vec<(isize, isize)>,
    shape: Shape,
}

impl Matrices {
    /// Resolves a product. Returns `None` for operands that are not matrices, and for invalid operands, which the operation's
    /// body reports.
    fn of(a: &Array, b: &Array) -> Option<Matrices> {
        let mm = infer::matmul(a.shape(), b.shape()).ok()?;
        let (left, right) = (a.strides(), b.strides());
        let ([batch_a @ .., a_row, a_col], [batch_b @ .., b_row, b_col]) = (&left[..], &right[..]) else {
            return None;
        };
        if mm.k >= DEEPEST {
            return None;
        }
        let extents = |x: &Array, batch: &[isize]| {
            broadcast_strides(x.shape().get(..batch.len()).unwrap_or_default(), batch, &mm.batch)
        };
        let (sa, sb) = (extents(a, batch_a), extents(b, batch_b));
        let dims = collapse(
            mm.batch.iter().zip(&sa).zip(&sb).map(|((&extent, &sa), &sb)| Dim { extent, strides: [sa, sb] }),
        );
        let mut m = mm.m;
        let mut offsets = vec![(0, 0)];
        match dims[..] {
            // All left operands share one right operand and are contiguous, so they form one taller matrix.
            [Dim { extent, strides: [step, 0] }] if step == a_row * mm.m.cast_signed() => m *= extent,
            _ => {
                for dim in &dims {
                    let [sa, sb] = dim.strides;
                    let each = |&(a, b): &(isize, isize)| {
                        (0..dim.extent.cast_signed()).map(move |i| (a + i * sa, b + i * sb))
                    };
                    offsets = memory::collected("matmul_integer", offsets.iter().flat_map(each)).ok()?;
                }
            }
        }
        Some(Matrices {
            dims: Dims { m, k: mm.k, n: mm.n },
            rows: mm.m,
            a: Strided { ptr: a.ptr(), row: *a_row, col: *a_col },
            b: Strided { ptr: b.ptr(), row: *b_row, col: *b_col },
            offsets,
            shape: mm.shape,
        })
    }
}

/// The corrections of a product for the zero points of both operands.
pub(in crate::ext) struct Corrections {
    added: Ints,
    rows: Ints,
    cols: Ints,
}

impl Corrections {
    /// Computes the corrections for the rows of `left`. `a` contains the zero points of the rows, and `b` the zero points of
    /// the columns.
    pub(in crate::ext) fn new(
        pool: &Arc<Pool>,
        Dims { m, k, n }: Dims,
        left: &Left,
        a: Zeros,
        b: Zeros,
    ) -> Result<Corrections> {
        let depth = i32::try_from(k).unwrap_or(i32::MAX);
        let (added, cols) = match b {
            Zeros::One(0) => (Ints::none(), Ints::none()),
            Zeros::One(zero) => {
                let sum = |i: usize| left.sums().get(i).copied().unwrap_or(0);
                let added = |i: usize| zero.wrapping_mul(depth.wrapping_mul(a.at(i)).wrapping_sub(sum(i)));
                (Ints::new(pool, m, added)?, Ints::none())
            }
            list @ Zeros::List(_) => (Ints::none(), list.list(pool, n)?),
        };
        Ok(Corrections { added, rows: a.list(pool, m)?, cols })
    }

    pub(in crate::ext) fn zeros(&self) -> integer::Zeros<'_> {
        integer::Zeros { added: &self.added, rows: &self.rows, cols: &self.cols }
    }
}

/// The consumer of the sums of a product.
trait Finish: Sync {
    /// Processes a tile of the product with index `pair`.
    fn tile(&self, pair: usize, sums: &Sums<'_>);
}

/// Computes all products. Returns false if the kernels do not support the shapes of the zero points.
///
/// # Safety
///
/// The operands are bytes, signed or not. If `packed` is `Some`, it is the right operand of all products.
unsafe fn products(
    pool: &Arc<Pool>,
    all: &Matrices,
    [a_signed, b_signed]: [bool; 2],
    [a_zero, b_zero]: [Option<&Array>; 2],
    packed: Option<&Packed>,
    finish: &dyn Finish,
) -> Result<bool> {
    let Dims { m, k, n } = all.dims;
    // The kernels read the left operand as unsigned bytes.
    let left = Bytes { signed: false, flipped: a_signed };
    let right = integer::right_bytes(false, b_signed);
    for (pair, &(at_a, at_b)) in all.offsets.iter().enumerate() {
        let a_zeros = Zeros::read(pool, a_zero, all.rows, left.shift())?;
        let b_zeros = Zeros::read(pool, b_zero, n, right.shift())?;
        let (Some(a_zeros), Some(b_zeros)) = (a_zeros, b_zeros) else { return Ok(false) };
        if all.rows != m && matches!(a_zeros, Zeros::List(_)) {
            return Ok(false);
        }
        // SAFETY: the operands have the matrices of this pair.
        unsafe {
            let a = Strided { ptr: all.a.ptr.offset(at_a), ..all.a };
            let b = Strided { ptr: all.b.ptr.offset(at_b), ..all.b };
            let a = Left::new(pool, [m, k], a, left, !b_zeros.none())?;
            let corrections = Corrections::new(pool, all.dims, &a, a_zeros, b_zeros)?;
            let b = packed.map_or(Right::Strided(b, right), Right::Packed);
            integer::product(all.dims, &a, &b, &corrections.zeros(), &|sums| finish.tile(pair, sums));
        }
    }
    Ok(true)
}

/// Writes sums as `i32`.
struct Plain {
    out: Shared<*mut i32>,
    dims: Dims,
}

impl Finish for Plain {
    fn tile(&self, pair: usize, sums: &Sums<'_>) {
        let Dims { m, n, .. } = self.dims;
        for (i, row) in sums.rows() {
            // SAFETY: the result has these columns in row `i` of each product, and no other call writes them.
            unsafe {
                let to = self.out.get().add((pair * m + i) * n + sums.col);
                to.copy_from_nonoverlapping(row.as_ptr(), row.len());
            }
        }
    }
}

/// Writes sums scaled to `f32`.
struct Floats<'a> {
    out: Shared<*mut f32>,
    dims: Dims,
    scale: f32,
    scales: &'a [f32],
    bias: &'a [f32],
}

impl Finish for Floats<'_> {
    fn tile(&self, pair: usize, sums: &Sums<'_>) {
        let Dims { m, n, .. } = self.dims;
        let [scales, bias] = [self.scales, self.bias].map(|list| list.get(sums.col..).unwrap_or_default());
        for (i, x) in sums.rows() {
            // SAFETY: as for `Plain`.
            let out = unsafe {
                let to = self.out.get().add((pair * m + i) * n + sums.col);
                std::slice::from_raw_parts_mut(to, x.len())
            };
            quantize::scaled(Scaled { out, x, scale: self.scale, scales, bias });
        }
    }
}

impl Cpu {
    /// Packs a matrix of bytes as the right operand of products. Returns `None` for unsupported operands.
    pub(crate) fn packed_bytes(&self, b: &Array) -> Result<Option<Packed>> {
        let (&[k, n], Some(b_signed)) = (b.shape(), signed(b.dtype())) else { return Ok(None) };
        let [row, col] = b.strides()[..] else { return Ok(None) };
        if k == 0 || n == 0 || k >= DEEPEST {
            return Ok(None);
        }
        let right = Right::Strided(Strided { ptr: b.ptr(), row, col }, integer::right_bytes(false, b_signed));
        // SAFETY: the array has bytes at these indices.
        self.pool().run(|| unsafe { Packed::new(self.pool(), [k, n], &right) })?.map(Some)
    }

    /// Multiplies matrices of bytes. Returns `None` for unsupported operands. `packed` is the result of
    /// [`packed_bytes`](Self::packed_bytes) for `b`, if `b` is packed.
    pub(crate) fn integer_product(
        &self,
        a: &Array,
        b: &Array,
        a_zero: Option<&Array>,
        b_zero: Option<&Array>,
        packed: Option<&Packed>,
    ) -> Result<Option<Array>> {
        let (Some(a_signed), Some(b_signed)) = (signed(a.dtype()), signed(b.dtype())) else {
            return Ok(None);
        };
        let Some(all) = Matrices::of(a, b) else { return Ok(None) };
        let mut done = Ok(false);
        let y = made(self.pool(), DataType::I32, all.shape.clone(), |out| {
            let finish = Plain { out: Shared(out.cast()), dims: all.dims };
            // SAFETY: the operands are bytes with these signs.
            done = unsafe {
                products(self.pool(), &all, [a_signed, b_signed], [a_zero, b_zero], packed, &finish)
            };
        })?;
        let known = y.is_empty() && [a_zero, b_zero].iter().all(Option::is_none);
        Ok((done? || known).then_some(y))
    }

    /// Quantises floats by their range and multiplies them with a matrix of bytes. Returns `None` for unsupported operands.
    /// `packed` is the result of [`packed_bytes`](Self::packed_bytes) for `b`, if `b` is packed.
    pub(crate) fn dynamic_product(
        &self,
        x: &Array,
        b: &Array,
        b_scale: &Array,
        b_zero: Option<&Array>,
        bias: Option<&Array>,
        packed: Option<&Packed>,
    ) -> Result<Option<Array>> {
        let Some(b_signed) = signed(b.dtype()) else { return Ok(None) };
        let n = b.shape().last().copied().unwrap_or(0);
        let vector = |x: &Array| x.dtype() == DataType::F32 && x.shape() == [n];
        if b.rank() != 2
            || x.rank() < 2
            || !bias.is_none_or(vector)
            || !(scalar(b_scale).is_some() || vector(b_scale))
        {
            return Ok(None);
        }
        let Some([a, scale, zero]) = self.by_range(x)? else { return Ok(None) };
        let (Some(all), Some(scale)) = (Matrices::of(&a, b), scalar(&scale)) else { return Ok(None) };
        if b_scale.rank() > all.shape.len() {
            return Ok(None);
        }
        let single = scalar(b_scale);
        let scales = if single.is_some() { None } else { dense_f32(self.pool(), b_scale)? };
        let bias = match bias {
            Some(bias) => dense_f32(self.pool(), bias)?,
            None => None,
        };
        let mut done = Ok(false);
        let y = made(self.pool(), DataType::F32, all.shape.clone(), |out| {
            let finish = Floats {
                out: Shared(out.cast()),
                dims: all.dims,
                scale: scale * single.unwrap_or(1.0),
                scales: scales.as_ref().map_or(&[], numbers),
                bias: bias.as_ref().map_or(&[], numbers),
            };
            // SAFETY: the operands are bytes with these signs.
            let zeros = [Some(&zero), b_zero];
            done = unsafe { products(self.pool(), &all, [false, b_signed], zeros, packed, &finish) };
        })?;
        Ok(done?.then_some(y))
    }
}
