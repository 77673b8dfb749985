#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

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

/// A quantised matrix, and its dequantised values by the definition.
struct Matrix {
    b: Array,
    scales: Array,
    zeros: Option<Array>,
    /// The value in each column and row: the integer minus its zero point, times its scale.
    numbers: Vec<Vec<f64>>,
    options: MatMulNBitsOptions,
}

/// Creates a matrix. `kind` is 0 for no zero points, 1 for bytes, 2 for floats.
fn matrix(cpu: &Cpu, dtype: DataType, [columns, inner, block]: [usize; 3], bits: i64, kind: usize) -> Matrix {
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
        options: MatMulNBitsOptions { inner: inner as i64, bits, block: block as i64, integers: false },
    }
}

/// Compares a product with its definition. The tolerance allows for sums of this number of terms in
/// `f32`, rounded to the type.
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
                        let y =
                            at(level, || cpu.matmul_n_bits(&x, b, scales, zeros.as_ref(), None, *options));
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
        let y =
            bb::ext::Extended::declining(&cpu).matmul_n_bits(&x, b, scales, zeros.as_ref(), None, *options);
        check(&cpu, &y.unwrap(), &x, &matrix, &format!("{extents:?}"));
    }
}

/// Compares the kernel with the operation's body on the reference backend. Both have the same
/// integers and scales.
#[test]
fn products_of_rounded_rows_are_those_of_the_body() {
    let (cpu, reference) = (Cpu::new(), bb_reference::Reference);
    for (extents, bits) in [([5, 64, 32], 4), ([19, 70, 16], 4), ([17, 129, 64], 8), ([3, 20, 8], 8)] {
        for (dtype, kind) in [(DataType::F32, 0), (DataType::F32, 1), (DataType::F32, 2), (DataType::F16, 1)]
        {
            let matrix = matrix(&cpu, dtype, extents, bits, kind);
            let options = MatMulNBitsOptions { integers: true, ..matrix.options };
            let mut rows = drawn(5 * extents[1], 3);
            // A block of zeros, a block of the smallest subnormal numbers, and a block with an
            // infinity.
            rows[..8].fill(0.0);
            rows[extents[1]..][..8].fill(f32::from_bits(1));
            rows[4 * extents[1]] = f32::INFINITY;
            let x = array(&cpu, &[5, extents[1]], &rows);
            let x = cpu.cast(&x, dtype, true, RoundMode::default()).unwrap();
            let there = |x: &Array| reference.constant(&cpu.to_host(x).unwrap()).unwrap();
            let (b, scales) = (there(&matrix.b), there(&matrix.scales));
            let zeros = matrix.zeros.as_ref().map(there);
            let body = bb::ext::Extended::new(&reference, &[]);
            let want = body.matmul_n_bits(&there(&x), &b, &scales, zeros.as_ref(), None, options);
            let want = reference.to_host(&want.unwrap()).unwrap();
            let want = doubles(&cpu, &cpu.constant(&want).unwrap());
            for level in levels() {
                let Matrix { b, scales, zeros, .. } = &matrix;
                let y =
                    at(level, || cpu.matmul_n_bits(&x, b, scales, zeros.as_ref(), None, options)).unwrap();
                assert_eq!(y.dtype(), dtype);
                let digits = if dtype == DataType::F32 { 14 } else { 10 };
                for (got, want) in doubles(&cpu, &y).iter().zip(&want) {
                    let is_near = (got - want).abs() <= 2f64.powi(-digits) * (1.0 + want.abs()) * 16.0;
                    let what = format!("{extents:?} {bits} {dtype} {kind} {level:?}");
                    assert!(is_near || (got.is_nan() && want.is_nan()), "{what}: {got}, expected {want}");
                }
            }
            let wide = cpu.cast(&x, DataType::F64, true, RoundMode::default()).unwrap();
            let [b, scales] = [&matrix.b, &matrix.scales];
            let of = |integers| {
                let options = MatMulNBitsOptions { integers, ..options };
                let y = cpu.matmul_n_bits(&wide, b, scales, matrix.zeros.as_ref(), None, options).unwrap();
                doubles(&cpu, &y).iter().map(|y| y.to_bits()).collect::<Vec<_>>()
            };
            assert_eq!(of(true), of(false), "an operand of 64 bits is not rounded");
        }
    }
}

#[test]
fn products_of_rounded_rows_have_the_same_bits_prepared_and_with_any_number_of_threads() {
    let cpu = Cpu::new();
    for (kind, bits) in [(0, 4), (1, 4), (2, 4), (0, 8)] {
        let matrix = matrix(&cpu, DataType::F32, [200, 100, 32], bits, kind);
        let Matrix { b, scales, zeros, .. } = &matrix;
        let options = MatMulNBitsOptions { integers: true, ..matrix.options };
        let params = [options.inner, options.bits, options.block]
            .map(Param::Int)
            .into_iter()
            .chain([Param::Bool(true)]);
        let params: Vec<_> = params.collect();
        let constants = [Some(b), Some(scales), zeros.as_ref()].map(|x| x.map(PrepareOperand::of_constant));
        let a = PrepareOperand::varying(DataType::F32, [None, None], false);
        let operands = std::iter::once(Some(a)).chain(constants).chain([None]);
        let step = PrepareStep::new(QuantOp::MatMulNBits.spec(), &params, operands);
        let kernel = cpu.prepare(&step).unwrap().unwrap();
        assert!(!kernel.reads(1) && kernel.bytes() >= b.len() + 2 * scales.len());
        let run = |x: &Array| {
            let given = [KernelOperand::Shared(x), KernelOperand::Absent];
            kernel.run(&cpu, &mut given.into_iter().collect()).map(|mut y| y.remove(0))
        };
        for m in [0, 1, 9] {
            let x = array(&cpu, &[m, 100], &drawn(m * 100, 2));
            let y = cpu.to_host(&run(&x).unwrap()).unwrap();
            let alone = || cpu.matmul_n_bits(&x, b, scales, zeros.as_ref(), None, options).unwrap();
            assert_eq!(y.shape(), [m, 200]);
            for threads in [1, 2, 3, 8] {
                assert_eq!(cpu.to_host(&crate::threads::as_if(threads, alone)).unwrap(), y);
                let own = Cpu::builder().threads(threads).build().unwrap();
                let there = |x: &Array| own.constant(&cpu.to_host(x).unwrap()).unwrap();
                let zeros = zeros.as_ref().map(there);
                let y_there =
                    own.matmul_n_bits(&there(&x), &there(b), &there(scales), zeros.as_ref(), None, options);
                assert_eq!(own.to_host(&y_there.unwrap()).unwrap(), y);
            }
        }
        let wrong = array(&cpu, &[2, 99], &drawn(198, 2));
        assert!(run(&wrong).is_err());
        assert!(cpu.matmul_n_bits(&wrong, b, scales, zeros.as_ref(), None, options).is_err());
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
        let params = [options.inner, options.bits, options.block].map(Param::Int);
        let params = [&params[..], &[Param::Bool(false)]].concat();
        let a = PrepareOperand::varying(DataType::F32, [None, None], false);
        let constants = [Some(b), Some(scales), zeros.as_ref()].map(|x| x.map(PrepareOperand::of_constant));
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
