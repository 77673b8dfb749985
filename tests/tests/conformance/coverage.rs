//! Tests that coverage reports the operators that a backend can run: a type that one primitive lacks shows in the operators
//! that use it.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::coverage::{ClaimOptions, Claims, Coverage, Declined, How, Matrix, Refused, RefusedBy, Row, Why};
use bb::ir::proto::NodeProto;
use bb::{BackendHandle, CompileOptions, DataType, Error, Module, Primitive, Runtime, Tensor};
use bb_tests::few::Few;
use bb_tests::model::{model, node, typed, with_graph, with_int};
use bb_tests::tampered::{Hook, Tampered, refuse_others};
use std::collections::BTreeSet;
use std::sync::Arc;

fn matrix(hook: Hook) -> Matrix {
    let on: Arc<Runtime> = Runtime::named("tampered", Tampered(hook));
    Matrix::of(&on)
}

/// Refuses exponentials of f16.
const NO_EXP: Hook = |op, inputs, _| {
    let lacking = op == Primitive::Exp && inputs.iter().flatten().any(|x| x.dtype() == DataType::F16);
    let refused = bb::ir::Error::Unsupported { op: "exp", dtype: DataType::F16 };
    lacking.then(|| Err(bb_reference::Error::from(Error::from(refused))))
};

/// ONNX lists some types that have no meaning for an operator: `Col2Im` sums strings, complex numbers and
/// truth values, and the tried gradient multiplies them.
#[test]
fn a_backend_with_all_primitives_supports_every_meaningful_type() {
    let refused: Vec<(&str, Vec<DataType>)> = matrix(|_, _, _| None)
        .rows
        .into_iter()
        .filter(|row| !row.refused.is_empty())
        .map(|row| {
            assert!(row.refused.iter().all(|refused| refused.by == RefusedBy::Operator), "{row:?}");
            (row.name, row.refused.into_iter().map(|refused| refused.dtype).collect())
        })
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
    // Functions with an exponential compute half types in f32, so that they round once; the steps of Softmax are kept in f32 by
    // `widen-halves`.
    assert_eq!(lost.into_iter().collect::<Vec<_>>(), ["Exp"]);
}

/// A backend that supports three element types.
const THREE: Hook =
    |op, inputs, params| refuse_others(&[DataType::F32, DataType::I64, DataType::Bool], op, inputs, params);

/// A backend that supports one element type.
const ONE: Hook = |op, inputs, params| refuse_others(&[DataType::F32], op, inputs, params);

/// A backend whose only integer type is `i32`.
const SHORT: Hook =
    |op, inputs, params| refuse_others(&[DataType::F32, DataType::I32, DataType::Bool], op, inputs, params);

fn refused<'a>(matrix: &'a Matrix, name: &str, dtype: DataType) -> Option<&'a Refused> {
    let row = matrix.rows.iter().rfind(|row| row.name == name && row.domain.is_empty()).unwrap();
    assert!(
        row.refused.iter().any(|refused| refused.dtype == dtype) != row.served.contains(&dtype),
        "{row:?}"
    );
    row.refused.iter().find(|refused| refused.dtype == dtype)
}

#[test]
fn refusals_say_who_refuses_and_why() {
    let one = matrix(ONE);
    let by = |name, dtype| refused(&one, name, dtype).unwrap().clone();
    let exp = by("Exp", DataType::F64);
    assert_eq!(exp.by, RefusedBy::Backend { op: "constant".to_owned() });
    assert_eq!(
        exp.reason,
        "`constant` of f64: backend `tampered` failed in `constant`: `constant` does not take element type f64"
    );
    assert_eq!(refused(&one, "Exp", DataType::F32), None);
    // The indices of the tried call are i64, which the backend lacks, so nothing is known about f32.
    assert_eq!(by("Gather", DataType::F32).by, RefusedBy::Probe { needs: DataType::I64 });
    assert_eq!(by("Where", DataType::F32).by, RefusedBy::Probe { needs: DataType::Bool });
    // The result is i64 for every operand.
    assert!(matches!(by("ArgMax", DataType::F32).by, RefusedBy::Backend { .. }));
    // If indices may be of either type, one of them suffices.
    for hook in [THREE, SHORT] {
        assert_eq!(refused(&matrix(hook), "Gather", DataType::F32), None);
    }
    for row in matrix(THREE).rows {
        assert!(row.refused.iter().all(|refused| !refused.reason.is_empty()), "{row:?}");
    }
}

fn module(bytes: Vec<u8>) -> Module {
    Module::from_bytes(bytes).unwrap()
}

fn coverage(bytes: Vec<u8>, hook: Hook) -> Coverage {
    let on: Arc<Runtime> = Runtime::named("tampered", Tampered(hook));
    Coverage::of(&module(bytes), &on)
}

