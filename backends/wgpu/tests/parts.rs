//! Tests that work is computed in parts if a device can only bind small buffers.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::conformance::difference;
use bb::ext::{AveragePoolOptions, ConvOptions, LayerNormalizationOptions, Llm, MaxPoolOptions, Nn, Scalar};
use bb::{Backend, DataType, RoundMode, TensorData};
use bb_reference::Reference;
use bb_wgpu::{Wgpu, WgpuBuilder, WgpuError};

/// Opens a device with bindings of at most 16 KiB: 4096 elements, less what alignment takes.
fn small() -> Wgpu {
    WgpuBuilder::default().binding(16 << 10).open().unwrap()
}

fn data(shape: &[usize]) -> TensorData {
    let n = shape.iter().product();
    let values: Vec<f32> = (0..n).map(|i: usize| ((i * 7919) % 101) as f32 / 16.0 - 3.0).collect();
    TensorData::new(shape, &values).unwrap()
}

/// Compares a function on the small device with the reference backend.
fn same(
    name: &str,
    inputs: &[TensorData],
    f: impl Fn(&Wgpu, &[bb_wgpu::Tensor]) -> bb_wgpu::Result<bb_wgpu::Tensor>,
    g: impl Fn(&Reference, &[bb_reference::Tensor]) -> Result<bb_reference::Tensor, bb_reference::Error>,
) {
    let (on, plain) = (small(), Reference);
    let a: Vec<_> = inputs.iter().map(|x| on.constant(x).unwrap()).collect();
    let b: Vec<_> = inputs.iter().map(|x| plain.constant(x).unwrap()).collect();
    let got = on.to_host(&f(&on, &a).unwrap_or_else(|error| panic!("{name}: {error}"))).unwrap();
    let want = plain.to_host(&g(&plain, &b).unwrap()).unwrap();
    let (g, w) = (got.as_slice::<f32>().unwrap(), want.as_slice::<f32>().unwrap());
    assert_eq!(got.shape(), want.shape(), "{name}");
    for (i, (g, w)) in g.iter().zip(w).enumerate() {
        assert!((g - w).abs() <= 1e-4 + 1e-4 * w.abs(), "{name}: element {i} is {g}, expected {w}");
    }
}

#[test]
fn elementwise_operations() {
    let x = [data(&[30, 40, 20]), data(&[40, 1])];
    same("add", &x, |on, x| on.add(&x[0], &x[1]), |on, x| on.add(&x[0], &x[1]));
    same("exp", &x, |on, x| on.exp(&x[0]), |on, x| on.exp(&x[0]));
    let turned = |on: &Wgpu, x: &[bb_wgpu::Tensor]| {
        on.add(&on.transpose(&x[0], &[2, 0, 1])?, &on.transpose(&x[0], &[2, 0, 1])?)
    };
    same("transpose", &x, turned, |on, x| {
        let turned = on.transpose(&x[0], &[2, 0, 1])?;
        on.add(&turned, &turned)
    });
    same("concat", &x, |on, x| on.concat(&[&x[0], &x[0]], 1), |on, x| on.concat(&[&x[0], &x[0]], 1));
    let back = |on: &Wgpu, x: &[bb_wgpu::Tensor]| {
        let y = on.slice(&x[0], &[-1], &[i64::MIN], &[0], &[-1])?;
        on.neg(&y)
    };
    same("slice", &x, back, |on, x| on.neg(&on.slice(&x[0], &[-1], &[i64::MIN], &[0], &[-1])?));
}

#[test]
fn reductions() {
    let x = [data(&[30, 40, 20])];
    for axes in [&[2i64][..], &[1], &[1, 2]] {
        same("sum", &x, |on, x| on.reduce_sum(&x[0], axes, true), |on, x| on.reduce_sum(&x[0], axes, true));
    }
    // Neighbouring results depend on elements that are far apart, so no part is small enough.
    let on = small();
    let wide = on.constant(&data(&[300, 40])).unwrap();
    let error = on.reduce_sum(&wide, &[0], false).unwrap_err();
    assert!(matches!(error, WgpuError::Binding { op: "reduce_sum", limit: 16384, .. }), "{error}");
}

#[test]
fn products() {
    let x = [data(&[3, 70, 50]), data(&[50, 200])];
    same("matmul", &x, |on, x| on.matmul(&x[0], &x[1]), |on, x| on.matmul(&x[0], &x[1]));
    let x = [data(&[500, 20]), data(&[20, 30])];
    same("matmul", &x, |on, x| on.matmul(&x[0], &x[1]), |on, x| on.matmul(&x[0], &x[1]));
}

#[test]
fn gathers() {
    let x = [data(&[600, 20])];
    let indices: Vec<i32> = (0..900).map(|i| (i * 37) % 1200 - 600).collect();
    let indices = TensorData::new(&[900], &indices).unwrap();
    same(
        "gather",
        &x,
        |on, x| on.gather(&x[0], &on.constant(&indices)?, 0),
        |on, x| on.gather(&x[0], &on.constant(&indices)?, 0),
    );
}

