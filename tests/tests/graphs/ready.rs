//! Tests what `ready()` reports before anything runs: nodes that cannot run, with their element types, and
//! settings without effect.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::coverage::Why;
use bb::deployment::{DeploymentBuilder, Side};
use bb::{BackendHandle, BoxError, Ctx, DataType, Deployment, Error, Problem, Runtime, Value};
use bb_reference::Reference;
use bb_tests::model::{custom, model, node, typed, with_function, with_graph, with_int};
use bb_tests::tampered::{Hook, Tampered, refuse_others};

fn reference() -> BackendHandle {
    BackendHandle::new(Runtime::new(Reference))
}

fn tampered(name: &'static str, hook: Hook) -> BackendHandle {
    BackendHandle::new(Runtime::named(name, Tampered(hook)))
}

/// A backend that supports three element types.
fn three() -> BackendHandle {
    tampered("three", |op, inputs, params| {
        refuse_others(&[DataType::F32, DataType::I64, DataType::Bool], op, inputs, params)
    })
}

/// A backend that supports one element type.
fn one() -> BackendHandle {
    tampered("one", |op, inputs, params| refuse_others(&[DataType::F32], op, inputs, params))
}

fn problems(builder: DeploymentBuilder) -> Vec<Problem> {
    match builder.ready() {
        Err(Error::NotReady { problems }) => problems.0,
        Err(other) => panic!("expected everything that is wrong, got {other}"),
        Ok(node) => panic!("{node:?} is ready"),
    }
}

/// Returns the problems as text.
fn texts(builder: DeploymentBuilder) -> Vec<String> {
    problems(builder).iter().map(Problem::to_string).collect()
}

fn on(model: Vec<u8>, backend: BackendHandle) -> DeploymentBuilder {
    Deployment::builder().model("m", model).backend(backend)
}

/// Returns the nodes that cannot run, with the operations and element types that the backend refuses.
fn refused(builder: DeploymentBuilder) -> Vec<(String, Vec<String>)> {
    let node = |problem: Problem| match problem {
        Problem::Node(uncovered) => match uncovered.missing.why {
            Why::ElementTypes(refusals) => {
                (uncovered.missing.node.node, refusals.iter().map(ToString::to_string).collect())
            }
            other => panic!("expected element types, got {other:?}"),
        },
        other => panic!("expected a node, got {other}"),
    };
    problems(builder).into_iter().map(node).collect()
}

/// Casts `x` to a type and back.
fn cast_and_back(dtype: DataType, extent: i64) -> Vec<u8> {
    let nodes = vec![
        with_int(node("Cast", &["x"], &["a"]), "to", dtype.to_onnx().into()),
        with_int(node("Cast", &["a"], &["z"]), "to", DataType::F32.to_onnx().into()),
    ];
    model(&[("x", &[extent])], nodes, &[("z", &[extent])])
}

/// Checks that a model is ready, and runs it on zeros.
fn runs(model: Vec<u8>, backend: BackendHandle, shape: &[usize]) {
    let ready = on(model, backend.clone()).ready().unwrap();
    let x = backend.tensor(shape, &vec![0f32; shape.iter().product()]).unwrap();
    ready.run_named([("x", x)]).unwrap();
}

#[test]
fn a_cast_to_a_type_that_the_backend_lacks_is_not_ready() {
    for extent in [2, -1] {
        let found = refused(on(cast_and_back(DataType::F16, extent), three()));
        assert_eq!(
            found,
            [
                ("Cast_a".to_owned(), vec!["`cast` of f32 to f16".to_owned()]),
                ("Cast_z".to_owned(), vec!["`constant` of f16".to_owned()]),
            ]
        );
    }
    runs(cast_and_back(DataType::I64, -1), three(), &[2]);
    let [text, _] = texts(on(cast_and_back(DataType::F16, 2), three())).try_into().unwrap();
    assert_eq!(
        text,
        "in `m`, asked of `three`: `Cast_a` is `Cast` of `ai.onnx` 23: it needs `cast` of f32 to f16, which is refused \
         (backend `three` failed in `cast`: `cast` does not take element type f16); bind the node to a backend that has \
         the type: `.bind_node(\"Cast_a\", …)`"
    );
}

