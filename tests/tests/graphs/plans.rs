//! Tests compiled graphs: few tensors are alive at the same time, one plan serves all extents if no operation
//! depends on them, and a new segment begins where the next step depends on a value.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::{
    Backend, BackendAttrs, CompileOptions, ErasedExecutable, GraphIdentity, GraphProto, Module, Runtime,
    TensorData,
};
use bb_reference::Reference;
use bb_tests::backends;
use bb_tests::counting::Counting;
use bb_tests::model::{model, node, with_int};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

fn compile(on: &Arc<Runtime>, model: Vec<u8>) -> Arc<dyn ErasedExecutable> {
    let module = Module::from_bytes(model).unwrap();
    on.clone().compile(module, &CompileOptions::default()).unwrap()
}

/// Runs a compiled graph with f32 inputs; returns shapes and elements of the outputs.
fn run(
    on: &Arc<Runtime>,
    graph: &dyn ErasedExecutable,
    inputs: &[(&[usize], &[f32])],
) -> Vec<(Vec<usize>, Vec<f32>)> {
    let upload = |(shape, elements): &(&[usize], &[f32])| {
        on.constant(&TensorData::new(shape, elements).unwrap()).unwrap()
    };
    let inputs: Vec<_> = inputs.iter().map(upload).collect();
    let outputs = graph.run(&inputs.iter().map(Some).collect::<Vec<_>>()).unwrap();
    let read = |x| {
        let x = on.to_host(x).unwrap();
        (x.shape().to_vec(), x.as_slice::<f32>().unwrap().to_vec())
    };
    outputs.iter().map(read).collect()
}

#[test]
fn a_long_chain_keeps_three_tensors_alive() {
    const LENGTH: usize = 10_000;
    let nodes = (0..LENGTH).map(|i| node("Neg", &[&format!("v{i}")], &[&format!("v{}", i + 1)])).collect();
    let bytes = model(&[("v0", &[4])], nodes, &[(&format!("v{LENGTH}"), &[4])]);
    let counting = Counting::default();
    let counts = counting.counts();
    let on: Arc<Runtime> = Runtime::named("counting", counting);
    let graph = compile(&on, bytes);
    for _ in 0..2 {
        let before = counts.operations();
        let outputs = run(&on, &*graph, &[(&[4], &[1.0, -2.0, 3.0, 0.5])]);
        assert_eq!(outputs[0].1, [1.0, -2.0, 3.0, 0.5]);
        // The chain, and the constant that made the input.
        assert_eq!(counts.operations() - before, LENGTH + 1);
    }
    assert!(counts.most_alive() <= 3, "{} tensors were alive at once", counts.most_alive());
    assert_eq!(counts.alive(), 0);
}

#[test]
fn the_parts_of_a_split_arrive_in_order() {
    let split = with_int(node("Split", &["x"], &["a", "b", "c"]), "num_outputs", 3);
    let bytes = model(&[("x", &[5])], vec![split], &[("c", &[1]), ("a", &[2]), ("b", &[2])]);
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        let parts = run(&on, &*compile(&on, bytes.clone()), &[(&[5], &[0.0, 1.0, 2.0, 3.0, 4.0])]);
        // ONNX: all parts have the same extent, except that the last part may be smaller.
        assert_eq!(
            parts,
            [(vec![1], vec![4.0]), (vec![2], vec![0.0, 1.0]), (vec![2], vec![2.0, 3.0])],
            "{name}"
        );
    }
}

/// A backend that runs whole graphs and records the identity of each.
#[derive(Default)]
struct Noting(Arc<Mutex<Vec<Option<GraphIdentity>>>>);

impl Noting {
    fn run(
        &self,
        graph: &GraphProto,
        inputs: HashMap<String, bb_reference::Tensor>,
        attrs: BackendAttrs<'_>,
    ) -> Result<HashMap<String, bb_reference::Tensor>, bb_reference::Error> {
        // Constants are made by graphs of one node that have no identity.
        if graph.node.iter().any(|n| n.op_type() != "Constant") {
            self.0.lock().unwrap().push(attrs.identity);
        }
        Reference.execute(graph, inputs, attrs)
    }
}

impl Backend for Noting {
    type Tensor = bb_reference::Tensor;
    type Error = bb_reference::Error;

    bb::forward_to_execute!(Self::run);

    fn to_host(&self, x: &Self::Tensor) -> Result<TensorData, Self::Error> {
        Reference.to_host(x)
    }
}

/// Runs a model on inputs of one, two and three elements; returns the number of different graphs.
fn graphs_for_three_extents(nodes: Vec<bb::ir::proto::NodeProto>) -> usize {
    let noting = Noting::default();
    let noted = noting.0.clone();
    let on: Arc<Runtime> = Runtime::named("noting", noting);
    let graph = compile(&on, model(&[("x", &[-1])], nodes, &[("y", &[-1])]));
    for elements in [&[1f32][..], &[1.0, 2.0], &[1.0, 2.0, 3.0], &[4.0, 5.0]] {
        let outputs = run(&on, &*graph, &[(&[elements.len()], elements)]);
        assert_eq!(outputs[0].0, [elements.len()]);
    }
    let noted = noted.lock().unwrap();
    assert_eq!(noted.len(), 4);
    let different: std::collections::HashSet<_> = noted.iter().map(|identity| identity.unwrap()).collect();
    different.len()
}

