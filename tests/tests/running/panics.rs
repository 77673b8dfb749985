//! Tests that a panic within a plan is an error that tells the node, on backends with kernels and on those for whole graphs.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::ir::proto::{GraphProto, NodeProto};
use bb::{
    Backend, BackendAttrs, BackendHandle, CompileOptions, Error, ErrorKind, Module, Runtime, TensorData,
};
use bb_cpu::Cpu;
use bb_layers::{Fault, FaultKind, FaultOptions};
use bb_reference::Reference;
use bb_tests::model::{model, named, node, with_floats, with_graph, with_int};
use std::collections::HashMap;

/// Returns the options of a layer that makes each call of an operation panic.
fn panics(op: &str) -> FaultOptions {
    FaultOptions::rate(FaultKind::Panic, 1.0, 0).with_op(op)
}

/// Compiles a model of a list of four floats and runs it. Returns the error and its causes, each as text.
fn failed(on: &BackendHandle, nodes: Vec<NodeProto>) -> (Error, Vec<String>) {
    let module = Module::from_bytes(model(&[("x", &[4])], nodes, &[("y", &[4])])).unwrap();
    let run = || {
        let program = on.compile(module, &CompileOptions::default().with_fuse(false))?;
        program.run(&[Some(&on.tensor(&[4], &[1f32, -2.0, 3.0, 0.5])?)])
    };
    let error = run().unwrap_err();
    let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    let causes = causes.map(ToString::to_string).collect();
    (error, causes)
}

/// Expects that the chain of an error has these parts in their order, and that the backend counts one panic.
fn told(on: &BackendHandle, nodes: Vec<NodeProto>, parts: &[&str]) {
    let (error, causes) = failed(on, nodes);
    let mut left = causes.iter();
    for part in parts {
        assert!(left.any(|cause| cause.contains(part)), "`{part}` is not told: {causes:?}");
    }
    assert_eq!(on.error_kind(&error), ErrorKind::Device, "{causes:?}");
    let status = on.runtime().status();
    assert_eq!((status.panics, status.failures), (1, 1), "{causes:?}");
    let x = on.tensor(&[1], &[4f32]).unwrap();
    assert_eq!(on.to_host(&on.neg(&x).unwrap()).unwrap(), TensorData::new(&[1], &[-4f32]).unwrap());
}

fn nodes() -> Vec<NodeProto> {
    vec![node("Neg", &["x"], &["z"]), named("grows", node("Exp", &["z"], &["y"]))]
}

#[test]
fn of_a_plan() {
    let parts = [
        "backend `on` failed in `run`",
        "node `grows` (Exp) failed",
        "the kernel of `exp` panicked: an injected panic",
    ];
    told(&BackendHandle::start("on", Fault::new(Cpu::new(), panics("exp"))), nodes(), &parts);
    told(&BackendHandle::start("on", Fault::new(Reference, panics("exp"))), nodes(), &parts);
}

#[test]
fn of_an_operation_that_a_node_is_lowered_to() {
    let nodes = vec![named("mish", node("Mish", &["x"], &["y"]))];
    let parts = ["node `mish` (Mish) failed", "the kernel of `exp` panicked: an injected panic"];
    told(&BackendHandle::start("on", Fault::new(Reference, panics("exp"))), nodes, &parts);
}

#[test]
fn of_a_constant_that_is_computed_when_the_plan_is_made() {
    // It is too large to be computed while the graph is traced.
    let constant = with_floats(node("Constant", &[], &["c"]), "value_floats", &[0.5; 1 << 14]);
    let nodes = vec![
        constant,
        named("grows", node("Exp", &["c"], &["e"])),
        with_int(node("ReduceSum", &["e"], &["s"]), "keepdims", 0),
        node("Add", &["x", "s"], &["y"]),
    ];
    let on = BackendHandle::start("on", Fault::new(Cpu::new(), panics("exp")));
    told(&on, nodes, &["node `grows` (Exp) failed", "the kernel of `exp` panicked: an injected panic"]);
}

#[test]
fn of_a_loop() {
    let body = vec![
        node("Identity", &["going"], &["go_on"]),
        named("grows", node("Exp", &["carried"], &["more"])),
        node("Neg", &["more"], &["kept"]),
    ];
    let repeated = named("repeats", node("Loop", &["count", "", "x"], &["y"]));
    let nodes = vec![
        node("NonZero", &["x"], &["where"]),
        node("Size", &["where"], &["count"]),
        with_graph(repeated, "body", &["step", "going", "carried"], body, &["go_on", "kept"]),
    ];
    let on = BackendHandle::start("on", Fault::new(Cpu::new(), panics("exp")));
    told(&on, nodes, &["node `repeats` (Loop) failed", "an injected panic"]);
}

/// A backend for whole graphs that lacks exponentials.
struct Whole;

impl Whole {
    fn run(
        &self,
        graph: &GraphProto,
        inputs: HashMap<String, bb_reference::Tensor>,
        attrs: BackendAttrs<'_>,
    ) -> Result<HashMap<String, bb_reference::Tensor>, bb_reference::Error> {
        assert!(graph.node.iter().all(|node| node.op_type() != "Exp"), "the chip has no exponentials");
        Reference.execute(graph, inputs, attrs)
    }
}

impl Backend for Whole {
    type Tensor = bb_reference::Tensor;
    type Error = bb_reference::Error;

    bb::forward_to_execute!(Self::run);

    fn wrapped(error: &bb_reference::Error) -> Option<&Error> {
        Reference::wrapped(error)
    }

    fn to_host(&self, x: &bb_reference::Tensor) -> Result<TensorData, bb_reference::Error> {
        Reference.to_host(x)
    }
}

#[test]
fn of_a_whole_graph() {
    let parts = ["the 2 nodes from `Neg_z` to `grows`", "the chip has no exponentials"];
    told(&BackendHandle::new(Runtime::named("on", Whole)), nodes(), &parts);
}
