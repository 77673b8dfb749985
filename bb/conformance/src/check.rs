//! Assertions that report the first difference.

use super::host::{Value, elements, host_numbers, numbers_of};
use super::show::{element, shown};
use super::subject::Subject;
use bb_core::ext::{ErasedError, ErasedTensor};
use bb_core::{DataType, TensorData};
use bb_ir::op::Primitive;
use bb_ir::text::has_word;
use std::fmt::{Debug, Display};

/// Copies a result to the host, and checks that the tensor and its copy have the same type and shape.
#[track_caller]
fn fetched(on: &Subject<'_>, result: Result<ErasedTensor, ErasedError>) -> TensorData {
    let tensor = on.made(result);
    checked(on, &tensor, &on.last())
}

/// Copies the result of a call to the host, and checks that the tensor and its copy have the same type and shape.
#[track_caller]
pub(super) fn checked(on: &Subject<'_>, tensor: &ErasedTensor, call: &str) -> TensorData {
    let (dtype, shape) = (bb_core::Tensor::dtype(tensor), bb_core::Tensor::shape(tensor));
    let host = on.fetch_result(tensor, call);
    if (dtype, shape) == (host.dtype(), host.shape()) {
        return host;
    }
    let problem = match shape.iter().product::<usize>() == host.len() {
        true => "the result claims another type or shape than `to_host` returns".to_owned(),
        false => wrong_count(host.len(), shape),
    };
    panic!("{call}: {problem}\n  claims   {dtype}{shape:?}\n  returns  {}", shown(&host))
}

/// Describes a result whose number of elements does not match its shape.
pub(super) fn wrong_count(has: usize, claims: &[usize]) -> String {
    let elements = if has == 1 { "element" } else { "elements" };
    format!("the result has {has} {elements}, but claims {claims:?} ({})", claims.iter().product::<usize>())
}

/// Compares numbers. Two NaNs are equal. A relative tolerance implies ONNX's absolute tolerance of 1e-7.
fn same(a: f64, b: f64, tolerance: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (tolerance > 0.0 && (a - b).abs() <= tolerance * b.abs() + 1e-7)
}

#[track_caller]
fn compare(on: &Subject<'_>, got: &TensorData, want: &TensorData, tolerance: f64) {
    let other = if (got.dtype(), got.shape()) != (want.dtype(), want.shape()) {
        Some("another type or shape".to_owned())
    } else if !got.dtype().is_compute() || got.dtype().is_integer() {
        let (g, w) = (elements(got), elements(want));
        let at = g.iter().zip(&w).position(|(g, w)| g != w);
        at.map(|at| format!("element {at} is {}, expected {}", element(got, at), element(want, at)))
    } else {
        let mut all = numbers_of(got).into_iter().zip(numbers_of(want)).enumerate();
        let other = all.find(|(_, (g, w))| !same(*g, *w, tolerance));
        other.map(|(at, _)| format!("element {at} is {}, expected {}", element(got, at), element(want, at)))
    };
    if let Some(other) = other {
        differs(on, &other, got, want)
    }
}

/// Panics with the last call, its result and the expected result.
#[track_caller]
fn differs(on: &Subject<'_>, other: &str, got: &TensorData, want: &TensorData) -> ! {
    panic!("{}: {other}\n  got      {}\n  expected {}", on.last(), shown(got), shown(want))
}

/// Returns the relative tolerance for functions and sums; see [`assert_near`].
fn nearness(dtype: DataType) -> f64 {
    match dtype {
        DataType::F16 => 2.0 * f64::powi(2.0, -10),
        DataType::BF16 => 2.0 * f64::powi(2.0, -7),
        DataType::F32 => 16.0 * f64::from(f32::EPSILON),
        DataType::F64 => 16.0 * f64::EPSILON,
        _ => 0.0,
    }
}

