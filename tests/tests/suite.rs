//! What `bb::conformance!` says of ONNX's cases on backends that are not right.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::conformance::onnx::{Outcome, Report, Suite};
use bb::{Backend, DataType, Primitive, Runtime, Tensor};
use bb_reference::Reference;
use bb_tests::tampered::{Hook, Tampered, refuse_others};
use std::time::Duration;

/// Runs the cases whose path has the text.
fn ran(hook: Hook, text: &str, change: impl FnOnce(Suite) -> Suite) -> Report {
    let mut suite = Suite::new(Runtime::named("tampered", Tampered(hook)));
    suite.only = vec![text.to_owned()];
    change(suite).run().unwrap()
}

fn outcome<'a>(report: &'a Report, name: &str) -> &'a Outcome {
    &report.cases.iter().find(|case| case.name == name).unwrap().outcome
}

#[test]
fn a_wrong_operation_fails_its_cases_with_what_was_expected_and_what_came() {
    let hook: Hook = |op, inputs, _| match (op, inputs) {
        (Primitive::Exp, [Some(x)]) => Some(Reference.identity(x).map(|y| [y].into_iter().collect())),
        _ => None,
    };
    let report = ran(hook, "node/test_exp", |suite| suite);
    let failures = report.failures();
    let example = failures.iter().find(|f| f.starts_with("node/test_exp_example ")).unwrap();
    // ONNX's example is exp([-1, 0, 1]).
    assert_eq!(
        example,
        "node/test_exp_example (Exp 13): output 0: element 0: expected 0.3678794205188751, got -1; 3 elements differ"
    );
    assert_eq!(*outcome(&report, "node/test_expand_dim_changed"), Outcome::Passed);
    let text = report.to_string();
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().split_whitespace();
    assert_eq!(row("Exp ").collect::<Vec<_>>(), ["Exp", "13", "0", "2", "0"]);
    assert_eq!(row("Expand ").collect::<Vec<_>>(), ["Expand", "13", "2", "0", "0"]);
}

#[test]
fn a_panic_fails_its_case_alone() {
    let hook: Hook = |op, inputs, _| {
        assert!(op != Primitive::Exp || inputs.iter().flatten().all(|x| x.rank() < 2), "rank 1 only");
        None
    };
    let report = ran(hook, "node/test_exp", |suite| suite);
    assert!(matches!(outcome(&report, "node/test_exp"), Outcome::Failed(why) if why.contains("rank 1 only")));
    assert_eq!(*outcome(&report, "node/test_exp_example"), Outcome::Passed);
}

#[test]
fn a_call_that_never_returns_fails_its_case_alone() {
    let hook: Hook = |op, inputs, _| {
        if op == Primitive::Exp && inputs.iter().flatten().any(|x| x.rank() > 1) {
            std::thread::sleep(Duration::MAX);
        }
        None
    };
    let report = ran(hook, "node/test_exp", |mut suite| {
        suite.limit = Duration::from_secs(5);
        suite.threads = 1;
        suite
    });
    let late = Outcome::Failed("expected an answer within 5s, got none".to_owned());
    assert_eq!(*outcome(&report, "node/test_exp"), late);
    assert_eq!(*outcome(&report, "node/test_exp_example"), Outcome::Passed);
}

#[test]
fn cases_that_need_other_types_are_skipped_with_the_type() {
    const FLOATS: &[DataType] = &[DataType::F32, DataType::I64, DataType::Bool];
    // It computes f16 all the same; what it does not claim counts for nothing.
    let again: Hook = |_, _, _| None;
    let report = ran(again, "node/test_cast_", |suite| suite.with_types(FLOATS, || Tampered(again)));
    assert_eq!(*outcome(&report, "node/test_cast_FLOAT_to_FLOAT16"), Outcome::Skipped("f16".to_owned()));
    assert!(report.failures().is_empty());
    // Where the lowering needs a type that is not in the model, the same.
    let hook: Hook = |op, inputs, params| refuse_others(FLOATS, op, inputs, params);
    let report = ran(hook, "node/test_erf", |suite| suite.with_types(FLOATS, || Tampered(hook)));
    assert_eq!(*outcome(&report, "node/test_erf"), Outcome::Passed);
}
