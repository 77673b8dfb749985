//! Tests that prepared kernels equal the operations and their definitions, computed in `f64`.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ext::{Quant, QuantOp};
use bb::ir::op::OpSpec;
use bb::{
    Backend, DataType, Kernel, KernelOperand, KernelOperands, PrepareOperand, PrepareStep, Primitive,
    RoundMode, Tensor, TensorData,
};
use bb_cpu::{Array, Cpu};

const FLOATS: [(DataType, i32); 4] =
    [(DataType::F32, 24), (DataType::F64, 53), (DataType::F16, 11), (DataType::BF16, 8)];

/// Creates an array of pseudorandom numbers between -1 and 1.
fn random(cpu: &Cpu, dtype: DataType, shape: &[usize], seed: u64) -> Array {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / f64::from(1u32 << 23) - 1.0
    };
    let elements: Vec<f64> = (0..shape.iter().product()).map(|_: usize| next()).collect();
    let x = cpu.constant(&TensorData::new(shape, &elements).unwrap()).unwrap();
    cpu.cast(&x, dtype, true, RoundMode::default()).unwrap()
}

fn doubles(cpu: &Cpu, x: &Array) -> Vec<f64> {
    let x = cpu.cast(x, DataType::F64, true, RoundMode::default()).unwrap();
    cpu.to_host(&x).unwrap().as_slice::<f64>().unwrap().to_vec()
}

fn prepare(cpu: &Cpu, a: &Array, b: &Array) -> Option<Box<dyn Kernel<Cpu>>> {
    let left = PrepareOperand::varying(a.dtype(), a.shape().iter().map(|_| None), false);
    let operands = [Some(left), Some(PrepareOperand::of_constant(b))];
    cpu.prepare(&PrepareStep::new(Primitive::MatMul.spec(), &[], operands)).unwrap()
}

fn run(cpu: &Cpu, kernel: &dyn Kernel<Cpu>, a: &Array) -> Array {
    let mut operands: KernelOperands<'_, Array> =
        [KernelOperand::Shared(a), KernelOperand::Absent].into_iter().collect();
    kernel.run(cpu, &mut operands).unwrap().pop().unwrap()
}

/// Compares a matrix product with its definition. Each result may have an error of one unit in the last place of its
/// type, plus the error of sums in blocks of 1024 products in the type of the sums.
fn check(cpu: &Cpu, y: &Array, a: &Array, b: &Array, digits: i32) {
    let (k, n) = (b.shape()[0], b.shape()[1]);
    let (got, left, right) = (doubles(cpu, y), doubles(cpu, a), doubles(cpu, b));
    assert_eq!((y.dtype(), got.len()), (a.dtype(), left.len() / k * n));
    let sums = if digits == 53 { 53 } else { 24 };
    // Half of the smallest positive `f16`: small results are rounded to a multiple of it.
    let least = if digits == 11 { 2f64.powi(-25) } else { 0.0 };
    let terms = (k.min(1024) + k.div_ceil(1024)) as f64;
    for (i, got) in got.chunks(n).enumerate() {
        for (j, got) in got.iter().enumerate() {
            let products = || (0..k).map(|p| left[i * k + p] * right[p * n + j]);
            let (want, size): (f64, f64) = (products().sum(), products().map(f64::abs).sum());
            let bound = want.abs() * 2f64.powi(1 - digits) + size * terms * 2f64.powi(-sums) * 1.01 + least;
            assert!((got - want).abs() <= bound, "({i}, {j}) of {:?}: {got}, expected {want}", y.shape());
        }
    }
}

/// Creates right operands with these extents: dense, transposed, and every second column of a wider matrix.
fn views(cpu: &Cpu, dtype: DataType, [k, n]: [usize; 2]) -> [Array; 3] {
    let wide = random(cpu, dtype, &[k, 2 * n], 3);
    [
        random(cpu, dtype, &[k, n], 1),
        cpu.transpose(&random(cpu, dtype, &[n, k], 2), &[1, 0]).unwrap(),
        cpu.slice(&wide, &[1], &[i64::MAX], &[1], &[2]).unwrap(),
    ]
}

#[test]
fn products_of_any_number_of_rows_are_the_definition() {
    let cpu = Cpu::builder().threads(2).build().unwrap();
    for (dtype, digits) in FLOATS {
        let mut prepared = 0;
        for b in views(&cpu, dtype, [37, 75]) {
            let Some(kernel) = prepare(&cpu, &random(&cpu, dtype, &[1, 37], 0), &b) else { continue };
            prepared += 1;
            for m in 0..=40 {
                let a = random(&cpu, dtype, &[m, 37], 4);
                let y = run(&cpu, &*kernel, &a);
                assert_eq!(y.shape(), [m, 75]);
                check(&cpu, &y, &a, &b, digits);
            }
        }
        // A small dense operand that already has the type of the sums is read in place, so it is not prepared.
        assert_eq!(prepared, if digits < 24 { 3 } else { 2 }, "{dtype:?}");
    }
}

