//! Comparisons that say what differs.

use super::host::{Value, elements, host_numbers, numbers_of};
use super::subject::Subject;
use crate::{Backend, DataType, TensorData};
use std::fmt::Debug;

/// Takes a result to the host, and checks that tensor and host tensor agree on type and extents.
#[track_caller]
fn fetched<B: Backend>(on: &Subject<'_, B>, result: Result<B::Tensor, B::Error>) -> TensorData {
    let tensor = match result {
        Ok(tensor) => tensor,
        Err(error) => panic!("the operation failed: {error}"),
    };
    let host = on.fetch(&tensor);
    let claimed = (crate::Tensor::dtype(&tensor), crate::Tensor::shape(&tensor));
    assert_eq!(
        claimed,
        (host.dtype(), host.shape()),
        "the tensor claims another type or shape than `to_host` gives"
    );
    host
}

/// Compares numbers; two NaN are the same. Beside a relative tolerance, ONNX allows 1e-7.
fn same(a: f64, b: f64, tolerance: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (tolerance > 0.0 && (a - b).abs() <= tolerance * b.abs() + 1e-7)
}

#[track_caller]
fn compare(got: &TensorData, want: &TensorData, tolerance: f64) {
    assert_eq!((got.dtype(), got.shape()), (want.dtype(), want.shape()), "got {got:?}, expected {want:?}");
    if !got.dtype().is_compute() || got.dtype().is_integer() {
        for (i, (g, w)) in elements(got).iter().zip(elements(want)).enumerate() {
            assert_eq!(*g, w, "element {i} of {got:?}: bytes {g:?}, expected {w:?}");
        }
        return;
    }
    for (i, (g, w)) in numbers_of(got).into_iter().zip(numbers_of(want)).enumerate() {
        assert!(same(g, w, tolerance), "element {i} of {got:?} is {g}, expected {w}");
    }
}

/// The relative tolerance of functions and sums: see [`assert_near`].
fn nearness(dtype: DataType) -> f64 {
    match dtype {
        DataType::F16 => 2.0 * f64::powi(2.0, -10),
        DataType::BF16 => 2.0 * f64::powi(2.0, -7),
        DataType::F32 => 16.0 * f64::from(f32::EPSILON),
        DataType::F64 => 16.0 * f64::EPSILON,
        _ => 0.0,
    }
}

/// Says what differs between two host tensors, as [`assert_near`] compares; `None` if nothing does.
pub fn difference(got: &TensorData, want: &TensorData) -> Option<String> {
    if (got.dtype(), got.shape()) != (want.dtype(), want.shape()) {
        return Some(format!("got {got:?}, expected {want:?}"));
    }
    if got.dtype().is_float() {
        let (dtype, all) = (got.dtype(), numbers_of(got).into_iter().zip(numbers_of(want)).enumerate());
        let other = all.into_iter().find(|(_, (g, w))| !same(*g, *w, nearness(dtype)));
        return other.map(|(i, (g, w))| format!("element {i} of {got:?} is {g}, expected {w}"));
    }
    let (g, w) = (elements(got), elements(want));
    let other = g.iter().zip(&w).position(|(g, w)| g != w)?;
    Some(format!("element {other} of {got:?} has bytes {:?}, expected {:?}", g.get(other), w.get(other)))
}

/// Checks that a result has the shape and exactly the values; their Rust type says the element type. NaN is
/// NaN, and the zeros are the same.
///
/// # Panics
///
/// If it failed or differs.
#[track_caller]
pub fn assert_tensor<B: Backend, T: Value>(
    on: &Subject<'_, B>,
    result: Result<B::Tensor, B::Error>,
    shape: impl AsRef<[usize]>,
    values: impl AsRef<[T]>,
) {
    compare(&fetched(on, result), &T::host(shape.as_ref(), values.as_ref()), 0.0);
}

/// Checks that a result is of the element type and the shape, and has exactly the numbers.
///
/// # Panics
///
/// If it failed or differs.
#[track_caller]
pub fn assert_numbers<B: Backend>(
    on: &Subject<'_, B>,
    result: Result<B::Tensor, B::Error>,
    dtype: DataType,
    shape: impl AsRef<[usize]>,
    values: impl AsRef<[f64]>,
) {
    compare(&fetched(on, result), &host_numbers(dtype, shape.as_ref(), values.as_ref()), 0.0);
}

/// Checks that a result is of the element type and the shape, and has the numbers as nearly as the type
/// allows: within 16 units in the last place for `f32` and `f64`, whose functions differ among systems by a
/// few, and within 2 for `f16` and `bf16`, which are computed in a wider type. Integers are exact.
///
/// # Panics
///
/// If it failed or differs.
#[track_caller]
pub fn assert_near<B: Backend>(
    on: &Subject<'_, B>,
    result: Result<B::Tensor, B::Error>,
    dtype: DataType,
    shape: impl AsRef<[usize]>,
    values: impl AsRef<[f64]>,
) {
    compare(&fetched(on, result), &host_numbers(dtype, shape.as_ref(), values.as_ref()), nearness(dtype));
}

/// Checks that a result is the host tensor, bit by bit.
///
/// # Panics
///
/// If it failed or differs.
#[track_caller]
pub fn assert_same<B: Backend>(on: &Subject<'_, B>, result: Result<B::Tensor, B::Error>, want: &TensorData) {
    let got = fetched(on, result);
    assert_eq!((got.dtype(), got.shape()), (want.dtype(), want.shape()), "got {got:?}, expected {want:?}");
    for (i, (g, w)) in elements(&got).iter().zip(elements(want)).enumerate() {
        assert_eq!(*g, w, "element {i} of {got:?}: bytes {g:?}, expected {w:?}");
    }
}

/// Checks that a call was refused with an error that says something.
///
/// # Panics
///
/// If it succeeded, or the error's text is empty.
#[track_caller]
pub fn assert_refused<T, E: std::error::Error>(result: Result<T, E>, what: impl Debug) {
    match result {
        Ok(_) => panic!("{what:?} was not refused"),
        Err(error) => assert!(!error.to_string().is_empty(), "the error of {what:?} says nothing"),
    }
}
