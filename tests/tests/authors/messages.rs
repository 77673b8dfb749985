//! Error messages for authors and users of backends when something is missing or defined twice.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::{BackendHandle, BoxError, Ctx, Deployment, Problem, Runtime, Value};
use bb_reference::Reference;
use bb_tests::model::{model, node};

#[test]
fn a_misspelt_backend_names_the_nearest_and_how_a_crate_is_linked() {
    let error = bb::backend("referense").unwrap_err().to_string();
    assert!(
        error.starts_with("no backend is called `referense` (did you mean `reference`?); linked: "),
        "{error}"
    );
    let advice = "write `use the_crate as _;`; if it does, the crate is built against another `bb`, which `cargo tree --invert bb` shows";
    assert!(error.ends_with(advice), "{error}");
    let error = bb::backend("referense:1(tile=2)").unwrap_err().to_string();
    assert!(error.contains("did you mean `reference`?"), "{error}");
    assert!(!bb::backend("tpuu").unwrap_err().to_string().contains("did you mean"));
}

fn twice(ctx: &Ctx<'_>, inputs: &[Option<&Value>]) -> Result<Vec<Value>, BoxError> {
    let [Some(x)] = inputs else { return Err("expected one operand".into()) };
    Ok(vec![ctx.backends.add(x, x)?])
}

/// The second component is not also reported as unneeded, which it would be without the first one.
#[test]
fn a_component_that_is_bound_twice_is_one_problem() {
    let built = Deployment::builder()
        .model("m", model(&[("x", &[2])], vec![node("Twice", &["x"], &["z"])], &[("z", &[2])]))
        .backend(BackendHandle::new(Runtime::new(Reference)))
        .component("", "Twice", twice)
        .component("", "Twice", twice)
        .ready();
    let Err(bb::Error::NotReady { problems }) = built else { panic!("expected what is wrong") };
    let is_one =
        matches!(problems.0.as_slice(), [Problem::DuplicateComponent { name, .. }] if name == "Twice");
    assert!(is_one, "{problems}");
}

