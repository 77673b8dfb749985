//! Tests that errors of compiling and running name the node and the element type.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::ir::proto::{AttributeProto, GraphProto, attribute_proto::AttributeType};
use bb::{CompileOptions, DataType, Error, Module, Primitive, Runtime, TensorData};
use bb_reference::Reference;
use bb_tests::backends;
use bb_tests::model::{node, serialized, untyped, value};
use bb_tests::tampered::{Tampered, refuse_others};
use std::sync::Arc;

/// A backend for `f32`, and for the index types that operators need.
fn of_floats() -> Arc<Runtime> {
    use DataType::{Bool, F32, I64};
    Runtime::named(
        "floats",
        Tampered(|op, inputs, params| refuse_others(&[F32, I64, Bool], op, inputs, params)),
    )
}

/// Returns the messages of compiling or running a model, from the outermost error to its cause.
fn failure(on: &Arc<Runtime>, graph: GraphProto, inputs: &[TensorData]) -> Vec<String> {
    let module = Module::from_bytes(serialized(graph)).unwrap();
    let ran = on.clone().compile(module, &CompileOptions::default()).and_then(|graph| {
        let given: Vec<_> = inputs.iter().map(|x| on.constant(x).unwrap()).collect();
        graph.run(&given.iter().map(Some).collect::<Vec<_>>())
    });
    let error: Error = ran.unwrap_err();
    let chain = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    chain.map(ToString::to_string).collect()
}

fn f32s(shape: &[usize]) -> TensorData {
    TensorData::zeros(DataType::F32, shape, 1 << 20).unwrap()
}

fn graph(nodes: Vec<bb::ir::proto::NodeProto>, outputs: &[&str]) -> GraphProto {
    GraphProto {
        name: Some("g".to_owned()),
        node: nodes,
        input: vec![value("x", 1, &["n"])],
        output: outputs.iter().map(|name| untyped(name)).collect(),
        ..GraphProto::default()
    }
}

#[test]
fn an_initializer_is_named_with_a_node_that_reads_it() {
    let mut g = graph(vec![node("Gather", &["x", "at"], &["y"])], &["y"]);
    g.initializer.push(TensorData::new(&[1], &[0i32]).unwrap().to_proto("at"));
    assert_eq!(
        failure(&of_floats(), g, &[f32s(&[2])]),
        [
            "backend `floats` failed in `run`",
            "node `Gather_y` (Gather) failed",
            "initializer `at` of i32 cannot be put on the backend",
            "`constant` does not take element type i32",
        ]
    );
}

#[test]
fn a_default_is_named_with_a_node_that_reads_it() {
    let mut g = graph(vec![node("Gather", &["x", "at"], &["y"])], &["y"]);
    g.input.push(value("at", 6, &["m"]));
    g.initializer.push(TensorData::new(&[1], &[0i32]).unwrap().to_proto("at"));
    let chain = failure(&of_floats(), g, &[f32s(&[2])]);
    assert_eq!(
        chain.get(1..3).unwrap(),
        ["node `Gather_y` (Gather) failed", "initializer `at` of i32 cannot be put on the backend"]
    );
}

#[test]
fn a_constant_of_the_lowering_is_reported_with_its_node() {
    let cast = bb_tests::model::with_int(node("Cast", &["x"], &["i"]), "to", 6);
    let chain = failure(&of_floats(), graph(vec![cast], &["i"]), &[f32s(&[2])]);
    assert_eq!(
        chain.get(1..).unwrap(),
        ["node `Cast_i` (Cast) failed", "`cast` does not take element type i32"]
    );
}

/// A loop that runs its body three times; the body applies `op` to the carried value.
fn looped(op: &str, on_data: bool) -> GraphProto {
    let body = GraphProto {
        name: Some("body".to_owned()),
        node: vec![node("Identity", &["c"], &["go"]), node(op, &["state"], &["next"])],
        input: vec![value("i", 7, &[]), value("c", 9, &[]), value("state", 1, &["n"])],
        output: vec![untyped("go"), untyped("next")],
        ..GraphProto::default()
    };
    let mut call = node("Loop", &["iterations", "", "x"], &["y"]);
    call.attribute.push(AttributeProto {
        name: Some("body".to_owned()),
        r#type: Some(AttributeType::Graph as i32),
        g: Some(body),
        ..AttributeProto::default()
    });
    // The number of iterations is an element of the input, so it is known only at run time.
    let mut g = graph(vec![call], &["y"]);
    if on_data {
        let cast = bb_tests::model::with_int(node("Cast", &["most"], &["iterations"]), "to", 7);
        let most = bb_tests::model::with_int(node("ReduceMax", &["x"], &["most"]), "keepdims", 0);
        g.node = [vec![most, cast], g.node].concat();
    } else {
        g.initializer.push(TensorData::scalar(3i64).to_proto("iterations"));
    }
    g
}

