//! Tests which element types each primitive supports.

use crate::check::{one_of, refused_type};
use crate::valid_call::valid_call;
use crate::{Call, Subject, assert_unsupported, sample};
use bb_core::{DataType, RoundMode, TensorData};
use bb_ir::infer;
use bb_ir::op::Primitive;

/// Tests that every primitive supports every element type that ONNX allows and the backend declares, and that its result has the
/// correct type. All other types, of an operand, a result or a cast's target, must be refused with an error that names the
/// operation and the type.
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
                    not_taken(on, &call, main, dtype);
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
            let name = on.declaration_name();
            let succeeded =
                || format!("{} succeeded, but `{name}` does not declare {to}: declare it, or", on.last());
            let cast = on.cast(&x, to, true, RoundMode::Up);
            refused_type(cast, Primitive::Cast, Some(to), &[to], succeeded);
        }
    }
}

/// Checks that an operation refuses an element type if ONNX does not define the operation on it, even though the backend
/// declares the type.
#[track_caller]
fn not_taken(on: &Subject<'_>, call: &Call, operand: usize, dtype: DataType) {
    let inputs: Vec<_> = call.inputs.iter().map(|x| on.bring(x)).collect();
    let method = call.op.spec().method;
    let succeeded = || match infer::accepts(call.op, operand, dtype) {
        false => {
            format!("`{method}` takes {} only, and succeeded on {dtype}:", taken_types(call.op, operand))
        }
        true => format!("{call} succeeded, but ONNX does not define it on {dtype}:"),
    };
    refused_type(call.run_on(on, &inputs), call.op, None, &[dtype], succeeded);
}

/// Describes the element types that an operand may have.
fn taken_types(op: Primitive, operand: usize) -> String {
    let taken: Vec<DataType> =
        DataType::ALL.iter().copied().filter(|dtype| infer::accepts(op, operand, *dtype)).collect();
    let are =
        |kind: fn(DataType) -> bool| DataType::ALL.iter().all(|dtype| kind(*dtype) == taken.contains(dtype));
    if are(DataType::is_float) {
        "floats".to_owned()
    } else if are(|dtype| dtype.is_float() || dtype.is_signed_integer()) {
        "floats and signed integers".to_owned()
    } else if are(|dtype| dtype.is_float() || dtype.is_integer()) {
        "floats and integers".to_owned()
    } else {
        let names: Vec<&str> = taken.iter().map(|dtype| dtype.name()).collect();
        names.join(", ")
    }
}

/// Checks the error of a call with types that the backend does not declare. If `constant` refuses
/// an operand because of its type, the error must name `constant`. Otherwise the call must fail, and the error must name its operation.
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
        && let Err(error) = on.constant(x)
    {
        return assert_unsupported(Err::<(), _>(error), Primitive::Constant, &[dtype]);
    }
    let name = on.declaration_name();
    let succeeded =
        || format!("{call} succeeded, but `{name}` does not declare {}: declare it, or", one_of(&others));
    refused_type(call.run(on), call.op, None, &others, succeeded);
}
