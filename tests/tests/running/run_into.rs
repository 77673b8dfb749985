//! Tests runs into buffers of the caller on every backend: the written elements, refused buffers, and the buffers after a failure.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::ir::proto::{GraphProto, NodeProto};
use bb::{
    BackendHandle, BufferProblem, CompileOptions, DataType, ErasedExecutable, Error, Module, ResultBuffer,
    TensorData,
};
use bb_tests::backends;
use bb_tests::model::{model, node, serialized, value};
use std::sync::Arc;

/// ONNX's numbers of element types.
const F32: i32 = 1;
const BOOL: i32 = 9;

fn each() -> impl Iterator<Item = BackendHandle> {
    backends::NAMES.into_iter().map(|name| BackendHandle::new(backends::start(name).unwrap()))
}

fn compile(on: &BackendHandle, model: Vec<u8>) -> Arc<dyn ErasedExecutable> {
    on.compile(Module::from_bytes(model).unwrap(), &CompileOptions::default()).unwrap()
}

/// `sum = x + y` and `difference = x - y`, of two elements each.
fn two_results() -> Vec<u8> {
    let nodes = vec![node("Add", &["x", "y"], &["sum"]), node("Sub", &["x", "y"], &["difference"])];
    model(&[("x", &[2]), ("y", &[2])], nodes, &[("sum", &[2]), ("difference", &[2])])
}

/// Nodes on one input of f32 with these extents; the output has this element type and one open extent.
fn open(nodes: Vec<NodeProto>, dtype: i32) -> Vec<u8> {
    serialized(GraphProto {
        name: Some("open".to_owned()),
        input: vec![value("x", F32, &["n"])],
        output: vec![value("y", dtype, &["m"])],
        node: nodes,
        ..GraphProto::default()
    })
}

/// Returns the problem of the buffer that a result did not fit, and the output's name.
fn problem(result: Result<(), Error>) -> (String, BufferProblem) {
    match result {
        Err(Error::Buffer(mismatch)) => (mismatch.name.clone(), mismatch.problem.clone()),
        other => panic!("expected a buffer that does not fit, got {other:?}"),
    }
}

#[test]
fn results_are_in_the_buffers_by_position_and_by_name() {
    for on in each() {
        let graph = compile(&on, two_results());
        let x = on.tensor(&[2], &[5f32, 1.0]).unwrap();
        let y = on.tensor(&[2], &[3f32, 4.0]).unwrap();
        let (mut sum, mut difference) = ([0f32; 2], [0f32; 2]);
        let mut first = ResultBuffer::new(&[2], &mut sum).unwrap();
        let mut second = ResultBuffer::open(&mut difference);
        graph.run_into(&[Some(&x), Some(&y)], &mut [Some(&mut first), Some(&mut second)]).unwrap();
        assert_eq!((first.result(), second.result()), (Some(&[2][..]), Some(&[2][..])));
        assert_eq!((sum, difference), ([8.0, 5.0], [2.0, -3.0]), "{}", on.name());

        let mut only = [0f32; 2];
        let mut buffer = ResultBuffer::new(&[2], &mut only).unwrap();
        graph.run_into(&[Some(&x), Some(&y)], &mut [None, Some(&mut buffer)]).unwrap();
        assert_eq!(only, [2.0, -3.0]);
        let mut buffer = ResultBuffer::new(&[2], &mut only).unwrap();
        graph.run_named_into(&[("y", &x), ("x", &y)], &mut [("difference", &mut buffer)]).unwrap();
        assert_eq!(only, [-2.0, 3.0]);
        graph.run_into(&[Some(&x), Some(&y)], &mut []).unwrap();
    }
}

#[test]
fn a_buffer_for_any_shape_takes_what_fits_and_tells_the_shape() {
    for on in each() {
        let graph = compile(&on, open(vec![node("Neg", &["x"], &["y"])], F32));
        let mut memory = [7f32; 4];
        for n in [3usize, 0, 4, 1] {
            let given: Vec<f32> = (0..n).map(|i| i as f32).collect();
            let x = on.tensor(&[n], &given).unwrap();
            let mut buffer = ResultBuffer::open(&mut memory);
            graph.run_into(&[Some(&x)], &mut [Some(&mut buffer)]).unwrap();
            assert_eq!(buffer.result(), Some(&[n][..]));
            assert!(memory.iter().zip(&given).all(|(got, x)| *got == -x), "{}: {memory:?}", on.name());
        }
        let five = on.tensor(&[5], &[1f32; 5]).unwrap();
        let before = memory;
        let mut buffer = ResultBuffer::open(&mut memory);
        let refused = problem(graph.run_into(&[Some(&five)], &mut [Some(&mut buffer)]));
        assert_eq!(refused, ("y".to_owned(), BufferProblem::Bytes { expected: 20, got: 16 }));
        assert_eq!(buffer.result(), None);
        assert_eq!(memory, before, "nothing was written");
    }
}