#[test]
fn rows_and_windows() {
    let x = [data(&[100, 60]), data(&[60]), data(&[60])];
    let softmax = |on: &Wgpu, x: &[bb_wgpu::Tensor]| on.softmax(&x[0], 1);
    // The bodies of operations do not use this backend's kernels, so compare with them.
    let reference = Reference;
    same("softmax", &x, softmax, |_, x| extended_of(&reference).softmax(&x[0], 1));
    let options = LayerNormalizationOptions::default();
    same(
        "layer_normalization",
        &x,
        |on, x| on.layer_normalization(&x[0], &x[1], Some(&x[2]), options),
        |_, x| extended_of(&reference).layer_normalization(&x[0], &x[1], Some(&x[2]), options),
    );
    same(
        "rms_normalization",
        &x,
        |on, x| on.rms_normalization(&x[0], &x[1], -1, 1e-5),
        |_, x| extended_of(&reference).rms_normalization(&x[0], &x[1], -1, 1e-5),
    );
    for (filters, group) in [(12, 1), (6, 2), (4, 4)] {
        let x = [data(&[6, 4, 14, 15]), data(&[filters, 4 / group, 3, 2]), data(&[filters])];
        let options =
            ConvOptions { strides: &[2, 1], pads: &[1, 0, 2, 1], dilations: &[1, 2], group: group as i64 };
        same(
            "conv",
            &x,
            |on, x| on.conv(&x[0], &x[1], Some(&x[2]), options),
            |_, x| extended_of(&reference).conv(&x[0], &x[1], Some(&x[2]), options),
        );
    }
    let x = [data(&[6, 4, 14, 15])];
    let options = MaxPoolOptions { strides: &[2, 2], pads: &[1, 1, 1, 1], ..Default::default() };
    same(
        "max_pool",
        &x,
        |on, x| on.max_pool(&x[0], &[3, 3], options),
        |_, x| extended_of(&reference).max_pool(&x[0], &[3, 3], options),
    );
    let options = AveragePoolOptions { strides: &[2, 2], pads: &[1, 1, 1, 1], ..Default::default() };
    same(
        "average_pool",
        &x,
        |on, x| on.average_pool(&x[0], &[3, 3], options),
        |_, x| extended_of(&reference).average_pool(&x[0], &[3, 3], options),
    );
}

fn extended_of(on: &Reference) -> bb::ext::Extended<'_, Reference> {
    bb::ext::Extended::new(on, &[])
}

#[test]
fn random_calls_give_what_the_reference_gives() {
    let (on, plain) = (Wgpu::first().unwrap(), Reference);
    let mut compared = 0;
    for seed in 0..400 {
        let case = bb::conformance::Random::new(seed).case();
        if let (Ok(got), Ok(want)) = (case.run(&on), case.run(&plain)) {
            for (got, want) in got.iter().zip(&want) {
                let (got, want) = (on.to_host(got).unwrap(), plain.to_host(want).unwrap());
                assert_eq!(difference(&got, &want), None, "seed {seed}: {case:?}");
            }
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared}");
}

/// A bias, a product and a function run as one kernel, whose result equals the definition.
#[test]
fn a_program_is_one_kernel() {
    use bb::ext::scalar::Function;
    let on = Wgpu::first().unwrap();
    let x = on.constant(&data(&[40, 50])).unwrap();
    let bias = on.constant(&data(&[50])).unwrap();
    let scale = on.constant(&TensorData::scalar(0.5f32)).unwrap();
    let before = on.stream().kernels;
    // `relu((x + bias) * scale)`. In the program, 0 to 2 are the tensors, and 3 to 5 are the lines.
    let program = [Function::Add as i64, 0, 1, Function::Mul as i64, 3, 2, Function::Relu as i64, 4];
    let y = on.fused(&[&x, &bias, &scale], &program).unwrap();
    assert_eq!(on.stream().kernels - before, 1);
    let (x, bias, y) = (data(&[40, 50]), data(&[50]), on.to_host(&y).unwrap());
    let (x, bias, y) =
        (x.as_slice::<f32>().unwrap(), bias.as_slice::<f32>().unwrap(), y.as_slice::<f32>().unwrap());
    for (i, (x, y)) in x.iter().zip(y).enumerate() {
        assert_eq!(*y, ((x + bias[i % 50]) * 0.5).max(0.0), "element {i}");
    }
}

#[test]
fn an_integer_to_a_float_power_has_all_digits() {
    let on = Wgpu::first().unwrap();
    let base = on.constant(&TensorData::new(&[2], &[46_340i32, -3]).unwrap()).unwrap();
    let power = on.constant(&TensorData::new(&[2], &[2f32, 3.0]).unwrap()).unwrap();
    let y = on.to_host(&on.pow(&base, &power).unwrap()).unwrap();
    assert_eq!(y.as_slice::<i32>().unwrap(), [2_147_395_600, -27]);
    let wide = on.cast(&base, DataType::F64, true, RoundMode::Up);
    assert!(wide.is_err_and(|error| error.to_string().contains("f64")));
}
