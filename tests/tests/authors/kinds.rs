//! The kinds of errors, which servers use to choose their answers.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::services::OutOfMemory;
use bb::{
    BackendHandle, CancelToken, CompileOptions, Error, ErrorKind, Limits, Module, OpenOptions, RunOptions,
    Runtime, TensorData,
};
use bb_tests::few::Few;
use bb_tests::model::{model, node, typed};

/// Compiles a model of one node with the inputs `x` and `at`, and runs it.
fn ran(
    on: &BackendHandle,
    op: bb::ir::proto::NodeProto,
    x: &TensorData,
    at: &TensorData,
) -> Result<(), Error> {
    let nodes = vec![op, node("Identity", &["at"], &["unused"])];
    let bytes = model(&[("x", &[2]), ("at", &[1])], nodes, &[("y", &[-1])]);
    let bytes = typed(bytes, &[("at", at.dtype())]);
    let compiled = on.compile(Module::from_bytes(bytes)?, &CompileOptions::default())?;
    let inputs = [on.runtime().constant(x)?, on.runtime().constant(at)?];
    compiled.run(&inputs.iter().map(Some).collect::<Vec<_>>()).map(drop)
}

#[test]
fn an_index_out_of_range_is_the_fault_of_the_operands_behind_every_layer() {
    let names = ["cpu", "passing+cpu", "passing+passing+cpu", "passing+reference", "passing+whole-graph"];
    let few = BackendHandle::new(Runtime::erased("few", Few::least(), &[]));
    for on in names.into_iter().map(|name| bb::backend(name).unwrap()).chain([few]) {
        let name = on.name();
        let x = on.tensor(&[2], &[1f32, 2.0]).unwrap();
        let gathered = x.gather(&on.tensor(&[1], &[7i64]).unwrap(), 0).map(drop).unwrap_err();
        assert_eq!(on.error_kind(&gathered), ErrorKind::WrongInput, "{name}: {gathered}");
        let x = TensorData::new(&[2], &[1f32, 2.0]).unwrap();
        let at = TensorData::new(&[1], &[7i64]).unwrap();
        let gathered = ran(&on, node("Gather", &["x", "at"], &["y"]), &x, &at).unwrap_err();
        assert_eq!(on.error_kind(&gathered), ErrorKind::WrongInput, "{name}: {gathered:?}");
    }
}

/// The error of the layer is inside the error of the backend below it, and a wrapper emulates the types that this backend lacks.
#[test]
fn a_limit_on_a_backend_that_lacks_types_is_a_limit() {
    let limits = bb_layers::Limits::default().with_result(4);
    let limited = bb_layers::Limit::new(bb::Erased::new(Few::least()), limits);
    let on = BackendHandle::new(Runtime::erased("limited", limited, &[]));
    for x in [TensorData::new(&[2], &[1f32; 2]).unwrap(), TensorData::new(&[2], &[1i64; 2]).unwrap()] {
        let error = on.runtime().constant(&x).map(drop).unwrap_err();
        assert_eq!(on.error_kind(&error), ErrorKind::Limit, "{error:?}");
    }
}

#[test]
fn an_error_has_the_kind_of_its_cause() {
    let on = bb::backend("cpu").unwrap();
    let floats = |n: usize| TensorData::new(&[n], &vec![1f32; n]).unwrap();
    let kind = |result: Result<(), Error>| on.error_kind(&result.expect_err("an error"));

    assert_eq!(kind(Module::from_bytes(&b"no model"[..]).map(drop)), ErrorKind::InvalidModel);
    let unknown = ran(&on, node("NoSuchOperator", &["x", "at"], &["y"]), &floats(2), &floats(1));
    assert_eq!(kind(unknown), ErrorKind::Unsupported);
    let wrong = ran(&on, node("Add", &["x", "at"], &["y"]), &floats(3), &floats(1));
    assert_eq!(kind(wrong), ErrorKind::WrongInput);
    // The backend's own error wraps the one of `bb`, and the node's error names where it was.
    let x = on.tensor(&[2], &[1f32, 2.0]).unwrap();
    let gathered = x.gather(&on.tensor(&[1], &[7i64]).unwrap(), 0).map(drop).unwrap_err();
    assert_eq!(on.error_kind(&gathered), ErrorKind::WrongInput, "{gathered}");
    assert_eq!(bb::backend("nowhere").map(drop).unwrap_err().kind(), ErrorKind::Configuration);

    let limits = Limits { model_bytes: 3, ..Limits::default() };
    assert_eq!(kind(Module::from_bytes_with(&b"four"[..], &limits).map(drop)), ErrorKind::Limit);

    let small = bb::backend_with("cpu", &OpenOptions::default().with_memory(1 << 10)).unwrap();
    let many = small.tensor(&[4096], &[1f32; 4096]).unwrap();
    let error = many.add(&many).map(drop).unwrap_err();
    assert_eq!(small.error_kind(&error), ErrorKind::Limit, "{error}");

    let source = Box::new(bb_cpu::CpuError::Memory(OutOfMemory::new(8)));
    assert_eq!(Error::Kernel { backend: "cpu", op: "add", source }.kind(), ErrorKind::Limit);

    let token = CancelToken::new();
    token.cancel();
    let options = RunOptions::default().with_cancel(&token);
    let bytes = model(&[("x", &[2])], vec![node("Neg", &["x"], &["y"])], &[("y", &[2])]);
    let compiled = on.compile(Module::from_bytes(bytes).unwrap(), &CompileOptions::default()).unwrap();
    let x = on.runtime().constant(&floats(2)).unwrap();
    assert_eq!(kind(compiled.run_with(&[Some(&x)], &options).map(drop)), ErrorKind::Cancelled);
}

#[test]
fn kinds_have_names_of_their_own() {
    let mut names = ErrorKind::ALL.map(|kind| kind.to_string());
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| matches!(pair, [a, b] if a != b)), "{names:?}");
}