#[test]
fn views_and_truth_values_are_copied_in_row_major_order() {
    for on in each() {
        let graph = compile(
            &on,
            model(&[("x", &[2, 3])], vec![node("Transpose", &["x"], &["y"])], &[("y", &[3, 2])]),
        );
        let x = on.tensor(&[2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        let mut columns = [0f32; 6];
        let mut buffer = ResultBuffer::new(&[3, 2], &mut columns).unwrap();
        graph.run_into(&[Some(&x)], &mut [Some(&mut buffer)]).unwrap();
        assert_eq!(columns, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0], "{}", on.name());

        let graph = compile(&on, open(vec![node("IsNaN", &["x"], &["y"])], BOOL));
        let x = on.tensor(&[3], &[1f32, f32::NAN, 3.0]).unwrap();
        let mut truths = [9u8; 3];
        let mut buffer = ResultBuffer::of_bytes(DataType::Bool, &[3], &mut truths).unwrap();
        graph.run_into(&[Some(&x)], &mut [Some(&mut buffer)]).unwrap();
        assert_eq!(truths, [0, 1, 0]);
    }
}

#[test]
fn a_buffer_that_cannot_fit_is_refused_before_the_run() {
    for on in each() {
        let graph = compile(&on, two_results());
        // The inputs are missing, so a run would fail with another error.
        let run = |buffer: &mut ResultBuffer<'_>| problem(graph.run_into(&[], &mut [None, Some(buffer)]));
        let named = |problem| ("difference".to_owned(), problem);
        let (expected, got) = (DataType::F32, DataType::I64);
        assert_eq!(
            run(&mut ResultBuffer::open(&mut [0i64; 2])),
            named(BufferProblem::DataType { expected, got })
        );
        let mut floats = [0f32; 4];
        let mut three = ResultBuffer::new(&[4], &mut floats).unwrap();
        assert_eq!(run(&mut three), named(BufferProblem::Extent { axis: 0, expected: 2, got: 4 }));
        let mut matrix = ResultBuffer::new(&[2, 2], &mut floats).unwrap();
        assert_eq!(run(&mut matrix), named(BufferProblem::Rank { expected: 1, got: 2 }));
        let mut one = [0f32];
        assert_eq!(
            run(&mut ResultBuffer::open(&mut one)),
            named(BufferProblem::Bytes { expected: 8, got: 4 })
        );
        let mut text = ResultBuffer::open_bytes(DataType::String, &mut []);
        assert_eq!(run(&mut text), named(BufferProblem::Text));

        let mut buffer = ResultBuffer::open(&mut floats);
        let error = graph.run_into(&[], &mut [None, None, Some(&mut buffer)]).unwrap_err();
        assert!(matches!(error, Error::OutputCount { expected: 2, got: 3 }), "{error}");
        let error = graph.run_named_into(&[], &mut [("product", &mut buffer)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"`product` is no output of the graph; its outputs are ["sum", "difference"]"#
        );
        let mut again = ResultBuffer::open(&mut one);
        let error = graph.run_named_into(&[], &mut [("sum", &mut buffer), ("sum", &mut again)]).unwrap_err();
        assert_eq!(error.to_string(), "two buffers are given for output `sum`");
    }
}

#[test]
fn a_message_says_where_and_what_was_expected() {
    let on = BackendHandle::new(backends::start("cpu").unwrap());
    let graph = compile(&on, two_results());
    let mut memory = [0f32; 3];
    let mut buffer = ResultBuffer::new(&[3], &mut memory).unwrap();
    let error = graph.run_into(&[], &mut [Some(&mut buffer)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the buffer for output `sum` is f32[3], but the output is f32[2]: extent 3 of axis 0 must be 2"
    );
    let error = ResultBuffer::new(&[2, 2], &mut memory).unwrap_err();
    let expected = TensorData::new(&[2, 2], &[0f32; 3]).unwrap_err();
    assert_eq!(error.to_string(), expected.to_string(), "as for a tensor");
}

/// The first result fits its buffer and the second does not, which shows only when both are there.
#[test]
fn a_run_that_fails_writes_no_buffer() {
    let nodes = vec![node("Neg", &["x"], &["y"]), node("Exp", &["x"], &["z"])];
    let graph = serialized(GraphProto {
        name: Some("open".to_owned()),
        input: vec![value("x", F32, &["n"])],
        output: vec![value("y", F32, &["n"]), value("z", F32, &["n"])],
        node: nodes,
        ..GraphProto::default()
    });
    for on in each() {
        let graph = compile(&on, graph.clone());
        let x = on.tensor(&[2], &[1f32, 2.0]).unwrap();
        let (mut fits, mut does_not) = ([7f32; 2], [7f32; 3]);
        let mut first = ResultBuffer::new(&[2], &mut fits).unwrap();
        let mut second = ResultBuffer::new(&[3], &mut does_not).unwrap();
        let refused = problem(graph.run_into(&[Some(&x)], &mut [Some(&mut first), Some(&mut second)]));
        assert_eq!(refused, ("z".to_owned(), BufferProblem::Extent { axis: 0, expected: 2, got: 3 }));
        assert_eq!((first.result(), second.result()), (None, None));
        graph.run_into(&[None], &mut [Some(&mut first), Some(&mut second)]).unwrap_err();
        assert_eq!((fits, does_not), ([7.0; 2], [7.0; 3]), "{}", on.name());
    }
}