#[test]
fn types_of_lowered_operations_are_checked() {
    let arg_max = || {
        let nodes = vec![with_int(node("ArgMax", &["x"], &["z"]), "axis", 0)];
        typed(model(&[("x", &[-1, 3])], nodes, &[("z", &[-1, 3])]), &[("z", DataType::I64)])
    };
    runs(arg_max(), three(), &[2, 3]);
    let found = refused(on(arg_max(), one()));
    assert_eq!(found.len(), 1, "{found:?}");
    let (name, what) = &found[0];
    assert!(name == "ArgMax_z" && what.contains(&"`constant` of i64".to_owned()), "{what:?}");
}

/// Extents are computed during tracing, not on the backend.
#[test]
fn arithmetic_of_extents_needs_no_integers_of_the_backend() {
    let nodes = vec![
        node("Shape", &["x"], &["s"]),
        node("Mul", &["s", "s"], &["t"]),
        node("Div", &["t", "s"], &["u"]),
        node("Reshape", &["y", "u"], &["e"]),
        node("Add", &["e", "x"], &["z"]),
    ];
    let bytes = model(&[("x", &[-1]), ("y", &[1, -1])], nodes, &[("z", &[-1])]);
    let backend = one();
    let ready = on(bytes, backend.clone()).ready().unwrap();
    assert!(ready.model("m").unwrap().placement().nodes.iter().all(|placed| placed.checked));
    let x = backend.tensor(&[3], &[0f32; 3]).unwrap();
    let y = backend.tensor(&[1, 3], &[2f32; 3]).unwrap();
    let z = ready.run_named([("x", x), ("y", y)]).unwrap();
    assert_eq!(z["z"].to_host(64).unwrap().as_slice::<f32>().unwrap(), [2.0; 3]);
}

/// The host computes `NonZero` and copies its result to the backend. The nodes after it are checked
/// nevertheless.
#[test]
fn nodes_after_a_data_dependent_one_are_checked() {
    let nodes = vec![
        node("NonZero", &["x"], &["at"]),
        with_int(node("Cast", &["at"], &["a"]), "to", DataType::F16.to_onnx().into()),
        with_int(node("Cast", &["a"], &["z"]), "to", DataType::F32.to_onnx().into()),
    ];
    let bytes = || model(&[("x", &[-1])], nodes.clone(), &[("z", &[1, -1])]);
    let names =
        |found: Vec<(String, Vec<String>)>| found.into_iter().map(|(node, _)| node).collect::<Vec<_>>();
    assert_eq!(names(refused(on(bytes(), three()))), ["Cast_a", "Cast_z"]);
    assert_eq!(names(refused(on(bytes(), one()))), ["NonZero_at", "Cast_a", "Cast_z"]);
}

/// If the sum of `x` is positive, `z` is `x` cast to f16 and back, else `z` is `x`.
fn branches() -> Vec<u8> {
    let then = vec![
        with_int(node("Cast", &["x"], &["a"]), "to", DataType::F16.to_onnx().into()),
        with_int(node("Cast", &["a"], &["b"]), "to", DataType::F32.to_onnx().into()),
    ];
    let choice = with_graph(node("If", &["c"], &["z"]), "then_branch", &[], then, &["b"]);
    let choice = with_graph(choice, "else_branch", &[], vec![node("Identity", &["x"], &["i"])], &["i"]);
    let nodes = vec![
        with_int(node("ReduceSum", &["x"], &["s"]), "keepdims", 0),
        with_int(node("Cast", &["s"], &["c"]), "to", DataType::Bool.to_onnx().into()),
        choice,
    ];
    model(&[("x", &[2])], nodes, &[("z", &[2])])
}