#[test]
fn an_error_in_a_body_names_the_loop_and_the_iteration() {
    let failing = Runtime::named(
        "no exp",
        Tampered(|op, _, _| {
            let error = bb::ir::Error::Unsupported { op: "exp", dtype: DataType::F32 };
            (op == Primitive::Exp).then(|| Err(bb_reference::Error::from(bb::Error::from(error))))
        }),
    );
    let on: Arc<Runtime> = failing;
    let three = TensorData::new(&[1], &[3f32]).unwrap();
    assert_eq!(
        failure(&on, looped("Exp", true), &[three]),
        [
            "backend `no exp` failed in `run`",
            "node `Loop_y` (Loop) failed",
            "iteration 0 failed",
            "node `Exp_next` (Exp) failed",
            "`exp` does not take element type f32",
        ]
    );
    // If the loop is unrolled, the error names only the loop.
    let chain = failure(&on, looped("Exp", false), &[f32s(&[1])]);
    assert_eq!(
        chain.get(1..).unwrap(),
        ["node `Loop_y` (Loop) failed", "`exp` does not take element type f32"]
    );
}

#[test]
fn an_error_of_a_whole_graph_names_its_nodes() {
    // The divisor is an element that is known only at run time.
    let mut g = graph(
        vec![node("Neg", &["k"], &["a"]), node("Div", &["a", "k"], &["b"]), node("Abs", &["b"], &["y"])],
        &["y"],
    );
    g.input = vec![value("k", 7, &["n"])];
    let on = backends::start("whole-graph").unwrap();
    let chain = failure(&on, g, &[TensorData::new(&[1], &[0i64]).unwrap()]);
    assert_eq!(chain.get(1).unwrap(), "the 3 nodes from `Neg_a` to `Abs_y`, which run as one graph, failed");
    assert_eq!(chain.last().unwrap(), "`div`: integer division by zero");
}

#[test]
fn an_error_of_reading_back_names_the_node() {
    /// A backend that cannot copy `f32` to the host.
    struct Mute;
    type Tensor = <Reference as bb::Backend>::Tensor;
    impl Mute {
        fn call(
            &self,
            op: Primitive,
            inputs: &[Option<&Tensor>],
            params: &[bb::ir::op::Param<'_>],
        ) -> Result<bb::Outputs<Tensor>, bb_reference::Error> {
            bb::call_primitive(&Reference, op, inputs, params)
        }
    }
    impl bb::Backend for Mute {
        type Tensor = Tensor;
        type Error = bb_reference::Error;

        bb::forward_to_call!(Self::call);

        fn to_host(&self, x: &Tensor) -> Result<TensorData, bb_reference::Error> {
            let dtype = bb::Tensor::dtype(x);
            Err(bb::Error::from(bb::ir::Error::Unsupported { op: "to_host", dtype }).into())
        }
    }
    let on: Arc<Runtime> = Runtime::named("mute", Mute);
    // The node runs as a host kernel.
    let chain = failure(&on, graph(vec![node("NonZero", &["x"], &["y"])], &["y"]), &[f32s(&[2])]);
    let expected = [
        "node `NonZero_y` (NonZero) failed",
        "`x` of f32 cannot be copied to the host",
        "`to_host` does not take element type f32",
    ];
    assert_eq!(chain.get(1..).unwrap(), expected);
    // The next node needs the elements of this value during tracing.
    let mut g = graph(vec![node("Expand", &["x", "to"], &["y"])], &["y"]);
    g.input.push(value("to", 7, &["1"]));
    let chain = failure(&on, g, &[f32s(&[1]), TensorData::new(&[1], &[4i64]).unwrap()]);
    let expected = ["node `Expand_y` (Expand) failed", "`to` of i64 cannot be copied to the host"];
    assert_eq!(chain.get(1..3).unwrap(), expected);
}
