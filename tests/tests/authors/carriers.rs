//! Tests nodes that carry a graph: a deployment sends the body to its backend as a whole, and a plan runs it in place.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::{
    Backend, BackendAttrs, BackendHandle, CompileOptions, CompletionHandle, ContractResponse, Deployment,
    Error, GraphProto, Module, Runtime, TensorData, Value,
};
use bb_reference::{Reference, Tensor};
use bb_tests::model::{custom, model, node, with_graph, with_int, with_texts};
use bb_tests::on_reference::by_reference;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

type Named = HashMap<String, Tensor>;

/// A recorded call of `dispatch`: the operators, the inputs of the graph, and the attributes.
type Seen = (Vec<String>, Vec<String>, Vec<String>);

/// A backend with its own `dispatch`.
#[derive(Default, bb::Backend)]
#[bb(name = "carries")]
struct Dispatches(Arc<Mutex<Vec<Seen>>>);

impl Backend for Dispatches {
    type Tensor = Tensor;
    type Error = bb_reference::Error;

    bb::forward_to_call!(by_reference);

    fn to_host(&self, x: &Tensor) -> Result<TensorData, bb_reference::Error> {
        Reference.to_host(x)
    }

    fn dispatch(
        &self,
        graph: Arc<GraphProto>,
        inputs: Named,
        attrs: BackendAttrs<'_>,
        _completion: CompletionHandle<Named, bb_reference::Error>,
    ) -> ContractResponse<Named, bb_reference::Error> {
        let ops = graph.node.iter().map(|node| node.op_type().to_owned()).collect();
        let names = graph.input.iter().map(|input| input.name().to_owned()).collect();
        let mut given: Vec<_> =
            attrs.attributes.iter().map(|attribute| attribute.name().to_owned()).collect();
        given.sort();
        self.0.lock().unwrap().push((ops, names, given));
        ContractResponse::Now(self.execute(&graph, inputs, attrs))
    }
}

/// The message of an error with its causes.
fn chain(error: &bb::Error) -> String {
    let all = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    all.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn text(node: bb::ir::proto::NodeProto, name: &str, value: &str) -> bb::ir::proto::NodeProto {
    let mut node = node;
    node.attribute.push(bb::ir::proto::AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(bb::ir::proto::attribute_proto::AttributeType::String as i32),
        s: Some(value.as_bytes().to_vec()),
        ..Default::default()
    });
    node
}

/// `y = exp(-x - w) + x`, where a carrier node computes the exponential. Its body captures `w`.
fn carried(attributes: impl FnOnce(bb::ir::proto::NodeProto) -> bb::ir::proto::NodeProto) -> Vec<u8> {
    let inside =
        vec![node("Neg", &["a"], &["m"]), node("Sub", &["m", "w"], &["d"]), node("Exp", &["d"], &["e"])];
    let carrier = with_graph(custom("BackendSubgraph", &["x"], &["z"]), "body", &["a"], inside, &["e"]);
    let nodes = vec![node("Abs", &["x"], &["w"]), attributes(carrier), node("Add", &["z", "x"], &["y"])];
    model(&[("x", &[2])], nodes, &[("y", &[2])])
}

const X: [f32; 2] = [0.5, -1.0];

fn is_right(y: &Value) -> bool {
    let found = y.to_host(64).unwrap();
    let expected = X.map(|x| (-x - x.abs()).exp() + x);
    found.as_slice::<f32>().unwrap().iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6)
}

#[test]
fn a_carrier_is_dispatched_whole_to_its_backend_with_its_attributes() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let own = BackendHandle::new(Runtime::new(Dispatches(seen.clone())));
    let reference = BackendHandle::new(Runtime::new(Reference));
    let name = own.name();
    let bytes =
        carried(|node| with_texts(with_int(text(node, "backend", name), "queue", 3), "hints", &["fast"]));
    let deployment =
        Deployment::builder().model("m", bytes).backend(reference).backend(own.clone()).ready().unwrap();
    let model = deployment.model("m").unwrap();
    let x = own.tensor(&[2], &X).unwrap();
    for _ in 0..2 {
        assert!(is_right(&model.run(&[Some(&x)]).unwrap()[0]));
    }
    let all = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let once = (all(&["Neg", "Sub", "Exp"]), all(&["a", "w"]), all(&["backend", "hints", "queue"]));
    assert_eq!(*seen.lock().unwrap(), [once.clone(), once]);
    assert_eq!(model.subgraphs().count(), 3);
}