/// Describes the difference between two host tensors, compared as in [`assert_near`]; `None` if they are equal.
pub fn difference(got: &TensorData, want: &TensorData) -> Option<String> {
    if (got.dtype(), got.shape()) != (want.dtype(), want.shape()) {
        return Some(format!("got {}, expected {}", shown(got), shown(want)));
    }
    if got.dtype().is_float() {
        let (dtype, all) = (got.dtype(), numbers_of(got).into_iter().zip(numbers_of(want)).enumerate());
        let other = all.into_iter().find(|(_, (g, w))| !same(*g, *w, nearness(dtype)));
        return other.map(|(i, (g, w))| format!("element {i} of {} is {g}, expected {w}", shown(got)));
    }
    let (g, w) = (elements(got), elements(want));
    let other = g.iter().zip(&w).position(|(g, w)| g != w)?;
    let (is, expected) = (element(got, other), element(want, other));
    Some(format!("element {other} of {} is {is}, expected {expected}", shown(got)))
}

/// Checks that a result has this shape and exactly these values. The Rust type of the values determines the element
/// type. Two NaNs are equal, and so are zeros of different sign.
///
/// # Panics
///
/// If the result is an error or differs.
#[track_caller]
pub fn assert_tensor<T: Value>(
    on: &Subject<'_>,
    result: Result<ErasedTensor, ErasedError>,
    shape: impl AsRef<[usize]>,
    values: impl AsRef<[T]>,
) {
    compare(on, &fetched(on, result), &T::host(shape.as_ref(), values.as_ref()), 0.0);
}

/// Checks that a result has this element type, this shape and exactly these numbers.
///
/// # Panics
///
/// If the result is an error or differs.
#[track_caller]
pub fn assert_numbers(
    on: &Subject<'_>,
    result: Result<ErasedTensor, ErasedError>,
    dtype: DataType,
    shape: impl AsRef<[usize]>,
    values: impl AsRef<[f64]>,
) {
    compare(on, &fetched(on, result), &host_numbers(dtype, shape.as_ref(), values.as_ref()), 0.0);
}

/// Checks that a result has this element type, this shape and nearly these numbers. The tolerance for `f32` and `f64`
/// is 16 units in the last place, because the functions of different systems differ by a few units. For `f16` and
/// `bf16`, which are computed in a wider type, it is 2 units. Integers must be exact.
///
/// # Panics
///
/// If the result is an error or differs.
#[track_caller]
pub fn assert_near(
    on: &Subject<'_>,
    result: Result<ErasedTensor, ErasedError>,
    dtype: DataType,
    shape: impl AsRef<[usize]>,
    values: impl AsRef<[f64]>,
) {
    compare(on, &fetched(on, result), &host_numbers(dtype, shape.as_ref(), values.as_ref()), nearness(dtype));
}

/// Checks that a result equals the host tensor bit by bit.
///
/// # Panics
///
/// If the result is an error or differs.
#[track_caller]
pub fn assert_same(on: &Subject<'_>, result: Result<ErasedTensor, ErasedError>, want: &TensorData) {
    let got = fetched(on, result);
    let other = if (got.dtype(), got.shape()) != (want.dtype(), want.shape()) {
        "another type or shape".to_owned()
    } else {
        let (g, w) = (elements(&got), elements(want));
        let Some(at) = g.iter().zip(&w).position(|(g, w)| g != w) else { return };
        let (is, expected) = (element(&got, at), element(want, at));
        // Elements that print alike may differ in the sign of a zero, or in the bits of a NaN.
        let bits =
            |all: &[Vec<u8>]| all.get(at).map(|bytes| format!(" (bytes {bytes:?})")).unwrap_or_default();
        let (of_g, of_w) = if is == expected { (bits(&g), bits(&w)) } else { Default::default() };
        format!("element {at} is {is}{of_g}, expected {expected}{of_w}")
    };
    differs(on, &other, &got, want)
}

/// Checks that a call was refused because of an element type. The error and its causes must name the operation (for
/// example `reduce_sum` or `ReduceSum`) and one of the element types.
///
/// # Panics
///
/// If the call succeeded, or the error does not name both.
#[track_caller]
pub fn assert_unsupported<T, E: std::error::Error + 'static>(
    result: Result<T, E>,
    op: Primitive,
    types: &[DataType],
) {
    let succeeded = || format!("`{}` succeeded on {}:", op.spec().method, one_of(types));
    refused_type(result, op, None, types, succeeded);
}