#[test]
fn one_plan_serves_all_extents_if_no_operation_depends_on_them() {
    assert_eq!(
        graphs_for_three_extents(vec![node("Exp", &["x"], &["e"]), node("Add", &["e", "x"], &["y"])]),
        1
    );
}

#[test]
fn a_plan_serves_one_extent_if_an_operation_depends_on_it() {
    // The size of a part depends on the extent.
    let split = with_int(node("Split", &["x"], &["s"]), "num_outputs", 1);
    assert_eq!(graphs_for_three_extents(vec![split, node("Neg", &["s"], &["y"])]), 3);
}

#[test]
fn a_computed_shape_is_known_to_the_next_segment() {
    // The extents are elements of an input, so they are only known after the first nodes ran.
    let nodes = vec![
        node("Add", &["s", "s"], &["twice"]),
        with_int(node("Cast", &["twice"], &["shape"]), "to", 7),
        node("Neg", &["x"], &["n"]),
        node("Reshape", &["n", "shape"], &["r"]),
        node("Exp", &["r"], &["y"]),
    ];
    let bytes = model(&[("x", &[8]), ("s", &[2])], nodes, &[("y", &[-1, -1])]);
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        let graph = compile(&on, bytes.clone());
        for (s, shape) in [([1.0, 2.0], [2, 4]), ([2.0, 1.0], [4, 2]), ([1.0, 2.0], [2, 4])] {
            let outputs = run(&on, &*graph, &[(&[8], &[0.0; 8]), (&[2], &s)]);
            assert_eq!(outputs, [(shape.to_vec(), vec![1.0; 8])], "{name}");
        }
    }
}

#[test]
fn an_input_of_another_element_type_is_refused() {
    let bytes = model(&[("x", &[2])], vec![node("Neg", &["x"], &["y"])], &[("y", &[2])]);
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        let x = on.constant(&TensorData::new(&[2], &[1i64, 2]).unwrap()).unwrap();
        let error = compile(&on, bytes.clone()).run(&[Some(&x)]).unwrap_err();
        let mut cause: &dyn std::error::Error = &error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        let expected = "input `x` is declared as f32[2], got i64[2]: element type i64 must be f32";
        assert_eq!(cause.to_string(), expected, "{name}: {error}");
    }
}

#[test]
fn a_loop_without_end_is_an_error() {
    let bytes = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/data/fuzzed/endless_loop.onnx")).unwrap();
    let mut options = CompileOptions::default();
    options.iterations = 100;
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        let module = Module::from_bytes(bytes.clone()).unwrap();
        let graph = on.clone().compile(module, &options).unwrap();
        let x = on.constant(&TensorData::scalar(1f32)).unwrap();
        let error = graph.run(&[Some(&x)]).unwrap_err();
        let first: &dyn std::error::Error = &error;
        let causes = std::iter::successors(Some(first), |e| e.source()).map(ToString::to_string);
        let causes: Vec<String> = causes.collect();
        assert!(causes.iter().any(|c| c.contains("iterations of loops: at most 100")), "{name}: {causes:?}");
    }
}

/// A backend that records the declared inputs of its graphs.
#[derive(Default)]
struct Declared(Arc<Mutex<Vec<String>>>);

impl Declared {
    fn run(
        &self,
        graph: &GraphProto,
        inputs: HashMap<String, bb_reference::Tensor>,
        attrs: BackendAttrs<'_>,
    ) -> Result<HashMap<String, bb_reference::Tensor>, bb_reference::Error> {
        let declared = bb_ir::check::declared_inputs(graph).unwrap();
        self.0.lock().unwrap().extend(declared.iter().map(|(_, ty)| ty.to_string()));
        Reference.execute(graph, inputs, attrs)
    }
}

impl Backend for Declared {
    type Tensor = bb_reference::Tensor;
    type Error = bb_reference::Error;

    bb::forward_to_execute!(Self::run);

    fn to_host(&self, x: &Self::Tensor) -> Result<TensorData, Self::Error> {
        Reference.to_host(x)
    }
}

#[test]
fn a_graph_declares_the_extents_for_which_it_is_valid() {
    let declared = |extent: i64| {
        let backend = Declared::default();
        let noted = backend.0.clone();
        let on: Arc<Runtime> = Runtime::named("declared", backend);
        let graph =
            compile(&on, model(&[("x", &[extent])], vec![node("Neg", &["x"], &["y"])], &[("y", &[-1])]));
        noted.lock().unwrap().clear();
        run(&on, &*graph, &[(&[2], &[1.0, 2.0])]);
        let noted = noted.lock().unwrap();
        noted.last().unwrap().clone()
    };
    assert_eq!((declared(2), declared(-1)), ("f32[2]".to_owned(), "f32[?]".to_owned()));
}
