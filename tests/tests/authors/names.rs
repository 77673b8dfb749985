//! Messages about names of backends, layers and nodes that are wrong.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::first_of::causes;
use bb::{BackendHandle, BoxError, Ctx, DataType, Deployment, TensorData, Value, first_of};
use bb_cpu::Cpu;
use bb_tests::model::{model, named, node};

fn message(name: &str) -> String {
    causes(&bb::backend(name).unwrap_err())
}

#[test]
fn a_wrong_name_says_what_was_probably_meant() {
    for (name, expected) in [
        ("first_off(cpu, reference)", "did you mean `first_of(cpu, reference)`?"),
        ("first_of cpu, reference", "did you mean `first_of(cpu, reference)`?"),
        ("cpu tile=64", "did you mean `cpu(tile=64)`?"),
        ("cpu; reference", "did you mean `first_of(cpu, reference)`?"),
        ("cpu(threads=2", "`)` is missing after `cpu(threads=2`: the `(` at character 4 is not closed"),
        (
            "first_of(cpu",
            "`)` is missing after `first_of(cpu`: the `(` at character 9 is not closed; write the options or backends between `(` and `)`",
        ),
        ("first_of(cpu,", "`)` is missing after `first_of(cpu,`: the `(` at character 9 is not closed"),
        (
            "first_of(cpu, first_of(reference)",
            "`)` is missing after `first_of(cpu, first_of(reference)`: the `(` at character 9 is not closed",
        ),
        (
            "passing(reference",
            "`)` is missing after `passing(reference`: the `(` at character 8 is not closed",
        ),
        ("passing(a+cpu", "`)` is missing after `passing(a+cpu`: the `(` at character 8 is not closed"),
        ("first_of(cpu))", "`(` is missing in `first_of(cpu))`: the `)` at character 14 closes none"),
        (")", "`(` is missing in `)`: the `)` at character 1 closes none"),
        ("passing+", "`passing+`: a name is missing after `passing+`"),
        ("passing++cpu", "`passing++cpu`: a name is missing after `passing+`"),
        ("+cpu", "`+cpu`: the name of a layer is missing before `+`"),
        (
            "first_of()",
            "`first_of` names no backends; write them in the parentheses, as in `first_of(gpu, cpu)`",
        ),
        (
            "first_of(,)",
            "`first_of` names no backends; write them in the parentheses, as in `first_of(gpu, cpu)`",
        ),
        (
            "first_of(cpu, falback=lost)",
            "backend `first_of` has no option `falback` (did you mean `fallback`?); there are `fallback`, `place`",
        ),
        (
            "cpu(narow_floats)",
            "`narow_floats` in `cpu(narow_floats)` is no option (did you mean `narrow_floats`?)",
        ),
        ("", "the name of the backend is empty; "),
        (
            "wgpu",
            "backend `wgpu` is not linked: depend on the crate `bb-wgpu`, and write `use bb_wgpu as _;`",
        ),
        (
            "passing+passing",
            "`passing+passing`: `passing` is a layer, and a backend stands last, as in `passing+cpu`",
        ),
    ] {
        let got = message(name);
        assert!(got.contains(expected), "{name}: {got}");
    }
}

/// A model of one `Exp`.
fn exp() -> Vec<u8> {
    model(&[("x", &[2])], vec![named("only", node("Exp", &["x"], &["y"]))], &[("y", &[2])])
}

#[test]
fn results_of_a_component_are_counted_and_compared() {
    type Run = fn(&Ctx<'_>, &[Option<&Value>]) -> Result<Vec<Value>, BoxError>;
    let twice: Run =
        |_, inputs| Ok(inputs.iter().flatten().flat_map(|x| [(*x).clone(), (*x).clone()]).collect());
    let summed: Run = |_, inputs| {
        Ok(inputs.iter().flatten().map(|x| x.reduce_sum(&[], false)).collect::<Result<_, _>>()?)
    };
    for (component, expected) in [
        (twice, "`Exp` returned 2 results, expected 1"),
        (summed, "result 0 of `Exp` is f32[], expected f32[2]: the component returned it"),
    ] {
        let on = BackendHandle::start("counted", Cpu::new());
        let ready =
            Deployment::builder().model("m", exp()).backend(on.clone()).component("", "Exp", component);
        let x = on.tensor(&[2], &[1f32, 2.0]).unwrap();
        let text = causes(&ready.ready().unwrap().run_named([("x", x)]).map(drop).unwrap_err());
        assert!(text.contains(expected) && text.contains("only"), "{text}");
    }
}

#[test]
fn a_rule_for_an_unknown_node_lists_the_nodes() {
    let on = BackendHandle::start("ruled", Cpu::new());
    let ready = Deployment::builder().model("m", exp()).backend(on).bind_node("qqqqqqqq", "ruled").ready();
    let text = causes(&ready.map(drop).unwrap_err());
    assert!(text.contains(r#"chooses no node; there are ["only"]"#), "{text}");
}

#[test]
fn a_deployment_lists_pins_that_match_nothing() {
    let both =
        first_of([BackendHandle::start("one", Cpu::new())]).unwrap().with_pin("Softmx", "one").unwrap();
    let on = BackendHandle::start("both", both);
    let text = causes(&Deployment::builder().model("m", exp()).backend(on).ready().map(drop).unwrap_err());
    assert!(text.contains("`Softmx=one` has no effect"), "{text}");
}

#[test]
fn a_function_without_outputs_is_no_graph() {
    let error = bb::trace(&[("x", DataType::F32, &[2])], |_, _| Ok(Vec::new())).unwrap_err();
    assert_eq!(error.to_string(), "the traced function returned no outputs; a graph has at least one");
    let one = TensorData::scalar(1f32);
    assert!(bb::trace(&[], |on, _| Ok(vec![bb::Backend::constant(on, &one)?])).is_ok());
}
