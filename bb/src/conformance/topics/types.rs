//! Which element types each primitive takes.

use super::calls::call;
use crate::conformance::{Subject, assert_refused};
use crate::{Backend, DataType};
use bb_ir::infer;
use bb_ir::op::Primitive;

/// Every primitive takes every element type that ONNX allows and the backend claims, gives a result of the
/// right type, and refuses all others: what ONNX does not allow with any error, what the backend does not
/// claim with one that names operation and element type.
///
/// # Panics
///
/// If it does not.
pub fn element_types<B: Backend>(on: &Subject<'_, B>) {
    for &op in Primitive::ALL {
        let main = if op == Primitive::Where { 1 } else { 0 };
        for &dtype in DataType::ALL {
            let call = call(op, dtype, &[2, 2]);
            if !infer::accepts(op, main, dtype) || call.inferred().is_err() {
                if on.supports(&[dtype]) {
                    assert_refused(call.run(on), (op, dtype));
                }
            } else if on.supports(&call.types()) {
                call.expect(on);
            } else {
                unclaimed(on, op, call.run(on).err(), &call.types());
            }
        }
    }
}

/// Checks the error for a type that the backend does not claim: the chain of causes names the operation
/// that met it and a type that is not claimed.
#[track_caller]
fn unclaimed<B: Backend>(on: &Subject<'_, B>, op: Primitive, error: Option<B::Error>, types: &[DataType]) {
    let Some(error) = error else {
        panic!("{op:?} on {types:?} succeeded, though not all of the types are claimed");
    };
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    let operation = [op.spec().method, "constant"].iter().any(|method| text.contains(method));
    let named =
        types.iter().filter(|dtype| !on.supports(&[**dtype])).any(|dtype| text.contains(dtype.name()));
    assert!(
        operation && named,
        "the error of {op:?} on {types:?} names no operation and unclaimed type: {text}"
    );
}