#[test]
fn coverage_considers_element_types() {
    let nodes = vec![
        node("Exp", &["x"], &["a"]),
        with_int(node("Cast", &["a"], &["z"]), "to", DataType::F32.to_onnx().into()),
    ];
    let half = typed(model(&[("x", &[-1, 4])], nodes, &[("z", &[-1, 4])]), &[("x", DataType::F16)]);
    let whole = coverage(half.clone(), |_, _, _| None);
    assert_eq!(whole.counts(), [2, 0, 0, 0]);
    assert!(whole.missing().0.is_empty() && whole.nodes.iter().all(|node| node.checked));
    let lacking = coverage(half, NO_EXP);
    let hows: Vec<How> = lacking.nodes.iter().map(|node| node.how).collect();
    assert_eq!(hows, [How::Unsupported, How::Native]);
    let missing = lacking.missing().0;
    let [missing] = missing.as_slice() else { panic!("expected one node, got {missing:?}") };
    assert!(
        matches!(&missing.why, Why::ElementTypes(what) if what.len() == 1 && what.iter().all(|r| r.op == "exp"))
    );
}

#[test]
fn coverage_lists_the_operations_that_a_backend_refuses() {
    let hook: Hook = |op, _, _| {
        let refused = bb::ir::Error::Unsupported { op: op.spec().method, dtype: DataType::F32 };
        matches!(op, Primitive::Exp | Primitive::Log).then(|| Err(Error::from(refused).into()))
    };
    let nodes = vec![node("Exp", &["x"], &["a"]), node("Log", &["a"], &["b"]), node("Exp", &["b"], &["z"])];
    let found = coverage(model(&[("x", &[2])], nodes, &[("z", &[2])]), hook);
    assert_eq!(found.nodes.iter().map(|node| node.needs()).collect::<Vec<_>>(), [["exp"], ["log"], ["exp"]]);
    assert_eq!(found.needs(), ["exp", "log"]);
    assert_eq!(
        coverage(model(&[("x", &[2])], vec![node("Neg", &["x"], &["z"])], &[("z", &[2])]), hook).needs(),
        [""; 0]
    );
    let exp = matrix(hook).rows.into_iter().rfind(|row| row.name == "Exp").unwrap();
    assert!(exp.served.is_empty() && exp.how == How::Unsupported, "{exp:?}");
}

#[test]
fn a_node_whose_result_only_a_branch_reads_is_reported() {
    let then = vec![node("Mul", &["a", "x"], &["t"])];
    let choice = with_graph(node("If", &["c"], &["z"]), "then_branch", &[], then, &["t"]);
    let choice = with_graph(choice, "else_branch", &[], vec![node("Identity", &["x"], &["e"])], &["e"]);
    let nodes = vec![node("Neg", &["x"], &["a"]), node("Abs", &["x"], &["unread"]), choice];
    let bytes = typed(model(&[("x", &[2]), ("c", &[])], nodes, &[("z", &[2])]), &[("c", DataType::Bool)]);
    let found = coverage(bytes, |_, _, _| None);
    assert_eq!(found.nodes.iter().map(|node| node.op.as_str()).collect::<Vec<_>>(), ["Neg", "If"]);
}

/// Coverage reports nodes whose requirements are only known when inputs are given.
#[test]
fn unchecked_nodes_are_reported() {
    let nodes = vec![
        node("NonZero", &["x"], &["at"]),
        node("SplitToSequence", &["y", "lengths"], &["z"]),
        node("SequenceLength", &["z"], &["n"]),
    ];
    let bytes =
        model(&[("x", &[-1]), ("y", &[4]), ("lengths", &[2])], nodes, &[("n", &[]), ("at", &[1, -1])]);
    let int = DataType::I64;
    let bytes = typed(bytes, &[("at", int), ("lengths", int), ("n", int)]);
    let found = coverage(bytes, THREE);
    let checked: Vec<(&str, bool)> =
        found.nodes.iter().map(|node| (node.op.as_str(), node.checked)).collect();
    assert_eq!(checked, [("NonZero", true), ("SplitToSequence", false), ("SequenceLength", true)]);
    assert!(
        found.to_string().ends_with("; of 1, not all element types are known before inputs arrive"),
        "{found}"
    );
}

/// Returns the claims of a backend that has only `f32`, `i32` and `bool`.
fn claims(
    inputs: &[(&str, &[i64])],
    call: NodeProto,
    types: &[(&str, DataType)],
) -> Vec<Result<How, Declined>> {
    let output = call.output.first().cloned().unwrap();
    let bytes = typed(model(inputs, vec![call], &[(output.as_str(), &[-1])]), types);
    let few = BackendHandle::new(Runtime::erased("few", Few::least(), &[]));
    Claims::of(&module(bytes), &few, ClaimOptions::default()).nodes
}