#[test]
fn element_types_inside_branches_are_checked() {
    let found = refused(on(branches(), three()));
    let names: Vec<&str> = found.iter().map(|(node, _)| node.as_str()).collect();
    assert_eq!(names, ["Cast_a", "Cast_b"]);
    runs(branches(), reference(), &[2]);
}

#[test]
fn types_of_native_operations_are_checked() {
    // The types of the inputs are checked too, although no node makes them.
    let bytes = typed(
        model(&[("x", &[2])], vec![node("Neg", &["x"], &["z"])], &[("z", &[2])]),
        &[("x", DataType::F64), ("z", DataType::F64)],
    );
    assert_eq!(refused(on(bytes, three())), [("Neg_z".to_owned(), vec!["`constant` of f64".to_owned()])]);
}

#[test]
fn every_missing_operator_of_every_model_is_listed_with_advice() {
    let first =
        vec![custom("Foo", &["x"], &["a"]), node("Neg", &["a"], &["b"]), node("Rellu", &["b"], &["z"])];
    let first = model(&[("x", &[2])], first, &[("z", &[2])]);
    let second = model(&[("x", &[2])], vec![node("Upsample", &["x"], &["z"])], &[("z", &[2])]);
    let invalid =
        vec![node("Add", &["x"], &["a"]), node("Neg", &["a", "a"], &["b"]), node("Mul", &["a", "b"], &["z"])];
    let invalid = model(&[("x", &[2])], invalid, &[("z", &[2])]);
    let built = on(first, reference()).model("second", second).model("third", invalid);
    assert_eq!(
        texts(built),
        [
            "in `m`, asked of `reference`: `Foo_a` is `Foo` of `test` 1: no operator of the domain is known; bind a \
             component to it: `.component(\"test\", \"Foo\", …)`",
            "in `m`, asked of `reference`: `Rellu_z` is `Rellu` of `ai.onnx` 23: `ai.onnx` has no such operator; the nearest \
             name is `Relu`; bind a component to it: `.component(\"ai.onnx\", \"Rellu\", …)`",
            "in `second`, asked of `reference`: `Upsample_z` is `Upsample` of `ai.onnx` 23: `ai.onnx` took it away with \
             opset 10; bind a component to it: `.component(\"ai.onnx\", \"Upsample\", …)`",
            "the model `third`: 2 mistakes: \n  node `Add_a` (`Add`) is not valid: expected 2 inputs, got 1\n  \
             node `Neg_b` (`Neg`) is not valid: expected 1 inputs, got 2",
        ]
    );
}

/// Doubles the operand.
fn twice(ctx: &Ctx<'_>, inputs: &[Option<&Value>]) -> Result<Vec<Value>, BoxError> {
    let [Some(x)] = inputs else { return Err("expected one operand".into()) };
    Ok(vec![ctx.backends.add(x, x)?])
}

fn z(ready: &Deployment, backend: &BackendHandle) -> Vec<f32> {
    let z =
        ready.run_named([("x", backend.tensor(&[2], &[1f32, 2.0]).unwrap())]).unwrap().remove("z").unwrap();
    z.to_host(64).unwrap().as_slice().unwrap().to_vec()
}

#[test]
fn a_component_may_be_bound_in_onnx_own_domain() {
    let bytes = model(
        &[("x", &[2])],
        vec![node("Twice", &["x"], &["a"]), node("Neg", &["a"], &["z"])],
        &[("z", &[2])],
    );
    for domain in ["", "ai.onnx"] {
        let backend = reference();
        let ready = on(bytes.clone(), backend.clone()).component(domain, "Twice", twice).ready().unwrap();
        assert_eq!(z(&ready, &backend), [-2.0, -4.0]);
    }
    // The component replaces an operator of ONNX, or one that ONNX has only in later opsets.
    let bytes = model(&[("x", &[2])], vec![node("Neg", &["x"], &["z"])], &[("z", &[2])]);
    let backend = reference();
    let ready = on(bytes, backend.clone()).component("", "Neg", twice).ready().unwrap();
    assert_eq!(z(&ready, &backend), [2.0, 4.0]);
}

