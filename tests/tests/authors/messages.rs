//! Error messages for authors and users of backends when something is missing or defined twice.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::{BackendHandle, BoxError, Ctx, Deployment, Problem, Runtime, Value};
use bb_reference::Reference;
use bb_tests::model::{model, node};

#[test]
fn a_misspelt_backend_names_the_nearest_and_how_a_crate_is_linked() {
    let error = bb::backend("referense").unwrap_err().to_string();
    assert!(
        error.starts_with("no backend is called `referense`; did you mean `reference`?; linked: "),
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
