//! The first node whose values differ on two backends is found.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::conformance::compare_nodes;
use bb::conformance::onnx::Tolerance;
use bb::onnx::Item;
use bb::{Backend, BackendAttrs, BackendRuntime, GraphProto, Module, Runtime, TensorData};
use bb_reference::{Error, Reference, Tensor};
use bb_tests::backends;
use bb_tests::model::{model, node};
use std::collections::HashMap;
use std::sync::Arc;

/// Computes logarithms where it should compute exponentials.
#[derive(Default)]
struct Wrong(Reference);

impl Wrong {
    fn run(
        &self,
        graph: &GraphProto,
        inputs: HashMap<String, Tensor>,
        attrs: BackendAttrs<'_>,
    ) -> Result<HashMap<String, Tensor>, Error> {
        let mut graph = graph.clone();
        for node in graph.node.iter_mut().filter(|n| n.op_type() == "Exp") {
            node.op_type = Some("Log".to_owned());
        }
        self.0.execute(&graph, inputs, attrs)
    }
}

impl Backend for Wrong {
    type Tensor = Tensor;
    type Error = Error;

    bb::forward_to_execute!(Self::run);

    fn to_host(&self, x: &Tensor) -> Result<TensorData, Error> {
        self.0.to_host(x)
    }
}

fn compared(on: &Arc<dyn BackendRuntime>) -> Vec<(String, bool)> {
    let nodes = vec![
        node("Neg", &["x"], &["a"]),
        node("Abs", &["a"], &["b"]),
        node("Exp", &["b"], &["c"]),
        node("Add", &["c", "x"], &["y"]),
    ];
    let bytes = model(&[("x", &[2])], nodes, &[("y", &[2])]);
    let module = Module::from_bytes(bytes.into(), &bb::ir::Limits::default(), None).unwrap();
    let inputs = [Some(Item::Tensor(TensorData::new(&[2], &[1f32, -2.0]).unwrap()))];
    let right = backends::start("reference").unwrap();
    let results = compare_nodes(&module, &inputs, [&right, on], Tolerance::default()).unwrap();
    for result in &results {
        let [Item::Tensor(_), Item::Tensor(_)] = &result.made else { panic!("tensors") };
    }
    results.into_iter().map(|r| (r.value, r.difference.is_some())).collect()
}

#[test]
fn a_wrong_operation_is_the_first_that_differs() {
    let wrong: Arc<dyn BackendRuntime> = Runtime::named("wrong", Wrong::default());
    let results = compared(&wrong);
    assert_eq!(results.iter().map(|r| r.0.as_str()).collect::<Vec<_>>(), ["a", "b", "c", "y"]);
    assert_eq!(results.iter().position(|r| r.1), Some(2));
    assert!(results[3].1, "what follows differs too");
}

#[test]
fn right_backends_agree_on_every_value() {
    for name in backends::NAMES {
        assert!(compared(&backends::start(name).unwrap()).iter().all(|r| !r.1), "{name}");
    }
}