/// The parts of a name stand in one order: layers, and a backend.
#[test]
fn a_name_of_layers_says_what_stands_where() {
    use bb_layers as _;
    for (name, expected) in [
        ("metrics", "`metrics`: `metrics` is a layer, and a backend stands last, as in `metrics+cpu`"),
        (
            "reference+metrics",
            "`reference+metrics`: `reference` is a backend, which stands last, behind the layers",
        ),
        (
            "log+metrics",
            "`log+metrics`: `metrics` is a layer, and a backend stands last, as in `metrics+cpu`",
        ),
        ("metrics+", "`metrics+`: a name is missing after `metrics+`"),
        ("+reference", "`+reference`: the name of a layer is missing before `+`"),
    ] {
        assert_eq!(bb::backend(name).unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_backend_that_is_listed_twice_is_named() {
    let error = bb::backend("first_of(reference, reference)").unwrap_err();
    let text = format!("{error:?}");
    assert!(text.contains("two of the backends are called `reference`: list it once"), "{text}");
}

/// Options that all programs set by a method are no options of a backend's own.
#[test]
fn a_common_option_that_is_given_as_an_own_one_names_its_method() {
    use bb_cpu as _;
    let options = bb::OpenOptions::default().with_own("threads", 4);
    let error = bb::backend_with("cpu", &options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`threads` is not an option of the backend's own: write `.with_threads(…)`"
    );
}

/// Rust prints the `Debug` of an error that `main` returns.
#[test]
fn the_debug_of_an_error_is_its_message_with_causes() {
    let on = BackendHandle::new(Runtime::new(Reference));
    let x = on.tensor(&[2], &[1f32, 2.0]).unwrap();
    let error = x.reshape(&[3]).unwrap_err();
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(format!("{error:?}"), format!("{error}: {source}"));
}

mod endless {
    use bb::{Backend, BackendAttrs, GraphProto, TensorData};
    use bb_reference::{Error, Reference, Tensor};
    use std::collections::HashMap;

    pub(super) struct Endless;

    impl Endless {
        fn run(
            &self,
            graph: &GraphProto,
            inputs: HashMap<String, Tensor>,
            attrs: BackendAttrs<'_>,
        ) -> Result<HashMap<String, Tensor>, Error> {
            self.execute(graph, inputs, attrs)
        }
    }

    impl Backend for Endless {
        type Tensor = Tensor;
        type Error = Error;

        bb::forward_to_execute!(Self::run);

        fn to_host(&self, x: &Tensor) -> Result<TensorData, Error> {
            Reference.to_host(x)
        }
    }
}

#[test]
fn a_function_for_graphs_that_calls_itself_is_an_error() {
    let on = BackendHandle::new(Runtime::erased("endless", endless::Endless, &[]));
    let x = on.tensor(&[2], &[1f32, 2.0]);
    let error = x.and_then(|x| x.exp()).unwrap_err();
    let text = format!("{error:?}");
    assert!(text.contains("calls `execute` of its own backend again and again"), "{text}");
}

/// A component.
type Run = fn(&Ctx<'_>, &[Option<&Value>]) -> Result<Vec<Value>, BoxError>;

/// A component whose result differs from the declaration in the model.
#[test]
fn a_wrong_result_of_a_component_is_named() {
    let build = |component: Run| {
        Deployment::builder()
            .model("m", model(&[("x", &[2])], vec![node("Exp", &["x"], &["z"])], &[("z", &[2])]))
            .backend(BackendHandle::new(Runtime::new(Reference)))
            .component("", "Exp", component)
            .ready()
            .unwrap()
    };
    let on = BackendHandle::new(Runtime::new(Reference));
    let run = |deployment: &Deployment| {
        let x = on.tensor(&[2], &[1f32, 2.0]).unwrap();
        deployment.model("m").unwrap().run(&[Some(&x)]).map(|_| ()).map_err(|error| format!("{error:?}"))
    };
    run(&build(|_, x| Ok(vec![x[0].ok_or("no operand")?.exp()?]))).unwrap();
    for component in [
        (|_: &Ctx<'_>, x: &[Option<&Value>]| Ok(vec![x[0].ok_or("none")?.equal(x[0].ok_or("none")?)?]))
            as Run,
        |_, x| Ok(vec![x[0].ok_or("no operand")?.reshape(&[1, 2])?]),
    ] {
        let text = run(&build(component)).unwrap_err();
        assert!(text.contains("Exp") && text.contains("f32[2]"), "{text}");
    }
}

/// A component gets its operands on one backend.
#[test]
fn operands_of_a_component_are_brought_together() {
    let graph = model(
        &[("x", &[2]), ("y", &[2])],
        vec![node("Neg", &["y"], &["n"]), node("Sum2", &["x", "n"], &["z"])],
        &[("z", &[2])],
    );
    let deployment = Deployment::builder()
        .model("m", graph)
        .backend(BackendHandle::start("one", bb_cpu::Cpu::new()))
        .backend(BackendHandle::new(Runtime::new(Reference)))
        .bind_op("Neg", "reference")
        .component("", "Sum2", |ctx: &Ctx<'_>, inputs: &[Option<&Value>]| {
            let [Some(x), Some(y)] = inputs else { return Err("expected two operands".into()) };
            Ok(vec![ctx.backends.add(x, y)?])
        })
        .ready()
        .unwrap();
    let on = BackendHandle::start("one", bb_cpu::Cpu::new());
    let (x, y) = (on.tensor(&[2], &[5f32, 7.0]).unwrap(), on.tensor(&[2], &[1f32, 2.0]).unwrap());
    let z = deployment.model("m").unwrap().run(&[Some(&x), Some(&y)]).unwrap();
    assert_eq!(z.first().unwrap().to_host(64).unwrap().as_slice::<f32>().unwrap(), [4.0, 5.0]);
}
