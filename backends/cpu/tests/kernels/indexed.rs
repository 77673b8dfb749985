//! Compares operations with index tensors with their definitions and with the operations' bodies.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ext::{Index, Nn, ScatterElementsOptions, ScatterReduction};
use bb::ir::convert::{Rounding, cast};
use bb::{Backend, DataType, Tensor, TensorData};
use bb_cpu::{Array, Cpu};

/// The shape of the data, the shape of the indices, and the axis.
const ALONG: [(&[usize], &[usize], i64); 9] = [
    (&[7], &[20], 0),
    (&[5, 6], &[3, 6], 0),
    (&[5, 6], &[5, 40], -1),
    (&[40, 9], &[40, 1], 1),
    (&[1, 9], &[1, 9], 0),
    (&[3, 5, 4], &[2, 7, 3], 1),
    (&[2, 3, 1, 5], &[2, 3, 8, 5], 2),
    (&[2, 700], &[2, 1300], 1),
    (&[3, 1, 600], &[9, 1, 600], -3),
];

/// The shape of the data, the shape of the indices, and the number of batch dimensions.
const BY_TUPLES: [(&[usize], &[usize], usize); 8] = [
    (&[7], &[20, 1], 0),
    (&[5, 6], &[3, 2], 0),
    (&[5, 6, 3], &[4, 2, 1], 0),
    (&[2, 3, 4, 5, 6], &[9, 5], 0),
    (&[2, 3, 4, 5], &[2, 7, 2], 1),
    (&[2, 3, 4, 5], &[2, 3, 1], 2),
    (&[40, 30], &[1, 1], 0),
    (&[30, 200], &[700, 2], 0),
];

const WHOLE: [DataType; 15] = [
    DataType::Bool,
    DataType::I8,
    DataType::I16,
    DataType::I32,
    DataType::I64,
    DataType::U8,
    DataType::U16,
    DataType::U32,
    DataType::U64,
    DataType::F16,
    DataType::BF16,
    DataType::F32,
    DataType::F64,
    DataType::C64,
    DataType::C128,
];

/// Returns small numbers, so that a few sums and products of them are exact in every type. If the type supports it, some
/// are NaN, infinite, or -0.
fn numbers(shape: &[usize], dtype: DataType, seed: usize) -> TensorData {
    let complex = match dtype {
        DataType::C64 => Some(DataType::F32),
        DataType::C128 => Some(DataType::F64),
        _ => None,
    };
    let n = shape.iter().product::<usize>() * if complex.is_some() { 2 } else { 1 };
    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0];
    let number = |i: usize| match (i * 31 + seed) % 23 {
        i @ 0..4 if dtype.is_float() => special[i],
        i => (i % 4) as f64 - if dtype.is_float() { 1.5 } else { 0.0 },
    };
    let list: Vec<f64> = (0..n).map(number).collect();
    let list = TensorData::new(&[n], &list).unwrap();
    let list = cast(&list, complex.unwrap_or(dtype), Rounding::default()).unwrap();
    TensorData::adopt(dtype, shape, list.bytes().unwrap().clone()).unwrap()
}

/// Returns indices below `extent`, including negative ones, as 64-bit integers, or as 32-bit integers if `narrow`.
fn indices(cpu: &Cpu, shape: &[usize], extents: &[usize], narrow: bool) -> Array {
    let n: usize = shape.iter().product();
    let index = |i: usize| {
        let extent = extents[i % extents.len()];
        ((i * 7919 + i / 5) % (2 * extent)) as i64 - extent as i64
    };
    let list: Vec<i64> = (0..n).map(index).collect();
    let wide = TensorData::new(shape, &list).unwrap();
    let list: Vec<i32> = list.iter().map(|&i| i as i32).collect();
    cpu.constant(&if narrow { TensorData::new(shape, &list).unwrap() } else { wide }).unwrap()
}

fn same(cpu: &Cpu, got: &Array, want: &Array, what: &str) {
    assert_eq!((got.shape(), got.dtype()), (want.shape(), want.dtype()), "{what}");
    let (got, want) = (cpu.to_host(got).unwrap(), cpu.to_host(want).unwrap());
    if got.dtype().is_float() {
        // NaNs may have different bit patterns.
        let wide = |x: &TensorData| -> Vec<u64> {
            let x = cast(x, DataType::F64, Rounding::default()).unwrap();
            let number = |&x: &f64| if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() };
            x.as_slice::<f64>().unwrap().iter().map(number).collect()
        };
        assert_eq!(wide(&got), wide(&want), "{what}");
    } else {
        assert_eq!(got.bytes().unwrap(), want.bytes().unwrap(), "{what}");
    }
}

