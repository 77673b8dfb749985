//! Tests that options which are left out have ONNX's defaults, on every backend. The results are computed by hand.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::ext::{
    AttentionOptions, AveragePoolOptions, ConvOptions, ConvTransposeOptions, DeformConvOptions,
    GridSampleOptions, Interpolation, LayerNormalizationOptions, MaxPoolOptions, RandomNormalOptions,
    RandomUniformOptions, RoiAlignOptions, RotateOptions, SamplePadding, ScatterElementsOptions,
    ScatterReduction, TopKOptions,
};
use bb::{BackendHandle, DataType, Value};
use bb_tests::backends;

fn each() -> impl Iterator<Item = BackendHandle> {
    backends::NAMES.into_iter().map(|name| BackendHandle::new(backends::start(name).unwrap()))
}

fn tensor(on: &BackendHandle, shape: &[usize], elements: &[f32]) -> Value {
    on.tensor(shape, elements).unwrap()
}

/// The tolerance is a few units in the last place of the expected numbers.
fn close(x: &Value, shape: &[usize], expected: &[f32]) {
    assert_eq!(x.shape(), shape);
    let got = x.to_host(1024).unwrap();
    let near =
        got.as_slice::<f32>().unwrap().iter().zip(expected).all(|(a, b)| (a - b).abs() <= 4e-7 * b.abs());
    assert!(near, "{got:?}, expected {expected:?}");
}