#[test]
fn a_component_runs_in_the_functions_of_a_model_and_not_in_subgraphs() {
    let call = model(&[("x", &[2])], vec![custom("Call", &["x"], &["z"])], &[("z", &[2])]);
    let call = with_function(call, "Call", &["i"], vec![node("Twice", &["i"], &["o"])], &["o"]);
    let backend = reference();
    let ready = on(call, backend.clone()).component("", "Twice", twice).ready().unwrap();
    assert_eq!(z(&ready, &backend), [2.0, 4.0]);

    let branch = |op| {
        let choice = with_graph(
            node("If", &["c"], &["z"]),
            "then_branch",
            &[],
            vec![node(op, &["x"], &["t"])],
            &["t"],
        );
        let choice = with_graph(choice, "else_branch", &[], vec![node("Identity", &["x"], &["e"])], &["e"]);
        let condition = [
            with_int(node("ReduceSum", &["x"], &["s"]), "keepdims", 0),
            with_int(node("Cast", &["s"], &["c"]), "to", DataType::Bool.to_onnx().into()),
        ];
        model(&[("x", &[2])], condition.into_iter().chain([choice]).collect(), &[("z", &[2])])
    };
    // Without the component, `Neg` would silently run on the backend.
    for op in ["Twice", "Neg"] {
        let [text] = texts(on(branch(op), reference()).component("", op, twice)).try_into().unwrap();
        assert_eq!(
            text,
            format!(
                "in `m`, asked of `reference`: `{op}_t` is `{op}` of `ai.onnx` 23: a component is bound to it, but the node is \
                 inside `If_z`, and a subgraph goes to a backend as it is; bind a component to the operator of `If_z`"
            )
        );
    }
}

fn negated() -> Vec<u8> {
    model(&[("x", &[2])], vec![node("Neg", &["x"], &["a"]), node("Abs", &["a"], &["z"])], &[("z", &[2])])
}

#[test]
fn settings_without_effect_are_errors_that_name_a_similar_name() {
    let built = on(negated(), reference())
        .backend(three())
        .component("test", "Neg", twice)
        .component("test", "Twice", twice)
        .component("test", "Twice", twice)
        .bind_op("Nge", "three")
        .bind_node("Abs_x", "three")
        .bind_where(|node| node.op_type == "Sum", "three")
        .bind_op("Neg", "reference")
        .bind_node("Neg_a", "three")
        .bind_op("Abs", "gpu")
        .metadata("three", "queue", "fast")
        .metadata("tree", "queue", "fast");
    // The list of linked backends depends on the test program, so it is cut off.
    let named = |text: &String| match text.split_once("; linked: ").or(text.split_once("; none is linked")) {
        Some((named, _)) => named.to_owned(),
        None => text.clone(),
    };
    assert_eq!(
        texts(built).iter().map(named).collect::<Vec<_>>(),
        [
            "two components are bound to `Twice` of `test`; remove one",
            "`.bind_op(\"Abs\", \"gpu\")`: no backend is called `gpu` (did you mean `cpu`?)",
            "`.metadata(\"tree\", …)`: no backend is called `tree`",
            "the component for `Neg` of `test` runs no node; the nearest operator is `Neg` of `ai.onnx`",
            "the component for `Twice` of `test` runs no node; no model has such an operator: remove it",
            "`.bind_op(\"Nge\", \"three\")` chooses no node; the nearest name is `Neg`",
            "`.bind_node(\"Abs_x\", \"three\")` chooses no node; the nearest name is `Abs_z`",
            "`.bind_where(…, \"three\"), rule 3` chooses no node; remove it",
            "`.bind_node(\"Neg_a\", \"three\")` has no effect: a component, or a rule before it, has every node that it \
             chooses; put it first",
            "`.metadata(\"three\", …)` has no effect: no node runs on `three`; bind one to it",
        ]
    );
    let [text] = texts(on(negated(), reference()).model("m", negated())).try_into().unwrap();
    assert_eq!(text, "two models are called `m`; bind one under another name");
    let [text] = texts(on(branches(), reference()).backend(three()).bind_node("Identity_i", "three"))
        .try_into()
        .unwrap();
    assert_eq!(
        text,
        "`.bind_node(\"Identity_i\", \"three\")` chooses no node; what it names is inside `If_z`, and a subgraph goes to a \
         backend with its node: bind that"
    );
}