/// Returns the same elements with other strides.
fn strided(cpu: &Cpu, x: &Array) -> Array {
    let back: Vec<i64> = (0..x.rank() as i64).rev().collect();
    let turned = cpu.transpose(x, &back).unwrap();
    let dense = cpu.concat(&[&turned, &turned], 0).unwrap();
    let half = turned.shape().first().map_or(0, |&n| n as i64);
    cpu.transpose(&cpu.slice(&dense, &[half], &[2 * half], &[0], &[]).unwrap(), &back).unwrap()
}

#[test]
fn elements_and_slices_are_selected_as_the_bodies_do() {
    let cpu = Cpu::new();
    for dtype in WHOLE.into_iter().chain([DataType::String, DataType::F8E5M2]) {
        let data = |shape: &[usize]| {
            let x = numbers(shape, if dtype == DataType::String { DataType::I32 } else { dtype }, 3);
            let x = cpu.constant(&x).unwrap();
            if dtype == DataType::String { cpu.cast(&x, dtype, true, Default::default()).unwrap() } else { x }
        };
        for narrow in [false, true] {
            for (shape, asked, axis) in ALONG {
                let (x, at) = (data(shape), axis.rem_euclid(shape.len() as i64) as usize);
                let list = indices(&cpu, asked, &shape[at..=at], narrow);
                let want = bb::ext::Extended::declining(&cpu).gather_elements(&x, &list, axis).unwrap();
                for x in [&x, &strided(&cpu, &x)] {
                    for list in [&list, &strided(&cpu, &list)] {
                        let got = cpu.gather_elements(x, list, axis).unwrap();
                        same(&cpu, &got, &want, &format!("{dtype} {shape:?} {asked:?}"));
                    }
                }
            }
            for (shape, asked, batch) in BY_TUPLES {
                let x = data(shape);
                let tuple = asked[asked.len() - 1];
                let list = indices(&cpu, asked, &shape[batch..batch + tuple], narrow);
                let want = bb::ext::Extended::declining(&cpu).gather_nd(&x, &list, batch as i64).unwrap();
                for x in [&x, &strided(&cpu, &x)] {
                    let got = cpu.gather_nd(x, &list, batch as i64).unwrap();
                    same(&cpu, &got, &want, &format!("{dtype} {shape:?} {asked:?}"));
                }
            }
        }
    }
}

#[test]
fn updates_are_written_as_the_bodies_do() {
    let cpu = Cpu::new();
    for dtype in WHOLE {
        let complex = matches!(dtype, DataType::C64 | DataType::C128);
        let reductions: &[ScatterReduction] =
            if complex { &[ScatterReduction::None] } else { ScatterReduction::ALL };
        for &reduction in reductions {
            for (shape, asked, axis) in ALONG {
                let at = axis.rem_euclid(shape.len() as i64) as usize;
                let [x, updates] =
                    [(shape, 3), (asked, 8)].map(|(s, seed)| cpu.constant(&numbers(s, dtype, seed)).unwrap());
                let options = ScatterElementsOptions { axis, reduction };
                for narrow in [false, true] {
                    let list = indices(&cpu, asked, &shape[at..=at], narrow);
                    let want = bb::ext::Extended::declining(&cpu)
                        .scatter_elements(&x, &list, &updates, options)
                        .unwrap();
                    for (x, updates) in [(&x, &updates), (&strided(&cpu, &x), &strided(&cpu, &updates))] {
                        let got = cpu.scatter_elements(x, &strided(&cpu, &list), updates, options).unwrap();
                        same(&cpu, &got, &want, &format!("{dtype} {reduction:?} {shape:?} {asked:?}"));
                    }
                }
            }
            for (shape, asked, _) in BY_TUPLES {
                let (&tuple, lead) = asked.split_last().unwrap();
                let part: Vec<usize> = lead.iter().chain(&shape[tuple..]).copied().collect();
                let [x, updates] =
                    [(shape, 3), (&part, 8)].map(|(s, seed)| cpu.constant(&numbers(s, dtype, seed)).unwrap());
                let list = indices(&cpu, asked, &shape[..tuple], false);
                let want =
                    bb::ext::Extended::declining(&cpu).scatter_nd(&x, &list, &updates, reduction).unwrap();
                let got = cpu.scatter_nd(&x, &list, &updates, reduction).unwrap();
                same(&cpu, &got, &want, &format!("{dtype} {reduction:?} {shape:?} {asked:?}"));
            }
        }
    }
}

