//! Tests which element types each primitive supports.

use crate::valid_call::valid_call;
use crate::{Call, Subject, assert_unsupported, sample};
use bb_core::{Backend, DataType, RoundMode, TensorData};
use bb_ir::infer;
use bb_ir::op::Primitive;

/// Tests that every primitive supports every element type that ONNX allows and the backend declares, that its
/// result has the right type, and that it refuses all other types with an error that names the operation and
/// the type. An operand, a result or a cast's target may have the refused type.
///
/// # Panics
///
/// If the test fails.
pub fn element_types(on: &Subject<'_>) {
    if let Err(error) = bb_core::runtime::check_types("under test", on.types()) {
        panic!("{}", bb_core::error::causes(&error));
    }
    for &op in Primitive::ALL.iter().filter(|op| on.runs(**op)) {
        let main = if op == Primitive::Where { 1 } else { 0 };
        for &dtype in DataType::ALL {
            let call = valid_call(op, dtype, &[2, 2]);
            if !infer::accepts(op, main, dtype) || call.inferred().is_err() {
                if on.supports(&[dtype]) {
                    assert_unsupported(call.run(on), op, &[dtype]);
                }
            } else if on.supports(&call.types()) {
                call.expect(on);
            } else {
                unclaimed(on, &call);
            }
        }
    }
    if !on.runs(Primitive::Cast) {
        return;
    }
    let (claimed, others): (Vec<DataType>, Vec<DataType>) =
        DataType::ALL.iter().partition(|t| on.supports(&[**t]));
    for &from in &claimed {
        let x = on.bring(&sample(from, &[2]));
        for &to in &others {
            assert_unsupported(on.cast(&x, to, true, RoundMode::Up), Primitive::Cast, &[to]);
        }
    }
}

/// Checks the error for undeclared types: it must name the operation that refused the type, or `constant` if
/// it is an operand's type.
#[track_caller]
fn unclaimed(on: &Subject<'_>, call: &Call) {
    let others: Vec<DataType> = call.types().into_iter().filter(|dtype| !on.supports(&[*dtype])).collect();
    let operand = call
        .inputs
        .iter()
        .map(TensorData::dtype)
        .zip(&call.inputs)
        .find(|(dtype, _)| !on.supports(&[*dtype]));
    if let Some((dtype, x)) = operand
        && let Err(error) = on.backend().constant(x)
    {
        return assert_unsupported(Err::<(), _>(error), Primitive::Constant, &[dtype]);
    }
    assert_unsupported(call.run(on), call.op, &others);
}
