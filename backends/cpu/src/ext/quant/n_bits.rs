//! Products with matrices of integers of four or eight bits, quantised by blocks.
//!
//! With few rows, each column is multiplied as it is stored. With more, some columns at a time are widened, so that they stay
//! in the cache, and multiplied like any floats.

use super::{bytes, numbers};
use crate::array::Array;
use crate::backend::Cpu;
use crate::error::Result;
use crate::ext::{computed, rounded, single};
use crate::gemm::n_bits::{self, Column, Format, arrange, product, widen};
use crate::gemm::{Dims, Strided, gemm};
use crate::kernels::{Shared, walk};
use crate::ops::{dense, made};
use bb::ext::MatMulNBitsOptions;
use bb::ir::memory;
use bb::{DataType, Shape, Tensor};

const OP: &str = "matmul_n_bits";

/// The number of rows up to which each is multiplied on its own.
const FEW: usize = 2;
/// The number of widened numbers that stay in the cache.
const CACHE: usize = 1 << 18;
/// The number of integers below which a second thread costs more than it saves.
const GRAIN: usize = 1 << 16;

/// The zero points of blocks.
enum Zeros {
    One(f32),
    /// One byte each.
    Bytes(Vec<u8>),
    Floats(Array),
}

/// What is known of a matrix in blocks beside its integers.
pub(crate) struct Blocks {
    format: Format,
    columns: usize,
    /// The number of blocks of a column.
    count: usize,
    inner: usize,
    scales: Array,
    zeros: Zeros,
}

impl Blocks {
    /// Reads scales and zero points; `None` for operands that the operation's body handles.
    pub(crate) fn new(
        cpu: &Cpu,
        b: &Array,
        scales: &Array,
        zeros: Option<&Array>,
        MatMulNBitsOptions { inner, bits, block }: MatMulNBitsOptions,
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
            && inner > 0;
        if !fits || !computed(scales) || scales.len() != columns * count {
            return Ok(None);
        }
        let Some(scales) = single(cpu.pool(), scales)? else { return Ok(None) };
        let zeros = match zeros {
            None => Zeros::One(if format.halves { 8.0 } else { 128.0 }),
            Some(zeros) if zeros.dtype() == DataType::U8 => {
                let row = if format.halves { count.div_ceil(2) } else { count };
                if zeros.len() != columns * row {
                    return Ok(None);
                }
                let packed = dense(cpu.pool(), zeros)?;
                let mut points = memory::filled(OP, 0, columns * count)?;
                for (points, packed) in points.chunks_mut(count).zip(bytes(&packed).chunks(row)) {
                    for (i, point) in points.iter_mut().enumerate() {
                        *point = if format.halves {
                            packed.get(i / 2).map_or(0, |byte| byte >> (i % 2 * 4) & 15)
                        } else {
                            packed.get(i).copied().unwrap_or(0)
                        };
                    }
                }
                Zeros::Bytes(points)
            }
            Some(zeros) if computed(zeros) && zeros.len() == columns * count => {
                match single(cpu.pool(), zeros)? {
                    Some(zeros) => Zeros::Floats(zeros),
                    None => return Ok(None),
                }
            }
            Some(_) => return Ok(None),
        };
        Ok(Some(Blocks { format, columns, count, inner, scales, zeros }))
    }

    /// Returns the size in bytes, without the integers.
    pub(crate) fn bytes(&self) -> usize {
        let zeros = match &self.zeros {
            Zeros::One(_) => 0,
            Zeros::Bytes(list) => list.len(),
            Zeros::Floats(list) => list.len() * size_of::<f32>(),
        };
        self.scales.len() * size_of::<f32>() + zeros
    }