#[test]
fn known_elements_are_selected_and_written() {
    let cpu = Cpu::new();
    let x = cpu.constant(&TensorData::new(&[2, 3], &[1f32, 2., 3., 4., 5., 6.]).unwrap()).unwrap();
    let list = cpu.constant(&TensorData::new(&[2, 2], &[0i64, -1, 1, 1]).unwrap()).unwrap();
    let elements = |y: Array| cpu.to_host(&y).unwrap().as_slice::<f32>().unwrap().to_vec();
    assert_eq!(elements(cpu.gather_elements(&x, &list, 1).unwrap()), [1., 3., 5., 5.]);
    assert_eq!(elements(cpu.gather_nd(&x, &list, 0).unwrap()), [3., 5.]);
    let updates = cpu.constant(&TensorData::new(&[2, 2], &[10f32, 20., 30., 40.]).unwrap()).unwrap();
    let options = |reduction| ScatterElementsOptions { axis: 1, reduction };
    let scattered =
        |reduction| elements(cpu.scatter_elements(&x, &list, &updates, options(reduction)).unwrap());
    assert_eq!(scattered(ScatterReduction::None), [10., 2., 20., 4., 40., 6.]);
    assert_eq!(scattered(ScatterReduction::Add), [11., 2., 23., 4., 75., 6.]);
    assert_eq!(scattered(ScatterReduction::Max), [10., 2., 20., 4., 40., 6.]);
    let updates = cpu.constant(&TensorData::new(&[2], &[10f32, 20.]).unwrap()).unwrap();
    assert_eq!(
        elements(cpu.scatter_nd(&x, &list, &updates, ScatterReduction::Mul).unwrap()),
        [1., 2., 30., 4., 100., 6.]
    );
}

#[test]
fn what_does_not_fit_is_refused() {
    let cpu = Cpu::new();
    let [x, wide] = [[3, 4], [3, 5]].map(|shape: [usize; 2]| {
        cpu.constant(&TensorData::zeros(DataType::F32, &shape, 1 << 10).unwrap()).unwrap()
    });
    let list = |shape: &[usize], value: i64| {
        let n = shape.iter().product();
        cpu.constant(&TensorData::new(shape, &vec![value; n]).unwrap()).unwrap()
    };
    for (index, axis) in [(3, 0), (-4, 0), (4, 1), (-5, 1), (i64::MIN, 0), (i64::MAX, 1)] {
        let at = list(&[3, 4], index);
        let extent = [3, 4][axis as usize];
        let refused = |op: &str, error: bb_cpu::CpuError| {
            let text = error.to_string();
            assert!(text.contains(&index.to_string()) && text.contains(&extent.to_string()), "{op}: {text}");
        };
        refused("gather", cpu.gather_elements(&x, &at, axis).unwrap_err());
        let options = ScatterElementsOptions { axis, reduction: ScatterReduction::None };
        refused("scatter", cpu.scatter_elements(&x, &at, &x, options).unwrap_err());
        if axis == 0 {
            let at = list(&[2, 1], index);
            let updates = cpu.slice(&x, &[0], &[2], &[0], &[]).unwrap();
            refused("gather", cpu.gather_nd(&x, &at, 0).unwrap_err());
            refused("scatter", cpu.scatter_nd(&x, &at, &updates, ScatterReduction::Add).unwrap_err());
        }
    }
    let at = list(&[3, 4], 0);
    assert!(cpu.gather_elements(&x, &list(&[12], 0), 0).is_err());
    assert!(cpu.gather_elements(&x, &list(&[4, 4], 0), 1).is_err());
    assert!(cpu.gather_elements(&x, &at, 2).is_err());
    assert!(cpu.gather_nd(&x, &list(&[3, 3], 0), 0).is_err());
    assert!(cpu.gather_nd(&x, &list(&[2, 1], 0), 1).is_err());
    assert!(cpu.scatter_elements(&x, &at, &wide, ScatterElementsOptions::default()).is_err());
    assert!(cpu.scatter_nd(&x, &list(&[3, 1], 0), &wide, ScatterReduction::None).is_err());
}

#[test]
fn nothing_is_selected_by_no_indices() {
    let cpu = Cpu::new();
    let zeros =
        |shape: &[usize], dtype| cpu.constant(&TensorData::zeros(dtype, shape, 1 << 10).unwrap()).unwrap();
    let (x, none) = (zeros(&[3, 4], DataType::F32), zeros(&[0, 4], DataType::I64));
    assert_eq!(cpu.gather_elements(&x, &none, 0).unwrap().shape(), [0, 4]);
    assert_eq!(cpu.gather_nd(&x, &zeros(&[0, 1], DataType::I64), 0).unwrap().shape(), [0, 4]);
    let empty = zeros(&[0, 4], DataType::F32);
    let y = cpu.scatter_elements(&x, &none, &empty, ScatterElementsOptions::default()).unwrap();
    same(&cpu, &y, &x, "no updates");
    // No index is valid for a dimension without elements.
    let at = zeros(&[2, 4], DataType::I64);
    assert!(cpu.gather_elements(&empty, &at, 0).is_err());
    assert!(cpu.gather_nd(&empty, &zeros(&[1, 1], DataType::I64), 0).is_err());
}
