//! Tests that sampling between elements agrees with the operation's body.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ext::{GridSampleOptions, Image, Interpolation, SamplePadding};
use bb::{Backend, Tensor, TensorData};
use bb_cpu::{Array, Cpu};

fn numbers(cpu: &Cpu, shape: &[usize], f: impl Fn(usize) -> f32) -> Array {
    let list: Vec<f32> = (0..shape.iter().product()).map(f).collect();
    cpu.constant(&TensorData::new(shape, &list).unwrap()).unwrap()
}

/// Returns coordinates in the plane, at its borders and corners, outside it, and far away.
fn position(i: usize) -> f32 {
    match i % 11 {
        0 => [-1.0, 1.0, 0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e30][i / 11 % 8],
        1 => [1.25, -1.25, 2.0, -3.0, 7.5][i / 11 % 5],
        _ => ((i * 7919 + 13) % 2003) as f32 / 900.0 - 1.1,
    }
}

fn each_option(mut f: impl FnMut(GridSampleOptions)) {
    for mode in [Interpolation::Nearest, Interpolation::Linear] {
        for &padding in SamplePadding::ALL {
            for align_corners in [false, true] {
                f(GridSampleOptions { mode, padding, align_corners });
            }
        }
    }
}

#[test]
fn values_between_elements_are_those_of_the_body() {
    let cpu = Cpu::new();
    let cases: [(&[usize], &[usize]); 9] = [
        (&[1, 2, 5, 4], &[1, 3, 7, 2]),
        (&[2, 3, 6, 9], &[2, 40, 11, 2]),
        (&[1, 1, 1, 1], &[1, 9, 9, 2]),
        (&[2, 2, 1, 7], &[2, 1, 150, 2]),
        (&[2, 1, 8], &[2, 130, 1]),
        (&[1, 2, 3, 4, 5], &[1, 4, 5, 6, 3]),
        (&[3, 4, 8, 8], &[3, 16, 16, 2]),
        (&[1, 2, 3, 2], &[1, 5, 13, 2]),
        (&[2, 1, 4, 3, 1], &[2, 2, 3, 40, 3]),
    ];
    for (shape, at) in cases {
        let x = numbers(&cpu, shape, |i| ((i * 31 + 7) % 17) as f32 - 8.0);
        let grid = numbers(&cpu, at, position);
        each_option(|options| {
            let got = cpu.to_host(&cpu.grid_sample(&x, &grid, options).unwrap()).unwrap();
            let want = bb::ext::Extended::declining(&cpu).grid_sample(&x, &grid, options).unwrap();
            let want = cpu.to_host(&want).unwrap();
            assert_eq!(got.shape(), want.shape());
            let pairs = got.as_slice::<f32>().unwrap().iter().zip(want.as_slice::<f32>().unwrap());
            for (i, (got, want)) in pairs.enumerate() {
                let near = (got - want).abs() <= 1e-5 || got == want || got.is_nan() && want.is_nan();
                assert!(near, "{options:?} {shape:?} {i}: {got} {want}");
            }
        });
    }
}

#[test]
fn what_lies_outside_counts_nothing_though_elements_are_infinite() {
    let cpu = Cpu::new();
    let x = numbers(&cpu, &[1, 1, 2, 2], |_| f32::INFINITY);
    let grid = numbers(&cpu, &[1, 1, 2, 2], |i| [5.0, 5.0, 0.0, 0.0][i]);
    each_option(|options| {
        let y = cpu.to_host(&cpu.grid_sample(&x, &grid, options).unwrap()).unwrap();
        let outside = if options.padding == SamplePadding::Zeros { 0.0 } else { f32::INFINITY };
        let got = y.as_slice::<f32>().unwrap().first().copied().unwrap();
        // Between equal infinite elements, a weight of 0 gives NaN.
        assert!(got == outside || outside > 0.0 && got.is_nan(), "{options:?}: {got}");
    });
}

#[test]
fn operands_with_strides_and_without_elements() {
    let cpu = Cpu::new();
    let x = numbers(&cpu, &[2, 3, 4, 5], |i| i as f32);
    let grid = numbers(&cpu, &[2, 6, 7, 2], position);
    let turned = |x: &Array| cpu.transpose(x, &[0, 1, 3, 2]).unwrap();
    let dense = |x: &Array| {
        let none = cpu.slice(x, &[0], &[0], &[0], &[]).unwrap();
        cpu.concat(&[x, &none], 0).unwrap()
    };
    let options = GridSampleOptions::default();
    let [a, b] = [turned(&x), dense(&turned(&x))]
        .map(|x| cpu.to_host(&cpu.grid_sample(&x, &grid, options).unwrap()).unwrap());
    let numbers =
        |y: &TensorData| -> Vec<u32> { y.as_slice::<f32>().unwrap().iter().map(|x| x.to_bits()).collect() };
    assert_eq!(numbers(&a), numbers(&b));
    let none = cpu.slice(&grid, &[0], &[0], &[1], &[]).unwrap();
    assert_eq!(cpu.grid_sample(&x, &none, options).unwrap().shape(), [2, 3, 0, 7]);
    let flat = cpu.slice(&x, &[0], &[0], &[2], &[]).unwrap();
    assert!(cpu.grid_sample(&flat, &grid, options).is_err());
    assert!(cpu.grid_sample(&x, &cpu.slice(&grid, &[0], &[1], &[0], &[]).unwrap(), options).is_err());
}