/// Checks a refusal as [`assert_unsupported`] does. `to` is the target type of a cast. `succeeded` returns the start of
/// the message for a call that was not refused; advice is appended to it.
#[track_caller]
pub(super) fn refused_type<T, E: std::error::Error + 'static>(
    result: Result<T, E>,
    op: Primitive,
    to: Option<DataType>,
    types: &[DataType],
    succeeded: impl FnOnce() -> String,
) {
    let (method, wanted) = (op.spec().method, one_of(types));
    let Err(error) = result else {
        panic!("{} return an error that names `{method}` and {wanted}", succeeded())
    };
    let text = bb_core::error::causes(&error);
    let names = |op: &Primitive| has_word(&text, op.spec().name) || quoted(&text, op.spec().method);
    let operation = has_word(&text, method) || has_word(&text, op.spec().name);
    let dtype = types.iter().any(|dtype| has_word(&text, dtype.name()));
    if operation && dtype {
        return;
    }
    let call = to.map_or_else(|| format!("`{method}`"), |to| format!("`{method}` to {to}"));
    let other_op = Primitive::ALL.iter().find(|other| names(other)).map(|other| other.spec().method);
    let other_type = DataType::ALL.iter().find(|other| has_word(&text, other.name()));
    let first = to.map_or("the element types", |_| "`to`");
    let problem = match (operation, other_op, dtype, other_type) {
        (false, Some(other), ..) => {
            format!("names `{other}`: check {first} first, and name `{method}` and {wanted}")
        }
        (false, None, false, _) => {
            format!("names neither operation nor element type: name `{method}` and {wanted}")
        }
        (false, None, true, _) => format!("names no operation: name `{method}` and {wanted}"),
        (true, _, _, Some(other)) => format!("names the element type {other}: name {wanted}"),
        (true, _, _, None) => format!("names no element type: name {wanted}"),
    };
    panic!("the error of {call} {problem}\n  got: {text}")
}

/// Returns whether a string contains the name of a method in backticks.
fn quoted(text: &str, method: &str) -> bool {
    text.contains(&format!("`{method}`"))
}

/// Lists element types, as in `i32 or u8`.
pub(super) fn one_of(types: &[DataType]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for dtype in types {
        if !names.contains(&dtype.name()) {
            names.push(dtype.name());
        }
    }
    match names.as_slice() {
        [] => "the element type".to_owned(),
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        only => only.concat(),
    }
}

/// Checks that the last call was refused with an error that has a message. `why` describes the fault of the call.
///
/// # Panics
///
/// If the call succeeded, the message is empty, or the error reports a broken promise or a panic of the backend.
#[track_caller]
pub(super) fn refused<T>(on: &Subject<'_>, result: Result<T, ErasedError>, why: impl Display) {
    let error = match result {
        Ok(_) => panic!("{} succeeded; {why} and must be an error", on.last()),
        Err(error) => error,
    };
    assert!(!error.to_string().is_empty(), "the error of {} has no message", on.last());
    let fault = on.cause(&error, |error| {
        matches!(error, bb_core::Error::BrokenPromise(_) | bb_core::Error::Panicked { .. })
    });
    if let Some(fault) = fault {
        panic!("{}: {why} and must be a clean error\n  got: {fault}", on.last());
    }
}

/// Checks that a call was refused with an error that has a message.
///
/// For errors about element types, [`assert_unsupported`] requires more.
///
/// # Panics
///
/// If the call succeeded, or the message is empty.
#[track_caller]
pub fn assert_refused<T, E: std::error::Error>(result: Result<T, E>, call: impl Debug) {
    match result {
        Ok(_) => panic!("{call:?} succeeded, and must be an error"),
        Err(error) => assert!(!error.to_string().is_empty(), "the error of {call:?} has no message"),
    }
}
