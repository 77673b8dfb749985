//! Tests the reports of `bb::conformance!` about backends that are wrong.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::conformance::Subject;
use bb::conformance::onnx::{Outcome, Report, Suite};
use bb::{Backend, DataType, DataTypes, Primitive, Runtime, Tensor, TensorData};
use bb_reference::Reference;
use bb_tests::few::Few;
use bb_tests::tampered::{Hook, Tampered, refuse_others};
use std::time::Duration;

/// Runs the cases whose path contains the text.
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
    // ONNX's example computes exp([-1, 0, 1]).
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

const SOME: &[DataType] = &[DataType::F32, DataType::I64, DataType::Bool];

fn some(op: Primitive, inputs: &[Option<&bb_reference::Tensor>], params: &[bb::ir::op::Param<'_>]) -> Given {
    refuse_others(SOME, op, inputs, params)
}

type Given = Option<Result<bb::Outputs<bb_reference::Tensor>, bb_reference::Error>>;

/// Runs a function that must panic, and returns the message.
fn panics(run: impl FnOnce()) -> String {
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_err();
    panic.downcast_ref::<String>().cloned().unwrap()
}

#[test]
fn a_suite_without_types_on_a_partial_backend_says_which_to_declare() {
    let declare = "bb::DataTypes::of(&[bb::DataType::F32, bb::DataType::I64, bb::DataType::Bool]) }`";
    let mut suite = Suite::new(Runtime::named("tampered", Tampered(some)));
    suite.only = vec!["node/test_cast_FLOAT_to_FLOAT16".to_owned()];
    let text = panics(|| suite.check());
    assert!(text.ends_with(declare), "{text}");
    // The tests of primitives print the hint, too.
    let on = Tampered(some);
    let text = panics(|| bb::conformance::cases::add(&Subject::new(&on)));
    assert!(text.ends_with(declare), "{text}");
    // There is no hint if the types are declared, or if the backend supports all types.
    let few = Few::of(SOME);
    assert_eq!(Suite::new(Runtime::erased("few", few, &[])).hint(), None);
    assert_eq!(Suite::new(Runtime::new(Reference)).hint(), None);
    bb::conformance::cases::add(&Subject::new(&few));
}

#[test]
fn a_failed_primitive_prints_operands_parameters_what_came_and_what_was_expected() {
    let hook: Hook = |op, inputs, params| match (op, inputs, params) {
        // Sums of `f32` are too large by one.
        (Primitive::ReduceSum, [Some(x)], _) if x.dtype() == DataType::F32 => {
            let sum = bb::call_primitive(&Reference, op, inputs, params).unwrap().remove(0);
            let one = Reference.constant(&TensorData::scalar(1f32)).unwrap();
            Some(Reference.add(&sum, &one).map(|y| [y].into_iter().collect()))
        }
        _ => None,
    };
    let text = panics(|| bb::conformance::cases::reduce_sum(&Subject::new(&Tampered(hook))));
    let call = text.lines().next().unwrap();
    assert!(
        call.starts_with("reduce_sum(f32[") && call.contains("; axes = [") && call.contains(", keepdims = "),
        "{text}"
    );
    assert!(call.contains("element 0 is ") && call.contains(", expected "), "{text}");
    assert!(text.contains("\n  got      f32[") && text.contains("\n  expected f32["), "{text}");
    assert!(text.len() < 2000, "{text}");
    // A failed call that is given as data is printed in the same way.
    let hook: Hook = |op, _, _| (op == Primitive::Concat).then(|| Err(bb::Error::Abandoned.into()));
    let text = panics(|| bb::conformance::topics::rank_zero(&Subject::new(&Tampered(hook))));
    assert!(text.starts_with("concat(f32[1] {1.0}, f32[1] {1.0}; axis = -1) failed: "), "{text}");
}

/// A tampered backend that declares [`SOME`] types.
struct TamperedSome(Hook);

impl Backend for TamperedSome {
    type Tensor = bb_reference::Tensor;
    type Error = bb_reference::Error;

    bb::forward_to_call!(Self::apply);

    fn to_host(&self, x: &bb_reference::Tensor) -> Result<TensorData, bb_reference::Error> {
        Reference.to_host(x)
    }

    fn types(&self) -> DataTypes {
        DataTypes::of(SOME)
    }
}

impl TamperedSome {
    fn apply(
        &self,
        op: Primitive,
        inputs: &[Option<&bb_reference::Tensor>],
        params: &[bb::ir::op::Param<'_>],
    ) -> Result<bb::Outputs<bb_reference::Tensor>, bb_reference::Error> {
        bb::call_primitive(&Tampered(self.0), op, inputs, params)
    }
}

#[test]
fn types_that_the_tests_list_and_the_backend_does_not_declare_fail() {
    bb::conformance::assert_types(&TamperedSome(some), SOME);
    let few = panics(|| bb::conformance::assert_types(&Tampered(some), SOME));
    assert!(
        few.contains(
            "the tests list the element types f32, i64, bool, and `fn types` of the backend declares"
        ),
        "{few}"
    );
    assert!(
        few.ends_with("bb::DataTypes::of(&[bb::DataType::F32, bb::DataType::I64, bb::DataType::Bool]) }`"),
        "{few}"
    );
    panics(|| bb::conformance::assert_types(&TamperedSome(some), &[DataType::F32, DataType::I64]));
    // A type that is declared and that an operation does not take.
    let text = panics(|| {
        bb::conformance::topics::element_types(&Subject::new(&TamperedSome(|op, inputs, params| match op {
            Primitive::Neg => refuse_others(&[DataType::F32], op, inputs, params),
            _ => some(op, inputs, params),
        })));
    });
    assert!(text.starts_with("neg(i64[") && text.contains("failed: "), "{text}");
}

/// A refusal must name the operation and the type; other errors do not count.
#[test]
fn an_error_that_names_no_type_is_not_a_refusal() {
    let vague: Hook = |op, inputs, params| {
        let refused = some(op, inputs, params)?;
        let casts = op == Primitive::Cast && inputs.iter().flatten().all(|x| SOME.contains(&x.dtype()));
        Some(if casts { Err(bb::Error::Abandoned.into()) } else { refused })
    };
    let check = |hook: Hook| bb::conformance::topics::element_types(&Subject::new(&TamperedSome(hook)));
    check(some);
    let text = panics(|| check(vague));
    assert!(text.starts_with("the error of `cast` names neither operation nor element type"), "{text}");
    // The word `bf16` does not contain the word `f16`.
    let other: Hook = |op, inputs, params| {
        let refused = some(op, inputs, params)?;
        let half = params.iter().any(|param| matches!(param, bb::ir::op::Param::Type(DataType::F16)));
        let wrong = bb::ir::Error::Unsupported { op: op.spec().method, dtype: DataType::BF16 };
        Some(if half { Err(bb::Error::from(wrong).into()) } else { refused })
    };
    let text = panics(|| check(other));
    assert!(text.starts_with("the error of `cast` names no element type"), "{text}");
    // If the backend converts silently, it does not refuse.
    let lax: Hook = |op, inputs, params| match op {
        Primitive::Cast => None,
        _ => some(op, inputs, params),
    };
    let text = panics(|| check(lax));
    assert!(text.starts_with("`cast` succeeded, but `fn types` lacks"), "{text}");
}
