//! The complete backend that the guide shows, as a newcomer builds it with only the guide.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test; the backend's positions come from `infer`"
)]

#[expect(unreachable_pub, reason = "the file is a crate of its own in the guide")]
mod kernels;

use bb::ext::{ConvOptions, Nn};
use bb::{Backend, DataType, TensorData};
use kernels::Newcomer;

// Every 17th case. This includes no network of `light/`, because the kernels are not optimised. `.ci/nightly` runs all cases.
bb::conformance!(Newcomer, cases = 17);

/// The kernel takes windows of one place. For all others it calls the default body, which computes with `i64`, a type that the
/// backend lacks.
#[test]
fn a_native_convolution_falls_back_to_its_default_body() {
    let on = Newcomer;
    let x: Vec<f32> = (0..16u8).map(f32::from).collect();
    let x = on.constant(&TensorData::new(&[1, 1, 4, 4], &x).unwrap()).unwrap();
    let ones = on.constant(&TensorData::new(&[1, 1, 3, 3], &[1f32; 9]).unwrap()).unwrap();
    let y = on.conv(&x, &ones, None, ConvOptions::default()).unwrap();
    // The sums of the four windows of 3 x 3 in 0..16.
    let expected = [45.0, 54.0, 81.0, 90.0];
    assert_eq!(on.to_host(&y).unwrap().as_slice::<f32>().unwrap(), expected);
    let two = on.constant(&TensorData::new(&[2, 1, 1, 1], &[2f32, 3.0]).unwrap()).unwrap();
    let y = on.conv(&x, &two, None, ConvOptions::default()).unwrap();
    assert_eq!(on.to_host(&y).unwrap().as_slice::<f32>().unwrap()[15..17], [30.0, 0.0]);
    // The same through the registry, where the user sees every type.
    let on = bb::backend("newcomer").unwrap();
    let x = on.tensor(&[1, 1, 3], &[1f32, 2.0, 3.0]).unwrap();
    let w = on.tensor(&[1, 1, 2], &[1f32, 10.0]).unwrap();
    let y = on.conv(&x, &w, None, ConvOptions { pads: &[1, 0], ..ConvOptions::default() }).unwrap();
    assert_eq!(y.to_host(64).unwrap().as_slice::<f32>().unwrap(), [10.0, 21.0, 32.0]);
    assert_eq!(on.arg_max(&x, 2, false).unwrap().dtype(), DataType::I64);
}
