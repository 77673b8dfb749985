//! Matrix products with matrices of 4-bit or 8-bit integers that are quantised in blocks.
//!
//! If there are few rows, each column is multiplied in its stored format. Otherwise, a group of columns is converted to
//! floats that stay in the cache, and multiplied like any floats. If rows may be rounded to 8 bits, [`Integers`] computes the
//! product.

use super::{bytes, numbers};
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::ext::{computed, rounded, single};
use crate::gemm::n_bits::{self, Column, Format, arrange, product, widen};
use crate::gemm::{Dims, Strided, blocks, gemm};
use crate::kernels::{Shared, walk};
use crate::ops::{dense, made};
use bb::ext::MatMulNBitsOptions;
use bb::ir::{Error, infer, memory};
use bb::{DataType, Shape, Tensor};

const OP: &str = "matmul_n_bits";

/// The maximum number of rows that are multiplied one by one.
const FEW: usize = 2;
/// The number of converted weights that stay in the cache.
const CACHE: usize = 1 << 18;
/// The number of weights below which a second thread costs more than it saves.
const GRAIN: usize = 1 << 16;

/// The zero points of blocks.
enum BlockZeros {
    One(u8),
    /// One byte for each block.
    Bytes(Vec<u8>),
    Floats(Array),
}

/// Reads the scales and the zero points of `count` blocks of each column. Returns `None` for operands that the operation's
/// body handles.
fn steps(
    cpu: &Cpu,
    scales: &Array,
    zeros: Option<&Array>,
    [columns, count, bits]: [usize; 3],
) -> Result<Option<(Array, BlockZeros)>> {
    let Some(len) = columns.checked_mul(count) else { return Ok(None) };
    if !computed(scales) || scales.len() != len {
        return Ok(None);
    }
    let Some(scales) = single(cpu.pool(), scales)? else { return Ok(None) };
    let zeros = match zeros {
        None => BlockZeros::One(1 << (bits - 1)),
        Some(zeros) if zeros.dtype() == DataType::U8 => {
            // Each row of packed zero points starts at a whole byte.
            let row = (count * bits).div_ceil(8);
            if zeros.len() != columns * row {
                return Ok(None);
            }
            let packed = dense(cpu.pool(), zeros)?;
            let mut points = memory::filled(OP, 0, len)?;
            let (together, mask) = (8 / bits, u8::MAX >> (8 - bits));
            for (points, packed) in points.chunks_mut(count).zip(bytes(&packed).chunks(row)) {
                for (i, point) in points.iter_mut().enumerate() {
                    *point = packed.get(i / together).map_or(0, |byte| byte >> (i % together * bits) & mask);
                }
            }
            BlockZeros::Bytes(points)
        }
        Some(zeros) if computed(zeros) && zeros.len() == len => match single(cpu.pool(), zeros)? {
            Some(zeros) => BlockZeros::Floats(zeros),
            None => return Ok(None),
        },
        Some(_) => return Ok(None),
    };
    Ok(Some((scales, zeros)))
}

/// The parameters of a block-quantised matrix, without its integers.
pub(crate) struct Blocks {
    format: Format,
    columns: usize,
    /// The number of blocks of a column.
    count: usize,
    inner: usize,
    scales: Array,
    zeros: BlockZeros,
}

impl Blocks {
    /// Reads scales and zero points. Returns `None` for operands that the operation's body handles.
    pub(crate) fn new(
        cpu: &Cpu,
        b: &Array,
        scales: &Array,
        zeros: Option<&Array>,
        MatMulNBitsOptions { inner, bits, block, integers }: MatMulNBitsOptions,
    ) -> Result<Option<Blocks>> {
        let (Some(format), &[columns, count, size]) = (Format::of(bits, block), b.shape()) else {
            return Ok(None);
        };
        let Ok(inner) = usize::try_from(inner) else { return Ok(None) };
        let inner = if inner == 0 { count * format.block } else { inner };
        let fits = b.dtype() == DataType::U8
            && b.is_dense()
            && size == format.bytes()
            && inner.div_ceil(format.block) == count
            && columns > 0
            && inner > 0
            && !integers;
        if !fits {
            return Ok(None);
        }
        let bits = if format.halves { 4 } else { 8 };
        let Some((scales, zeros)) = steps(cpu, scales, zeros, [columns, count, bits])? else {
            return Ok(None);
        };
        Ok(Some(Blocks { format, columns, count, inner, scales, zeros }))
    }

