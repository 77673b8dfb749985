//! Tests with special operands: scalars, tensors without elements, views, tensors shared between threads, and
//! tensors of erased type.

use crate::show::shown;
use crate::valid_call::valid_call;
use crate::{Call, Subject, elements, rearranged, sample};
use bb_core::ext::ErasedTensor;
use bb_core::{DataType, SlotValue, TensorData};
use bb_ir::op::Primitive;
use std::sync::Arc;

/// Tests that every primitive that accepts scalars returns a scalar, on every element type.
///
/// # Panics
///
/// If the test fails.
pub fn rank_zero(on: &Subject<'_>) {
    everywhere(on, &[&[]]);
}

/// Tests that every primitive accepts tensors without elements and returns the right shape.
///
/// # Panics
///
/// Tests that every primitive accepts tensors without elements and returns the correct shape.
pub fn zero_extents(on: &Subject<'_>) {
    everywhere(on, &[&[0], &[2, 0], &[0, 3], &[2, 0, 3], &[0, 0]]);
}

fn everywhere(on: &Subject<'_>, shapes: &[&[usize]]) {
    for call in valid(on, shapes) {
        call.expect(on);
    }
}

/// Lists the valid calls on tensors of these shapes, on every element type that the backend declares.
fn valid(on: &Subject<'_>, shapes: &[&[usize]]) -> Vec<Call> {
    let all = shapes.iter().flat_map(|shape| {
        let types =
            move |&op: &Primitive| DataType::ALL.iter().map(move |&dtype| valid_call(op, dtype, shape));
        Primitive::ALL.iter().flat_map(types)
    });
    let no_mean = |call: &Call| {
        call.op == Primitive::ReduceMean && call.inputs.iter().any(|x| x.is_empty() && x.dtype().is_integer())
    };
    let runs = |call: &Call| on.runs(call.op) && on.supports(&call.types());
    all.filter(|call| call.inferred().is_ok() && runs(call) && !no_mean(call)).collect()
}