#[test]
fn large_operands_are_the_definition() {
    let cpu = Cpu::builder().threads(2).build().unwrap();
    // More than two passes; more than one block of columns; panels whose last one is nearly empty.
    for [k, n] in [[2100, 67], [259, 517], [1, 300], [3, 64], [130, 1025]] {
        for (dtype, digits) in FLOATS {
            for b in views(&cpu, dtype, [k, n]) {
                let Some(kernel) = prepare(&cpu, &random(&cpu, dtype, &[1, k], 0), &b) else { continue };
                for m in [1, 17] {
                    let a = random(&cpu, dtype, &[m, k], 5);
                    check(&cpu, &run(&cpu, &*kernel, &a), &a, &b, digits);
                }
            }
        }
    }
}

#[test]
fn left_operands_of_any_rank_and_strides_are_the_definition() {
    let cpu = Cpu::builder().threads(2).build().unwrap();
    for (dtype, digits) in FLOATS {
        let b = cpu.transpose(&random(&cpu, dtype, &[70, 33], 1), &[1, 0]).unwrap();
        let of = |shape: &[usize]| random(&cpu, dtype, shape, 6);
        let turned = |shape: &[usize], perm: &[i64]| cpu.transpose(&of(shape), perm).unwrap();
        let lefts = [
            (of(&[33]), vec![70]),
            (of(&[3, 5, 33]), vec![3, 5, 70]),
            (of(&[2, 3, 1, 33]), vec![2, 3, 1, 70]),
            (turned(&[33, 19], &[1, 0]), vec![19, 70]),
            (turned(&[5, 3, 33], &[1, 0, 2]), vec![3, 5, 70]),
            (turned(&[3, 33, 14], &[0, 2, 1]), vec![3, 14, 70]),
            (turned(&[2, 33, 3, 2], &[2, 0, 3, 1]), vec![3, 2, 2, 70]),
            (of(&[4, 0, 33]), vec![4, 0, 70]),
            (of(&[0, 4, 33]), vec![0, 4, 70]),
            (cpu.slice(&of(&[4, 3, 66]), &[-1], &[i64::MIN], &[2], &[-2]).unwrap(), vec![4, 3, 70]),
        ];
        for (a, shape) in lefts {
            let kernel = prepare(&cpu, &a, &b).unwrap();
            let y = run(&cpu, &*kernel, &a);
            assert_eq!(y.shape(), shape);
            check(&cpu, &y, &a, &b, digits);
        }
    }
}

#[test]
fn the_bits_do_not_depend_on_threads() {
    let [one, two] = [1, 2].map(|threads| Cpu::builder().threads(threads).build().unwrap());
    for (dtype, _) in FLOATS {
        let b = random(&one, dtype, &[1300, 300], 1);
        for m in [1, 5, 40, 200] {
            let a = random(&one, dtype, &[m, 1300], 2);
            let [x, y] = [&one, &two].map(|cpu| {
                let kernel = prepare(cpu, &a, &b).unwrap();
                one.to_host(&run(cpu, &*kernel, &a)).unwrap()
            });
            assert_eq!(x, y, "{dtype:?}, {m} rows");
        }
    }
}

/// Prepares an operation with a varying first operand and constant others, and runs its kernel.
fn run_with_constants(cpu: &Cpu, spec: &'static OpSpec, operands: &[Option<&Array>]) -> Array {
    let first = operands[0].unwrap();
    let varying = PrepareOperand::varying(first.dtype(), first.shape().iter().map(|_| None), false);
    let constants = operands[1..].iter().map(|x| x.map(PrepareOperand::of_constant));
    let step = PrepareStep::new(spec, &[], std::iter::once(Some(varying)).chain(constants));
    let kernel = cpu.prepare(&step).unwrap().unwrap();
    let given = operands.iter().enumerate().map(|(at, x)| match *x {
        Some(x) if at == 0 || kernel.reads(at) => KernelOperand::Shared(x),
        Some(_) | None => KernelOperand::Absent,
    });
    let mut given: KernelOperands<'_, Array> = given.collect();
    kernel.run(cpu, &mut given).unwrap().pop().unwrap()
}

/// Creates an array of bytes that includes all values.
fn bytes(cpu: &Cpu, dtype: DataType, shape: &[usize], seed: usize) -> Array {
    let n: usize = shape.iter().product();
    let numbers: Vec<i32> = (0..n).map(|i| ((i * 167 + seed * 13) % 256) as i32).collect();
    let low = if dtype == DataType::I8 { 128 } else { 0 };
    let numbers: Vec<i32> = numbers.iter().map(|x| x - low).collect();
    let x = cpu.constant(&TensorData::new(shape, &numbers).unwrap()).unwrap();
    cpu.cast(&x, dtype, true, RoundMode::default()).unwrap()
}