    /// Returns the size in bytes, without the integers.
    pub(crate) fn bytes(&self) -> usize {
        let zeros = match &self.zeros {
            BlockZeros::One(_) => 0,
            BlockZeros::Bytes(list) => list.len(),
            BlockZeros::Floats(list) => list.len() * size_of::<f32>(),
        };
        self.scales.len() * size_of::<f32>() + zeros
    }

    /// Computes the product of `a` and `b`; `b` is the operand that these blocks were created for. Returns `None` for
    /// operands that the operation's body handles.
    pub(crate) fn product(&self, cpu: &Cpu, a: &Array, b: &Array) -> Result<Option<Array>> {
        let Some((&inner, outer)) = a.shape().split_last() else { return Ok(None) };
        if inner != self.inner || !computed(a) || a.is_empty() {
            return Ok(None);
        }
        let Some(rows) = single(cpu.pool(), a)? else { return Ok(None) };
        let wide = self.count * self.format.block;
        let m = rows.len() / inner;
        let Some(room) = m.checked_mul(wide) else { return Ok(None) };
        let mut arranged = memory::filled(OP, 0f32, room)?;
        for (out, row) in arranged.chunks_exact_mut(wide).zip(numbers(&rows).chunks_exact(inner)) {
            arrange(self.format, out, row);
        }
        let mut shape = Shape::from_slice(outer);
        shape.push(self.columns);
        let chunk = (CACHE / wide).max(1).next_multiple_of(16).min(self.columns);
        let mut widened = memory::filled(OP, 0f32, if m > FEW { chunk * wide } else { 0 })?;
        let y = made(cpu.pool(), DataType::F32, shape, |out| {
            let out = Shared(out.cast::<f32>());
            let columns = BlockColumns { blocks: self, bytes: bytes(b) };
            if m <= FEW {
                columns.each(0..self.columns, |at, column| {
                    for (i, row) in arranged.chunks_exact(wide).enumerate() {
                        // SAFETY: the result has `m` rows with an element for each column, and no other call writes this
                        // element.
                        unsafe {
                            out.get().add(i * self.columns + at).write(product(self.format, row, column))
                        };
                    }
                });
                return;
            }
            for first in (0..self.columns).step_by(chunk) {
                let n = chunk.min(self.columns - first);
                let to = Shared(widened.as_mut_ptr());
                columns.each(first..first + n, |at, column| {
                    // SAFETY: there is room for `chunk` columns, and no other call writes this one.
                    let out =
                        unsafe { std::slice::from_raw_parts_mut(to.get().add((at - first) * wide), wide) };
                    widen(self.format, out, column);
                });
                let right = Strided { ptr: widened.as_ptr(), row: 1, col: wide.cast_signed() };
                let left = Strided::dense(arranged.as_ptr(), wide);
                // SAFETY: the operands have these extents, and the result has `m` rows of so many columns.
                unsafe {
                    let to = out.get().add(first);
                    gemm(Dims { m, k: wide, n }, to, self.columns, left, right);
                }
            }
        })?;
        Ok(Some(rounded(cpu.pool(), y, a.dtype())?))
    }
}

/// A block-quantised matrix, packed for rows that are rounded to 8 bits.
pub(crate) struct Integers(blocks::Weights);