    /// Multiplies; `b` is the operand that these blocks were read for. `None` for operands that the body handles.
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
            let columns = Columns { blocks: self, bytes: bytes(b) };
            if m <= FEW {
                columns.each(0..self.columns, |at, column| {
                    for (i, row) in arranged.chunks_exact(wide).enumerate() {
                        // SAFETY: the result has `m` rows of so many columns, and no other call writes this element.
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

/// The columns of a matrix in blocks.
struct Columns<'a> {
    blocks: &'a Blocks,
    bytes: &'a [u8],
}

impl Columns<'_> {
    /// Calls `f` with each column of a range and its number.
    fn each(&self, range: std::ops::Range<usize>, f: impl Fn(usize, Column<'_>) + Sync) {
        let Columns { blocks: Blocks { format, count, scales, zeros, .. }, bytes } = self;
        let (size, scales) = (count * format.bytes(), numbers(scales));
        walk::split(range.len(), count * format.block, GRAIN, |from, to| {
            for at in range.start + from..range.start + to {
                let own = at * count..(at + 1) * count;
                let zeros = match zeros {
                    Zeros::One(zero) => Some(n_bits::Zeros::One(*zero)),
                    Zeros::Bytes(list) => list.get(own.clone()).map(n_bits::Zeros::Bytes),
                    Zeros::Floats(list) => numbers(list).get(own.clone()).map(n_bits::Zeros::Floats),
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
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::level::{at, levels};
    use bb::ext::{Quant, QuantOp};
    use bb::ir::op::Param;
    use bb::{
        Backend, Element, KernelOperand, KernelOperands, PrepareOperand, PrepareStep, RoundMode, TensorData,
    };

    fn array<T: Element>(cpu: &Cpu, shape: &[usize], elements: &[T]) -> Array {
        cpu.constant(&TensorData::new(shape, elements).unwrap()).unwrap()
    }

    fn drawn(n: usize, seed: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0).collect()
    }

    fn doubles(cpu: &Cpu, x: &Array) -> Vec<f64> {
        let x = cpu.cast(x, DataType::F64, true, RoundMode::default()).unwrap();
        cpu.to_host(&x).unwrap().as_slice::<f64>().unwrap().to_vec()
    }

    /// A matrix with its numbers as the definition has them.
    struct Matrix {
        b: Array,
        scales: Array,
        zeros: Option<Array>,
        /// The number in each column and row, less its zero point, times its scale.
        numbers: Vec<Vec<f64>>,
        options: MatMulNBitsOptions,
    }

    /// Makes a matrix; `kind` is 0 for no zero points, 1 for bytes, 2 for floats.
    fn matrix(
        cpu: &Cpu,
        dtype: DataType,
        [columns, inner, block]: [usize; 3],
        bits: i64,
        kind: usize,
    ) -> Matrix {
        let (count, most) = (inner.div_ceil(block), 1usize << bits);
        let of = |i: usize, seed: usize| ((i * 7919 + seed) % 2003 % most) as u8;
        let packed = |n: usize, number: &dyn Fn(usize) -> u8| -> Vec<u8> {
            if bits == 8 {
                return (0..n).map(number).collect();
            }
            let high = |i: usize| if i < n { number(i) << 4 } else { 0 };
            (0..n.div_ceil(2)).map(|i| number(2 * i) | high(2 * i + 1)).collect()
        };
        let weight = |column: usize, i: usize| of(column * count * block + i, 3);
        let point = |column: usize, i: usize| of(column * count + i, 11);
        let bytes: Vec<u8> =
            (0..columns).flat_map(|column| packed(count * block, &|i| weight(column, i))).collect();
        let points: Vec<u8> = (0..columns).flat_map(|column| packed(count, &|i| point(column, i))).collect();
        let cast = |x: &Array| cpu.cast(x, dtype, true, RoundMode::default()).unwrap();
        let scales = cast(&array(cpu, &[columns, count], &drawn(columns * count, 5)));
        let floats = cast(&array(cpu, &[columns, count], &drawn(columns * count, 7)));
        let (scale, float) = (doubles(cpu, &scales), doubles(cpu, &floats));
        let number = |column: usize, i: usize| {
            let at = column * count + i / block;
            let zero = match kind {
                0 => most as f64 / 2.0,
                1 => f64::from(point(column, i / block)),
                _ => float[at],
            };
            (f64::from(weight(column, i)) - zero) * scale[at]
        };
        let zeros = match kind {
            0 => None,
            1 => Some(array(cpu, &[columns, points.len() / columns], &points)),
            _ => Some(floats),
        };
        Matrix {
            b: array(cpu, &[columns, count, bytes.len() / columns / count], &bytes),
            scales,
            zeros,
            numbers: (0..columns).map(|column| (0..inner).map(|i| number(column, i)).collect()).collect(),
            options: MatMulNBitsOptions { inner: inner as i64, bits, block: block as i64 },
        }
    }

    /// Compares with the definition: sums of so many terms, in `f32`, rounded to the type.
    fn check(cpu: &Cpu, y: &Array, a: &Array, matrix: &Matrix, what: &str) {
        let (rows, got) = (doubles(cpu, a), doubles(cpu, y));
        assert_eq!(y.dtype(), a.dtype());
        let (columns, inner) = (matrix.numbers.len(), matrix.numbers[0].len());
        assert_eq!(got.len(), rows.len() / inner * columns);
        let digits = if a.dtype() == DataType::F32 { 24 } else { 11 };
        for (row, got) in rows.chunks(inner).zip(got.chunks(columns)) {
            for (column, got) in matrix.numbers.iter().zip(got) {
                let products = || row.iter().zip(column).map(|(x, w)| x * w);
                let (want, size): (f64, f64) = (products().sum(), products().map(f64::abs).sum());
                let bound = want.abs() * 2f64.powi(1 - digits) + size * inner as f64 * 2f64.powi(-24);
                assert!((got - want).abs() <= bound, "{what}: {got}, expected {want}");
            }
        }
    }

    #[test]
    fn products_are_the_definition() {
        let cpu = Cpu::new();
        for dtype in [DataType::F32, DataType::F16] {
            for (extents, bits) in [
                ([5, 64, 32], 4),
                ([3, 70, 16], 4),
                ([17, 129, 64], 4),
                ([2, 16, 16], 4),
                ([5, 70, 32], 8),
                ([600, 512, 256], 4),
            ] {
                for kind in 0..3 {
                    let matrix = matrix(&cpu, dtype, extents, bits, kind);
                    for shape in [&[1][..], &[2], &[1, 3], &[7], &[2, 3, 4]] {
                        let shape = [shape, &extents[1..2]].concat();
                        let x = array(&cpu, &shape, &drawn(shape.iter().product(), 1));
                        let x = cpu.cast(&x, dtype, true, RoundMode::default()).unwrap();
                        for level in levels() {
                            let Matrix { b, scales, zeros, options, .. } = &matrix;
                            let y = at(level, || {
                                cpu.matmul_n_bits(&x, b, scales, zeros.as_ref(), None, *options)
                            });
                            let what = format!("{dtype} {extents:?} {bits} {kind} {shape:?} {level:?}");
                            check(&cpu, &y.unwrap(), &x, &matrix, &what);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_body_is_the_definition() {
        let cpu = Cpu::new();
        for (extents, bits) in [([3, 40, 16], 4), ([4, 24, 8], 4), ([3, 20, 8], 8)] {
            let matrix = matrix(&cpu, DataType::F32, extents, bits, 1);
            let x = array(&cpu, &[2, extents[1]], &drawn(2 * extents[1], 1));
            let Matrix { b, scales, zeros, options, .. } = &matrix;
            let y = bb::ext::quant::matmul_n_bits(&cpu, &x, b, scales, zeros.as_ref(), None, *options);
            check(&cpu, &y.unwrap(), &x, &matrix, &format!("{extents:?}"));
        }
    }

    #[test]
    fn what_has_no_blocks_of_this_size_is_refused() {
        let cpu = Cpu::new();
        let Matrix { b, scales, options, .. } = matrix(&cpu, DataType::F32, [3, 64, 32], 4, 0);
        let x = array(&cpu, &[1, 64], &drawn(64, 1));
        for wrong in [
            MatMulNBitsOptions { block: 16, ..options },
            MatMulNBitsOptions { bits: 8, ..options },
            MatMulNBitsOptions { bits: 3, ..options },
            MatMulNBitsOptions { inner: 65, ..options },
            MatMulNBitsOptions { inner: 32, ..options },
            MatMulNBitsOptions { inner: -1, ..options },
        ] {
            assert!(cpu.matmul_n_bits(&x, &b, &scales, None, None, wrong).is_err(), "{wrong:?}");
        }
        let short = array(&cpu, &[1, 63], &drawn(63, 1));
        assert!(cpu.matmul_n_bits(&short, &b, &scales, None, None, options).is_err());
    }

    #[test]
    fn prepared_products_have_the_bits_of_the_operation() {
        let cpu = Cpu::new();
        for kind in 0..3 {
            let matrix = matrix(&cpu, DataType::F32, [40, 100, 32], 4, kind);
            let Matrix { b, scales, zeros, options, .. } = &matrix;
            let params = [Param::Int(options.inner), Param::Int(options.bits), Param::Int(options.block)];
            let a = PrepareOperand::varying(DataType::F32, [None, None], false);
            let constants =
                [Some(b), Some(scales), zeros.as_ref()].map(|x| x.map(PrepareOperand::of_constant));
            let operands = std::iter::once(Some(a)).chain(constants).chain([None]);
            let step = PrepareStep::new(QuantOp::MatMulNBits.spec(), &params, operands);
            let kernel = cpu.prepare(&step).unwrap().unwrap();
            assert!(kernel.bytes() >= 4 * scales.len() && kernel.reads(1));
            for m in [1, 9] {
                let x = array(&cpu, &[m, 100], &drawn(m * 100, 2));
                let given = [Some(&x), Some(b), Some(scales), zeros.as_ref(), None];
                let given = given.map(|x| x.map_or(KernelOperand::Absent, KernelOperand::Shared));
                let mut given: KernelOperands<'_, Array> = given.into_iter().collect();
                let y = kernel.run(&cpu, &mut given).unwrap().remove(0);
                let alone = cpu.matmul_n_bits(&x, b, scales, zeros.as_ref(), None, *options).unwrap();
                assert_eq!(cpu.to_host(&y).unwrap(), cpu.to_host(&alone).unwrap());
            }
        }
    }
}
