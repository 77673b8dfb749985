//! What a backend serves is what it runs: an element type that one primitive lacks shows in the operators that need it.

use bb::coverage::{Matrix, Row};
use bb::{BackendRuntime, DataType, Primitive, Runtime, Tensor};
use bb_reference::Error;
use bb_tests::tampered::{Hook, Tampered};
use std::collections::BTreeSet;
use std::sync::Arc;

fn matrix(hook: Hook) -> Matrix {
    let on: Arc<dyn BackendRuntime> = Runtime::named("tampered", Tampered(hook));
    Matrix::of(&on)
}

/// Refuses exponentials of f16.
const NO_EXP: Hook = |op, inputs, _| {
    let lacking = op == Primitive::Exp && inputs.iter().flatten().any(|x| x.dtype() == DataType::F16);
    let refused = bb::ir::Error::Unsupported { op: "exp", dtype: DataType::F16 };
    lacking.then(|| Err(Error::from(bb::Error::from(refused))))
};

/// What the sums of `Col2Im` and the products of the tried gradient make of strings, complex numbers and truth has no
/// meaning, though ONNX lists the types.
#[test]
fn a_backend_of_all_primitives_serves_every_type_that_has_a_meaning() {
    let refused: Vec<(&str, Vec<DataType>)> = matrix(|_, _, _| None)
        .rows
        .into_iter()
        .filter(|row| !row.refused.is_empty())
        .map(|row| (row.name, row.refused))
        .collect();
    use DataType::{Bool, C64, C128, String};
    assert_eq!(refused, [("Col2Im", vec![String, C64, C128]), ("Gradient", vec![Bool, String, C64, C128])]);
}

#[test]
fn a_type_that_one_primitive_lacks_shows_in_the_operators_that_are_lowered_to_it() {
    let (whole, lacking) = (matrix(|_, _, _| None), matrix(NO_EXP));
    let serves = |row: &Row, dtype| row.served.contains(&dtype);
    let mut lost = BTreeSet::new();
    for (before, after) in whole.rows.iter().zip(&lacking.rows) {
        assert_eq!((before.name, before.since), (after.name, after.since));
        for dtype in before.served.iter().filter(|dtype| !serves(after, **dtype)) {
            assert_eq!(*dtype, DataType::F16, "{} {}", before.name, before.since);
            lost.insert(before.name);
        }
    }
    // Every other formula with an exponential widens half types to f32 first, as `Sigmoid` and `LogSoftmax` do.
    assert_eq!(lost.into_iter().collect::<Vec<_>>(), ["Attention", "Exp", "ReduceLogSumExp", "Softmax"]);
}