impl Integers {
    /// Packs a matrix. Returns `None` for operands that the operation's body handles.
    pub(crate) fn new(
        cpu: &Cpu,
        b: &Array,
        scales: &Array,
        zeros: Option<&Array>,
        MatMulNBitsOptions { inner, bits, block, integers }: MatMulNBitsOptions,
    ) -> Result<Option<Integers>> {
        let [Ok(inner), Ok(bits), Ok(block)] = [inner, bits, block].map(usize::try_from) else {
            return Ok(None);
        };
        let &[columns, count, size] = b.shape() else { return Ok(None) };
        let inner = if inner == 0 { count.saturating_mul(block) } else { inner };
        let format = blocks::Format { bits, block, count, inner, columns };
        if !integers || b.dtype() != DataType::U8 || !format.is_served() || size != format.bytes() {
            return Ok(None);
        }
        let Some((scales, zeros)) = steps(cpu, scales, zeros, [columns, count, bits])? else {
            return Ok(None);
        };
        let zeros = match &zeros {
            BlockZeros::One(zero) => blocks::Zeros::One(*zero),
            BlockZeros::Bytes(list) => blocks::Zeros::Bytes(list),
            BlockZeros::Floats(list) => blocks::Zeros::Floats(numbers(list)),
        };
        let b = dense(cpu.pool(), b)?;
        let pack = || blocks::Weights::new(cpu.pool(), format, bytes(&b), numbers(&scales), zeros);
        Ok(Some(Integers(cpu.pool().run(pack)??)))
    }

    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// Returns whether rows of this type can be multiplied.
    pub(crate) fn takes(dtype: DataType) -> bool {
        matches!(dtype, DataType::F32 | DataType::F16 | DataType::BF16)
    }

    /// Computes the product with an operand whose type [`takes`](Self::takes) accepts.
    ///
    /// # Errors
    ///
    /// [`Error::Shapes`] if the operand does not have rows of this length.
    pub(crate) fn product(&self, cpu: &Cpu, a: &Array) -> Result<Array> {
        let Integers(weights) = self;
        let format = weights.format();
        let shape = infer::matmul(a.shape(), &[format.inner, format.columns])?.shape;
        let Some(rows) = single(cpu.pool(), a)? else {
            return Err(Error::DataType { expected: DataType::F32, got: a.dtype() }.into());
        };
        let mut left = None;
        if !rows.is_empty() {
            cpu.pool().run(|| left = Some(weights.left(cpu.pool(), numbers(&rows))))?;
        }
        let left = left.transpose()?;
        let y = made(cpu.pool(), DataType::F32, shape, |out| {
            if let Some(left) = &left {
                // SAFETY: the result has a row of so many columns for each row of the operand.
                unsafe { weights.product(left, out.cast()) };
            }
        })?;
        rounded(cpu.pool(), y, a.dtype())
    }
}

/// The columns of a block-quantised matrix.
struct BlockColumns<'a> {
    blocks: &'a Blocks,
    bytes: &'a [u8],
}

impl BlockColumns<'_> {
    /// Calls `f` with each column of a range and its index.
    fn each(&self, range: std::ops::Range<usize>, f: impl Fn(usize, Column<'_>) + Sync) {
        let BlockColumns { blocks: Blocks { format, count, scales, zeros, .. }, bytes } = self;
        let (size, scales) = (count * format.bytes(), numbers(scales));
        walk::split(range.len(), count * format.block, GRAIN, |from, to| {
            for at in range.start + from..range.start + to {
                let own = at * count..(at + 1) * count;
                let zeros = match zeros {
                    BlockZeros::One(zero) => Some(n_bits::Zeros::One(f32::from(*zero))),
                    BlockZeros::Bytes(list) => list.get(own.clone()).map(n_bits::Zeros::Bytes),
                    BlockZeros::Floats(list) => numbers(list).get(own.clone()).map(n_bits::Zeros::Floats),
                };
                let bytes = bytes.get(at * size..(at + 1) * size);
                if let (Some(bytes), Some(scales), Some(zeros)) = (bytes, scales.get(own), zeros) {
                    f(at, Column { bytes, scales, zeros });
                }
            }
        });
    }
}

#[cfg(test)]
mod tests;