fn integers(cpu: &Cpu, x: &Array) -> Vec<i32> {
    let x = cpu.cast(x, DataType::I32, true, RoundMode::default()).unwrap();
    cpu.to_host(&x).unwrap().as_slice::<i32>().unwrap().to_vec()
}

#[test]
fn products_of_bytes_are_the_definition() {
    let cpu = Cpu::builder().threads(2).build().unwrap();
    let spec = QuantOp::MatMulInteger.spec();
    for [left, right] in [[DataType::U8, DataType::I8], [DataType::I8, DataType::U8], [DataType::U8; 2]] {
        for [m, k, n] in [[1, 37, 5], [7, 64, 33], [18, 3, 130], [0, 4, 4]] {
            let a = bytes(&cpu, left, &[2, m, k], 1);
            let turned = cpu.transpose(&bytes(&cpu, right, &[n, k], 2), &[1, 0]).unwrap();
            for b in [bytes(&cpu, right, &[k, n], 3), turned] {
                let zeros = [bytes(&cpu, left, &[], 4), bytes(&cpu, right, &[n], 5)];
                for [a_zero, b_zero] in [[None, None], [Some(&zeros[0]), Some(&zeros[1])]] {
                    let y = run_with_constants(&cpu, spec, &[Some(&a), Some(&b), a_zero, b_zero]);
                    assert_eq!((y.shape(), y.dtype()), (&[2, m, n][..], DataType::I32));
                    let [got, a, b] = [&y, &a, &b].map(|x| integers(&cpu, x));
                    let from = a_zero.map_or(0, |zero| integers(&cpu, zero)[0]);
                    let below = b_zero.map_or(vec![0; n], |zero| integers(&cpu, zero));
                    for (i, row) in got.chunks(n).enumerate() {
                        for (j, got) in row.iter().enumerate() {
                            let want: i32 =
                                (0..k).map(|p| (a[i * k + p] - from) * (b[p * n + j] - below[j])).sum();
                            assert_eq!(*got, want, "({i}, {j}) of {m}x{k}x{n}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn products_of_quantised_floats_are_those_of_the_operation() {
    let cpu = Cpu::builder().threads(2).build().unwrap();
    for right in [DataType::I8, DataType::U8] {
        for m in [1, 9] {
            let x = random(&cpu, DataType::F32, &[m, 45], 1);
            let b = bytes(&cpu, right, &[45, 71], 2);
            let scale = random(&cpu, DataType::F32, &[71], 3);
            let (zero, bias) = (bytes(&cpu, right, &[71], 4), random(&cpu, DataType::F32, &[71], 5));
            let operands = [Some(&x), Some(&b), Some(&scale), Some(&zero), Some(&bias)];
            let y = run_with_constants(&cpu, QuantOp::DynamicMatMul.spec(), &operands);
            let want = cpu.dynamic_matmul(&x, &b, &scale, Some(&zero), Some(&bias)).unwrap();
            assert_eq!(cpu.to_host(&y).unwrap(), cpu.to_host(&want).unwrap());
        }
    }
}

#[test]
fn what_does_not_become_faster_is_not_prepared() {
    let cpu = Cpu::new();
    let f32s = |shape: &[usize]| random(&cpu, DataType::F32, shape, 1);
    let a = f32s(&[4, 8]);
    for b in [
        f32s(&[8, 8]),
        f32s(&[8]),
        f32s(&[8, 0]),
        f32s(&[2, 8, 600]),
        cpu.transpose(&f32s(&[1, 8]), &[1, 0]).unwrap(),
    ] {
        assert!(prepare(&cpu, &a, &b).is_none(), "{:?}", b.shape());
    }
    let none = PrepareOperand::varying(DataType::F32, [Some(8), Some(1000)], true);
    let left = PrepareOperand::of_constant(&a);
    let step = PrepareStep::new(Primitive::MatMul.spec(), &[], [Some(left), Some(none)]);
    assert!(cpu.prepare(&step).unwrap().is_none());
}

#[test]
fn a_kernel_counts_its_panels_and_refuses_another_type() {
    let cpu = Cpu::new();
    let b = random(&cpu, DataType::F32, &[640, 640], 1);
    let a = random(&cpu, DataType::F32, &[1, 640], 2);
    let kernel = prepare(&cpu, &a, &b).unwrap();
    assert!(kernel.bytes() >= 640 * 640 * 4 && kernel.bytes() <= 640 * 704 * 4, "{}", kernel.bytes());
    assert!(!kernel.reads(0) && !kernel.reads(1));
    for a in [random(&cpu, DataType::F64, &[1, 640], 2), random(&cpu, DataType::F32, &[1, 639], 2)] {
        let mut operands: KernelOperands<'_, Array> = [KernelOperand::Shared(&a)].into_iter().collect();
        assert!(kernel.run(&cpu, &mut operands).is_err());
    }
    assert!(kernel.run(&cpu, &mut [].into_iter().collect()).is_err());
}
