//! A backend with few element types: which nodes it declines, and results of a wrong element type.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::conformance::onnx::{self, Outcome};
use bb::ir::graph::{Graph, Node};
use bb::ir::op::Param;
use bb::{
    Backend, BackendAttrs, BackendHandle, DataType, DataTypes, Error, ErrorKind, GraphProto, Module, Outputs,
    Primitive, Runtime, TensorData,
};
use bb_reference::Reference;
use bb_tests::few::Few;
use bb_tests::model::{model, node};
use std::collections::HashMap;

type Tensor = <Few as Backend>::Tensor;

/// It declines `Abs`, and negates into `i32`.
struct Picky(Few);

impl Picky {
    fn call(
        &self,
        op: Primitive,
        inputs: &[Option<&Tensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<Tensor>, <Few as Backend>::Error> {
        let results = bb::call_primitive(&self.0, op, inputs, params)?;
        let cast = |y: &Tensor| self.0.cast(y, DataType::I32, true, bb::RoundMode::Up);
        if op == Primitive::Neg { results.iter().map(cast).collect() } else { Ok(results) }
    }
}

impl Backend for Picky {
    type Tensor = Tensor;
    type Error = <Few as Backend>::Error;

    bb::forward_to_call!(Self::call);

    fn to_host(&self, x: &Tensor) -> Result<TensorData, Self::Error> {
        self.0.to_host(x)
    }

    fn types(&self) -> DataTypes {
        self.0.types()
    }

    fn declines(&self, _: &Graph, node: &Node) -> Option<String> {
        (node.op_type == "Abs").then(|| "has no sign".to_owned())
    }
}

#[test]
fn a_backend_with_few_types_declines_nodes() {
    let on = BackendHandle::new(Runtime::erased("picky", Picky(Few::least()), &[]));
    let nodes = vec![node("Abs", &["x"], &["a"]), node("Exp", &["a"], &["y"])];
    let module = Module::from_bytes(model(&[("x", &[2])], nodes, &[("y", &[2])])).unwrap();
    let graph = module.graph();
    let declined: Vec<_> = graph.nodes.iter().map(|node| on.runtime().declines(graph, node)).collect();
    assert_eq!(declined, [Some("has no sign".to_owned()), None]);
}

/// A compiler that declines `Add`, and fails to compile it.
struct Strict(Reference);

impl Strict {
    fn run(
        &self,
        graph: &GraphProto,
        inputs: HashMap<String, bb_reference::Tensor>,
        attrs: BackendAttrs<'_>,
    ) -> Result<HashMap<String, bb_reference::Tensor>, bb_reference::Error> {
        let wrong = graph.node.iter().any(|node| node.op_type() == "Add");
        if wrong {
            return Err(Error::layer("strict", "add", ErrorKind::Device, "cannot be compiled").into());
        }
        self.0.execute(graph, inputs, attrs)
    }
}

impl Backend for Strict {
    type Tensor = bb_reference::Tensor;
    type Error = bb_reference::Error;

    bb::forward_to_execute!(Self::run);

    fn to_host(&self, x: &Self::Tensor) -> Result<TensorData, Self::Error> {
        self.0.to_host(x)
    }

    fn declines(&self, _: &Graph, node: &Node) -> Option<String> {
        (node.op_type == "Add").then(|| "has no sums".to_owned())
    }
}

/// The suite skips cases with nodes that the backend declines, and runs the others.
#[test]
fn cases_that_a_backend_declines_are_skipped() {
    let on = BackendHandle::new(Runtime::erased("strict", Strict(Reference), &[]));
    let outcome = |case: &str| {
        let path = bb_onnx_cases::folder().unwrap().join("node").join(case);
        onnx::examine(case.to_owned(), &path, on.runtime()).outcome
    };
    assert_eq!(outcome("test_neg_example"), Outcome::Passed);
    assert_eq!(outcome("test_add"), Outcome::Skipped("nodes that the backend declines".to_owned()));
}

#[test]
fn a_result_of_a_wrong_type_is_the_fault_of_its_operation() {
    let on = BackendHandle::new(Runtime::erased("picky", Picky(Few::least()), &[]));
    let x = on.tensor(&[2], &[1f32, 2.0]).unwrap();
    let error = x.neg().map(drop).unwrap_err();
    assert_eq!(on.error_kind(&error), ErrorKind::Device);
    let expected = "result 0 of `neg` is i32[2], expected f32[2]: the backend returned it";
    let mut causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    assert!(causes.any(|cause| cause.to_string() == expected), "{error:?}");
}