#[test]
fn a_rule_goes_before_the_backend_that_a_model_names_and_one_that_is_not_bound_is_an_error() {
    let own = || BackendHandle::new(Runtime::new(Dispatches::default()));
    let reference = || BackendHandle::new(Runtime::new(Reference));
    let handle = own();
    let seen = handle.typed::<Dispatches>().unwrap().0.clone();
    let bytes = || carried(|node| text(node, "backend", "reference"));
    let builder = Deployment::builder().model("m", bytes()).backend(reference()).backend(handle.clone());
    let deployment = builder.bind_op("BackendSubgraph", handle.name()).ready().unwrap();
    let x = handle.tensor(&[2], &X).unwrap();
    assert!(is_right(&deployment.model("m").unwrap().run(&[Some(&x)]).unwrap()[0]));
    assert_eq!(seen.lock().unwrap().len(), 1);
    let lonely = Deployment::builder().model("m", bytes()).backend(own()).ready().unwrap_err();
    assert!(lonely.to_string().contains("reference"), "{lonely}");
}

#[test]
fn a_plan_runs_the_body_in_place_of_its_carrier() {
    for on in
        [BackendHandle::new(Runtime::new(Reference)), BackendHandle::new(Runtime::new(Dispatches::default()))]
    {
        let module = Module::from_bytes(carried(|node| node)).unwrap();
        let program = on.compile(module, &CompileOptions::default()).unwrap();
        let x = on.tensor(&[2], &X).unwrap();
        assert!(is_right(&program.run(&[Some(&x)]).unwrap()[0]));
    }
}

#[test]
fn carriers_in_carriers_and_branches_run_and_wrong_ones_are_refused() {
    let on = BackendHandle::new(Runtime::new(Reference));
    let run = |bytes: Vec<u8>| {
        let program = on.compile(Module::from_bytes(bytes)?, &CompileOptions::default())?;
        let x = on.tensor(&[2], &X)?;
        Ok::<_, Error>(program.run(&[Some(&x)])?[0].to_host(64)?.as_slice::<f32>()?.to_vec())
    };
    let inner = with_graph(
        custom("BackendSubgraph", &["b"], &["c"]),
        "body",
        &["p"],
        vec![node("Neg", &["p"], &["q"])],
        &["q"],
    );
    let outer = with_graph(custom("BackendSubgraph", &["x"], &["y"]), "body", &["b"], vec![inner], &["c"]);
    assert_eq!(run(model(&[("x", &[2])], vec![outer], &[("y", &[2])])).unwrap(), X.map(|x| -x));
    let carrier = |inputs: &[&str], outputs: &[&str]| {
        with_graph(
            custom("BackendSubgraph", inputs, outputs),
            "body",
            &["p"],
            vec![node("Neg", &["p"], &["q"])],
            &["q"],
        )
    };
    for (inputs, outputs, what) in [
        (&["x", "x"][..], &["y"][..], "inputs"),
        (&[], &["y"], "lack the input 0 of the body, `p`"),
        (&["x"], &["y", "z"], "outputs"),
    ] {
        let error = run(model(&[("x", &[2])], vec![carrier(inputs, outputs)], &[("y", &[2])])).unwrap_err();
        let told = chain(&error);
        assert!(told.contains("BackendSubgraph") && told.contains(what), "{told}");
    }
    // Without a body it is an unknown operator.
    let bare = run(model(&[("x", &[2])], vec![custom("BackendSubgraph", &["x"], &["y"])], &[("y", &[2])]));
    assert!(matches!(bare, Err(Error::Kernel { .. } | Error::Unsupported { .. })), "{bare:?}");
}