#[test]
fn what_components_make_and_read_is_among_the_transfers() {
    let nodes =
        vec![node("Neg", &["x"], &["a"]), custom("Twice", &["a"], &["b"]), node("Neg", &["b"], &["z"])];
    let bytes = model(&[("x", &[2])], nodes, &[("z", &[2])]);
    let ready = on(bytes, reference()).component("test", "Twice", twice).ready().unwrap();
    let placement = ready.model("m").unwrap().placement().clone();
    let transfers: Vec<_> = placement.transfers.into_iter().map(|c| (c.value, c.from, c.to)).collect();
    let (backend, component) = (Side::Backend("reference".to_owned()), Side::Component("Twice_b".to_owned()));
    let [a, b] = ["a", "b"].map(str::to_owned);
    assert_eq!(transfers, [(a, backend.clone(), component.clone()), (b, component, backend)]);
}

#[test]
fn a_backend_is_asked_once_and_its_counters_do_not_change() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let backend = tampered("counts", |_, _, _| {
        ASKED.fetch_add(1, Ordering::SeqCst);
        None
    });
    on(negated(), backend.clone()).ready().unwrap();
    let first = ASKED.load(Ordering::SeqCst);
    assert!(first > 0);
    on(negated(), backend.clone()).ready().unwrap();
    assert_eq!(ASKED.load(Ordering::SeqCst), first);
    assert_eq!((backend.runtime().status().calls, backend.runtime().status().failures), (0, 0));
}

/// Plain compilation also reports every operator that nothing runs, including those inside subgraphs.
#[test]
fn compiling_lists_every_missing_operator_with_advice() {
    let hostile = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data/hostile/14_unknown_op.onnx");
    let compiled = |module: Result<bb::Module, Error>| {
        let error = reference()
            .runtime()
            .clone()
            .compile(module.unwrap(), &bb::CompileOptions::default())
            .err()
            .unwrap();
        std::error::Error::source(&error).unwrap().to_string()
    };
    let limits = bb::Limits::default();
    let text = compiled(bb::Module::load_with(&hostile, &limits));
    assert!(
        text.contains("`FrobnicateTensor` of `ai.onnx`")
            && text.contains("`ai.onnx` has no such operator; bind a"),
        "{text}"
    );
    let choice = with_graph(
        node("If", &["c"], &["z"]),
        "then_branch",
        &[],
        vec![custom("Foo", &["x"], &["t"])],
        &["t"],
    );
    let choice = with_graph(choice, "else_branch", &[], vec![node("Rellu", &["x"], &["e"])], &["e"]);
    let bytes =
        typed(model(&[("x", &[2]), ("c", &[])], vec![choice], &[("z", &[2])]), &[("c", DataType::Bool)]);
    let text = compiled(bb::Module::from_bytes_with(bytes, &limits));
    assert_eq!(
        text,
        "2 of the graph's nodes cannot run: \n  `Rellu_e` is `Rellu` of `ai.onnx` 23: `ai.onnx` has no such operator; the nearest \
         name is `Relu`; bind a component to it: `.component(\"ai.onnx\", \"Rellu\", …)`\n  `Foo_t` is `Foo` of `test` 1: no \
         operator of the domain is known; bind a component to it: `.component(\"test\", \"Foo\", …)`"
    );
}