/// The operand, and filters that add the elements of a diagonal: `1 + 5` and `2 + 6`.
fn image_and_diagonal(on: &BackendHandle) -> (Value, Value) {
    let x = tensor(on, &[1, 1, 2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    (x, tensor(on, &[1, 1, 2, 2], &[1.0, 0.0, 0.0, 1.0]))
}

#[test]
fn windows_move_by_one_without_padding() {
    let written = ConvOptions { strides: &[1, 1], pads: &[0; 4], dilations: &[1, 1], group: 1 };
    for on in each() {
        let (x, w) = image_and_diagonal(&on);
        for options in [ConvOptions::default(), written] {
            close(&x.conv(&w, None, options).unwrap(), &[1, 1, 1, 2], &[6.0, 8.0]);
        }
        // Without an offset, a deformed convolution is a plain one.
        let ConvOptions { strides, pads, dilations, group } = written;
        let deformed = DeformConvOptions { strides, pads, dilations, group, offset_group: 1 };
        let offset = on.zeros(&[1, 8, 1, 2], DataType::F32).unwrap();
        for options in [DeformConvOptions::default(), deformed] {
            let y = x.deform_conv(&w, &offset, None, None, options).unwrap();
            close(&y, &[1, 1, 1, 2], &[6.0, 8.0]);
        }
    }
}

/// Each element of the operand adds its multiple of the filter: `[10, 1, 0] + 2 * [0, 10, 1]`.
#[test]
fn a_transposed_convolution_adds_neighbouring_windows() {
    let written = ConvTransposeOptions {
        strides: &[1, 1],
        pads: &[0; 4],
        dilations: &[1, 1],
        output_padding: &[0, 0],
        group: 1,
    };
    for on in each() {
        let (x, w) = (tensor(&on, &[1, 1, 1, 2], &[1.0, 2.0]), tensor(&on, &[1, 1, 1, 2], &[10.0, 1.0]));
        for options in [ConvTransposeOptions::default(), written] {
            close(&x.conv_transpose(&w, None, options).unwrap(), &[1, 1, 1, 3], &[10.0, 21.0, 2.0]);
        }
        // The filter at the distance 3, and one element more.
        let options =
            ConvTransposeOptions { strides: &[1, 3], output_padding: &[0, 1], ..Default::default() };
        let y = x.conv_transpose(&w, None, options).unwrap();
        close(&y, &[1, 1, 1, 6], &[10.0, 1.0, 0.0, 20.0, 2.0, 0.0]);
    }
}

#[test]
fn pools_take_every_whole_window() {
    let max = MaxPoolOptions { strides: &[1], pads: &[0, 0], dilations: &[1], ceil: false };
    let mean =
        AveragePoolOptions { strides: &[1], pads: &[0, 0], dilations: &[1], ceil: false, count_pad: false };
    for on in each() {
        let x = tensor(&on, &[1, 1, 4], &[1.0, 3.0, 2.0, 5.0]);
        for options in [MaxPoolOptions::default(), max] {
            close(&x.max_pool(&[2], options).unwrap(), &[1, 1, 3], &[3.0, 3.0, 5.0]);
        }
        for options in [AveragePoolOptions::default(), mean] {
            close(&x.average_pool(&[2], options).unwrap(), &[1, 1, 3], &[2.0, 2.5, 3.5]);
        }
        // Windows with an incomplete last one, and a mean over the padding.
        let options = MaxPoolOptions { strides: &[3], ..Default::default() };
        close(&x.max_pool(&[2], options).unwrap(), &[1, 1, 1], &[3.0]);
        close(&x.max_pool(&[2], MaxPoolOptions { ceil: true, ..options }).unwrap(), &[1, 1, 2], &[3.0, 5.0]);
        let options = AveragePoolOptions { pads: &[1, 0], ..Default::default() };
        close(&x.average_pool(&[2], options).unwrap(), &[1, 1, 4], &[1.0, 2.0, 2.5, 3.5]);
        let options = AveragePoolOptions { count_pad: true, ..options };
        close(&x.average_pool(&[2], options).unwrap(), &[1, 1, 4], &[0.5, 2.0, 2.5, 3.5]);
    }
}

/// A list has one number per spatial dimension of the operand, or is empty.
#[test]
fn lists_of_another_length_are_refused() {
    for on in each() {
        let (x, w) = image_and_diagonal(&on);
        let short = |strides, pads, dilations| ConvOptions { strides, pads, dilations, group: 1 };
        for options in [short(&[1], &[], &[]), short(&[], &[0, 0], &[]), short(&[], &[], &[1, 1, 1])] {
            let ConvOptions { strides, pads, dilations, group } = options;
            assert!(x.conv(&w, None, options).is_err(), "{options:?}");
            let options = ConvTransposeOptions { strides, pads, dilations, group, ..Default::default() };
            assert!(x.conv_transpose(&w, None, options).is_err(), "{options:?}");
            let options = MaxPoolOptions { strides, pads, dilations, ceil: false };
            assert!(x.max_pool(&[2, 2], options).is_err(), "{options:?}");
            let options = AveragePoolOptions { strides, pads, dilations, ..Default::default() };
            assert!(x.average_pool(&[2, 2], options).is_err(), "{options:?}");
        }
        let options = ConvTransposeOptions { output_padding: &[0], ..Default::default() };
        assert!(x.conv_transpose(&w, None, options).is_err());
        assert!(x.max_pool(&[], MaxPoolOptions::default()).is_err());
    }
}

/// The rows have the means 2 and 2 and the variances 1 and 4, plus an epsilon of 1e-5.
#[test]
fn rows_are_normalised_along_the_last_dimension() {
    assert_eq!(LayerNormalizationOptions::default(), LayerNormalizationOptions { axis: -1, epsilon: 1e-5 });
    for on in each() {
        let (x, one) = (tensor(&on, &[2, 2], &[1.0, 3.0, 0.0, 4.0]), tensor(&on, &[2], &[1.0, 1.0]));
        let y = x.layer_normalization(&one, None, LayerNormalizationOptions::default()).unwrap();
        close(&y, &[2, 2], &[-0.999_995, 0.999_995, -0.999_998_75, 0.999_998_75]);
    }
}

/// A quarter turn of the pairs `(1, 3)` and `(2, 4)`.
#[test]
fn the_halves_of_all_elements_are_rotated() {
    assert_eq!(RotateOptions::default(), RotateOptions { dim: None, interleaved: false });
    for on in each() {
        let x = tensor(&on, &[1, 4], &[1.0, 2.0, 3.0, 4.0]);
        let (cos, sin) = (tensor(&on, &[1, 2], &[0.0, 0.0]), tensor(&on, &[1, 2], &[1.0, 1.0]));
        let y = x.rotate(&cos, &sin, RotateOptions::default()).unwrap();
        close(&y, &[1, 4], &[-3.0, -4.0, 1.0, 2.0]);
    }
}

/// The products are `2 * ln 3` and 0. Divided by the root of 4, they give the weights 3/4 and 1/4.
#[test]
fn attention_divides_by_the_root_of_the_depth() {
    let written = AttentionOptions { scale: None, softcap: 0.0, precision: None, excludes: false };
    assert_eq!(AttentionOptions::default(), written);
    for on in each() {
        let q = tensor(&on, &[1, 1, 1, 4], &[2.0, 0.0, 0.0, 0.0]);
        let k = tensor(&on, &[1, 1, 2, 4], &[3f32.ln(), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        let v = tensor(&on, &[1, 1, 2, 1], &[4.0, 8.0]);
        close(&q.attention(&k, &v, None, AttentionOptions::default()).unwrap(), &[1, 1, 1, 1], &[5.0]);
    }
}

/// The centre is the mean of all four elements. At the outer corner, three of the four neighbours are zeros outside.
#[test]
fn grids_read_linearly_from_edge_to_edge_with_zeros_outside() {
    let written = GridSampleOptions {
        mode: Interpolation::Linear,
        padding: SamplePadding::Zeros,
        align_corners: false,
    };
    assert_eq!(GridSampleOptions::default(), written);
    for on in each() {
        let x = tensor(&on, &[1, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let grid = tensor(&on, &[1, 1, 2, 2], &[0.0, 0.0, -1.0, -1.0]);
        let y = x.grid_sample(&grid, GridSampleOptions::default()).unwrap();
        close(&y, &[1, 1, 1, 2], &[2.5, 0.25]);
    }
}

/// The region from 0.5 to 1.5 is that from 0 to 1 after the shift; its only sample is in the middle of the elements.
#[test]
fn a_region_is_one_bin_with_the_mean_of_its_samples() {
    let written = RoiAlignOptions { bins: &[1, 1], ratio: 0, scale: 1.0, shift: 0.5, max: false };
    assert_eq!(RoiAlignOptions::default(), written);
    for on in each() {
        let x = tensor(&on, &[1, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let (rois, images) = (tensor(&on, &[1, 4], &[0.5, 0.5, 1.5, 1.5]), on.tensor(&[1], &[0i64]).unwrap());
        let y = x.roi_align(&rois, &images, RoiAlignOptions::default()).unwrap();
        close(&y, &[1, 1, 1, 1], &[2.5]);
    }
}

#[test]
fn the_greatest_of_the_last_dimension_come_first() {
    assert_eq!(TopKOptions::default(), TopKOptions { axis: -1, largest: true, sorted: true });
    for on in each() {
        let x = tensor(&on, &[2, 3], &[1.0, 3.0, 2.0, 4.0, 0.0, 5.0]);
        let results = x.top_k(2, TopKOptions::default()).unwrap();
        let [values, positions] = results.as_slice() else { panic!("two results") };
        close(values, &[2, 2], &[3.0, 2.0, 5.0, 4.0]);
        assert_eq!(positions.to_host(1024).unwrap().as_slice::<i64>().unwrap(), [1, 2, 2, 0]);
    }
}

#[test]
fn updates_replace_elements_of_rows() {
    assert_eq!(
        ScatterElementsOptions::default(),
        ScatterElementsOptions { axis: 0, reduction: ScatterReduction::None }
    );
    for on in each() {
        let x = tensor(&on, &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let (at, updates) = (on.tensor(&[1, 2], &[1i64, 0]).unwrap(), tensor(&on, &[1, 2], &[10.0, 20.0]));
        let y = x.scatter_elements(&at, &updates, ScatterElementsOptions::default()).unwrap();
        close(&y, &[2, 2], &[1.0, 20.0, 10.0, 4.0]);
    }
}

/// Source: `numpy.random.RandomState(0)`, `rand(3)` and `randn(3)`.
#[test]
fn draws_are_standard_and_have_no_seed() {
    let uniform = RandomUniformOptions { low: 0.0, high: 1.0, seed: None, dtype: DataType::F32 };
    let normal = RandomNormalOptions { mean: 0.0, scale: 1.0, seed: None, dtype: DataType::F32 };
    assert_eq!((RandomUniformOptions::default(), RandomNormalOptions::default()), (uniform, normal));
    for on in each() {
        let options = RandomUniformOptions { seed: Some(0), ..Default::default() };
        close(&on.random_uniform(&[3], options).unwrap(), &[3], &[0.548_813_5, 0.715_189_4, 0.602_763_4]);
        let options = RandomNormalOptions { seed: Some(0), ..Default::default() };
        close(&on.random_normal(&[3], options).unwrap(), &[3], &[1.764_052_3, 0.400_157_2, 0.978_738]);
    }
}