/// The element types of these nodes are known, although their extents, or the elements of an operand, are not.
#[test]
fn a_node_is_claimed_whatever_its_unknown_extents_are() {
    const X: (&str, &[i64]) = ("x", &[-1, -1, -1]);
    let int = DataType::I64;
    let lstm = with_int(node("LSTM", &["x", "w", "r"], &["y"]), "hidden_size", 2);
    let gru = with_int(node("GRU", &["x", "w", "r"], &["y"]), "hidden_size", 2);
    let cases = [
        claims(&[X, ("w", &[2, 2, 3])], node("Conv", &["x", "w"], &["y"]), &[]),
        claims(&[X, ("w", &[1, 8, 4]), ("r", &[1, 8, 2])], lstm, &[]),
        claims(&[X, ("w", &[1, 6, 4]), ("r", &[1, 6, 2])], gru, &[]),
        claims(&[X, ("w", &[4])], node("LayerNormalization", &["x", "w"], &["y"]), &[]),
        claims(&[X, ("axes", &[-1])], node("ReduceL1", &["x", "axes"], &["y"]), &[("axes", int)]),
        claims(&[X, ("pads", &[-1])], node("Pad", &["x", "pads"], &["y"]), &[("pads", int)]),
        claims(&[("x", &[2, 3]), ("n", &[2])], node("Tile", &["x", "n"], &["y"]), &[("n", int)]),
        claims(&[("x", &[1]), ("shape", &[2])], node("Expand", &["x", "shape"], &["y"]), &[("shape", int)]),
    ];
    for (at, claims) in cases.iter().enumerate() {
        assert!(matches!(claims.as_slice(), [Ok(_)]), "case {at}: {claims:?}");
    }
    // An element type that the backend lacks is still a reason to decline.
    let lacking = [("x", DataType::F64), ("w", DataType::F64), ("y", DataType::F64)];
    let declined = claims(&[X, ("w", &[2, 2, 3])], node("Conv", &["x", "w"], &["y"]), &lacking);
    assert!(matches!(declined.as_slice(), [Err(Declined::Unsupported(_))]), "{declined:?}");
}

#[test]
fn the_reason_of_a_declined_node_names_what_is_unknown() {
    let call = node("SplitToSequence", &["x", "lengths"], &["y"]);
    let nodes = vec![call, node("SequenceLength", &["y"], &["n"])];
    let bytes = model(&[("x", &[4]), ("lengths", &[2])], nodes, &[("n", &[])]);
    let bytes = typed(bytes, &[("lengths", DataType::I64), ("n", DataType::I64)]);
    let few = BackendHandle::new(Runtime::erased("few", Few::least(), &[]));
    let claims = Claims::of(&module(bytes), &few, ClaimOptions::default());
    let Some(Err(Declined::Unchecked(unknown))) = claims.nodes.first() else { panic!("{:?}", claims.nodes) };
    assert_eq!(
        unknown.to_string(),
        "how it is lowered may depend on the elements of `x` and the elements of `lengths`, which are known only when the model runs"
    );
}

#[test]
fn options_can_refuse_host_kernels_and_lowered_nodes() {
    let on: Arc<Runtime> = Runtime::named("tampered", Tampered(|_, _, _| None));
    let branch = || vec![node("NonZero", &["x"], &["n"])];
    let choice = with_graph(node("If", &["c"], &["z"]), "then_branch", &[], branch(), &["n"]);
    let choice = with_graph(choice, "else_branch", &[], branch(), &["n"]);
    let nodes = vec![
        node("Relu", &["x"], &["r"]),
        node("NonZero", &["r"], &["y"]),
        node("NonZero", &["r"], &["unread"]),
        choice,
    ];
    let bytes = model(&[("x", &[-1]), ("c", &[])], nodes, &[("y", &[1, -1]), ("z", &[1, -1])]);
    let bytes = typed(bytes, &[("c", DataType::Bool), ("y", DataType::I64), ("z", DataType::I64)]);
    let names = |host, lowered| {
        let mut options = CompileOptions::default();
        (options.refuse_host, options.refuse_lowered) = (host, lowered);
        match on.clone().compile(module(bytes.clone()), &options) {
            Ok(_) => Vec::new(),
            Err(error) => {
                let Error::Kernel { source, .. } = &error else { panic!("{error}") };
                let Some(bb_reference::Error::Bb(Error::Refused { nodes })) = source.downcast_ref() else {
                    panic!("{source}")
                };
                nodes.0.iter().map(|refused| refused.node.node.clone()).collect()
            }
        }
    };
    assert_eq!(names(false, false), [] as [&str; 0]);
    assert_eq!(names(true, false), ["NonZero_y", "NonZero_n", "NonZero_n"]);
    assert_eq!(names(false, true), ["Relu_r", "If_z"]);
}