/// Tests that every primitive accepts tensors that may be views (a transposed tensor, a slice, a part of a
/// split), and does not change its operands.
///
/// # Panics
///
/// If results differ from the results for the same tensors without views.
pub fn views_as_operands(on: &Subject<'_>) {
    type View = fn(&Subject<'_>, &TensorData) -> ErasedTensor;
    let views: [(Primitive, View); 4] = [
        (Primitive::Transpose, transposed),
        (Primitive::Slice, cut),
        (Primitive::Split, split_off),
        (Primitive::Slice, backwards),
    ];
    for call in valid(on, &[&[2, 3], &[3, 2, 2]]) {
        if call.inputs.is_empty() {
            continue;
        }
        let want = call.expect(on);
        for (_, view) in views.iter().filter(|(op, _)| on.runs(*op)) {
            let inputs: Vec<ErasedTensor> = call.inputs.iter().map(|x| view(on, x)).collect();
            let outputs = call.run_on(on, &inputs).unwrap_or_else(|error| {
                panic!("{call} failed on a view: {}", bb_core::error::causes(&error))
            });
            for (got, want) in call.fetch(on, outputs).iter().zip(&want) {
                assert!(near(got, want), "{call} on a view gives {}, expected {}", shown(got), shown(want));
            }
            for (input, before) in inputs.iter().zip(&call.inputs) {
                assert_eq!(elements(&on.fetch(input)), elements(before), "{call} changed its operand");
            }
        }
    }
}

/// Compares two tensors with a tolerance for sums that are computed in another order.
fn near(got: &TensorData, want: &TensorData) -> bool {
    if !got.dtype().is_float() {
        return elements(got) == elements(want);
    }
    let (got, want) = (crate::numbers_of(got), crate::numbers_of(want));
    got.iter()
        .zip(&want)
        .all(|(g, w)| g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= 1e-2 * w.abs())
}

/// Creates the tensor by transposing its transpose.
fn transposed(on: &Subject<'_>, x: &TensorData) -> ErasedTensor {
    let shape: Vec<usize> = x.shape().iter().rev().copied().collect();
    let order: Vec<usize> = (0..x.len()).map(|i| mirrored(&shape, i)).collect();
    on.made(on.transpose(&on.bring(&rearranged(x, &shape, &order)), &[]))
}

/// Returns the row-major index, in the reversed shape, of the element whose multi-dimensional index is the
/// reversed index of element `i`.
fn mirrored(shape: &[usize], i: usize) -> usize {
    let mut rest = i;
    let digits: Vec<usize> = shape
        .iter()
        .rev()
        .map(|&extent| {
            let digit = rest % extent;
            rest /= extent;
            digit
        })
        .collect();
    // `digits` has the innermost index first, which is the multi-dimensional index in the reversed shape.
    digits.iter().zip(shape.iter().rev()).fold(0, |sum, (digit, extent)| sum * extent + digit)
}

/// Creates the tensor as a slice from the middle of a longer tensor.
fn cut(on: &Subject<'_>, x: &TensorData) -> ErasedTensor {
    let Some((&first, rest)) = x.shape().split_first() else {
        return on.bring(x);
    };
    let row: usize = rest.iter().product();
    let order: Vec<usize> = (0..row).chain(0..x.len()).chain(0..row).collect();
    let longer = rearranged(x, &[&[first + 2], rest].concat(), &order);
    on.made(on.slice(&on.bring(&longer), &[1], &[1 + first as i64], &[0], &[1]))
}

/// Creates the tensor as the second part of a split.
fn split_off(on: &Subject<'_>, x: &TensorData) -> ErasedTensor {
    let Some((&last, rest)) = x.shape().split_last() else {
        return on.bring(x);
    };
    let order: Vec<usize> = (0..x.len() / last.max(1))
        .flat_map(|row| [row * last..row * last + 1, row * last..(row + 1) * last])
        .flatten()
        .collect();
    let longer = rearranged(x, &[rest, &[last + 1]].concat(), &order);
    let mut parts = on.made(on.split(&on.bring(&longer), -1, &[1, last]));
    parts.pop().unwrap_or_else(|| panic!("split into two parts gave none"))
}

/// Creates the tensor as a backward slice of a reversed tensor.
fn backwards(on: &Subject<'_>, x: &TensorData) -> ErasedTensor {
    let Some((&first, rest)) = x.shape().split_first() else {
        return on.bring(x);
    };
    let row: usize = rest.iter().product();
    let order: Vec<usize> = (0..first).rev().flat_map(|i| i * row..(i + 1) * row).collect();
    let reversed = on.bring(&rearranged(x, x.shape(), &order));
    on.made(on.slice(&reversed, &[-1], &[i64::MIN], &[0], &[-1]))
}

/// Tests that several threads can use one backend and one tensor at the same time.
///
/// # Panics
///
/// If a result differs.
pub fn threads(on: &Subject<'_>) {
    let calls = valid(on, &[&[3, 4]]);
    let want: Vec<Vec<TensorData>> = calls.iter().map(|call| call.expect(on)).collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for (call, want) in calls.iter().zip(&want) {
                    assert_eq!(&call.expect(on), want, "{call} on several threads");
                }
            });
        }
    });
}

/// A value that does not belong to any backend.
struct Foreign;

impl SlotValue for Foreign {
    fn dtype(&self) -> DataType {
        DataType::F32
    }

    fn shape(&self) -> &[usize] {
        &[]
    }
}

/// Tests that a tensor can be restored after its type was erased, and that a value of another type cannot.
///
/// # Panics
///
/// If the test fails.
pub fn erasure(on: &Subject<'_>) {
    for &dtype in DataType::ALL.iter().filter(|dtype| on.supports(&[**dtype])) {
        let x = sample(dtype, &[2, 3]);
        let erased = on.erase(&on.bring(&x)).expect("a tensor of the backend");
        assert_eq!((erased.dtype(), erased.shape()), (dtype, &[2, 3][..]), "an erased tensor of {dtype}");
        let restored = on.restore(&erased).unwrap_or_else(|| panic!("a tensor of {dtype} was not restored"));
        assert_eq!(elements(&on.fetch(&restored)), elements(&x), "a restored tensor of {dtype}");
    }
    let foreign: Arc<dyn SlotValue> = Arc::new(Foreign);
    // An erased backend restores every tensor, and refuses a foreign one when it is called.
    let refused = on.restore(&foreign).is_none_or(|x| bb_core::Backend::to_host(&on.backend(), &x).is_err());
    assert!(refused, "a foreign value was taken for a tensor of the backend");
}
