//! Tests the reports of `bb::conformance!` about backends that are wrong.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::conformance::Subject;
use bb::conformance::onnx::{Outcome, Report, Suite};
use bb::{
    Backend, BackendAttrs, CompletionHandle, ContractResponse, DataType, DataTypes, GraphProto, Primitive,
    Runtime, Tensor, TensorData,
};
use bb_reference::Reference;
use bb_tests::few::Few;
use bb_tests::tampered::{Hook, Tampered, refuse_others};
use std::collections::HashMap;
use std::sync::Arc;
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
        "node/test_exp_example (Exp 13): output `y` (0 of 1): element 0: expected 0.3678794205188751, got -1; 3 of 3 elements differ by more than 1e-7 + 0.001 * |expected|\n  input `x`: f32[3] {-1.0, 0.0, 1.0}"
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
    let advice = "the error of `cast` to u8 names neither operation nor element type: name `cast` and u8";
    assert!(text.starts_with(advice), "{text}");
    // The word `bf16` does not contain the word `f16`.
    let other: Hook = |op, inputs, params| {
        let refused = some(op, inputs, params)?;
        let half = params.iter().any(|param| matches!(param, bb::ir::op::Param::Type(DataType::F16)));
        let wrong = bb::ir::Error::Unsupported { op: op.spec().method, dtype: DataType::BF16 };
        Some(if half { Err(bb::Error::from(wrong).into()) } else { refused })
    };
    let text = panics(|| check(other));
    assert!(text.starts_with("the error of `cast` to f16 names the element type bf16: name f16"), "{text}");
    // If the backend converts silently, it does not refuse.
    let lax: Hook = |op, inputs, params| match op {
        Primitive::Cast => None,
        _ => some(op, inputs, params),
    };
    let text = panics(|| check(lax));
    assert!(
        text.starts_with(
            "cast(f32[2] {0.0, 1.0}; to = u8, saturate = true, round_mode = up) succeeded, but "
        ),
        "{text}"
    );
    let advice =
        "but `fn types` does not declare u8: declare it, or return an error that names `cast` and u8";
    assert!(text.ends_with(advice), "{text}");
    // The kernel checks `to` too late.
    let late: Hook = |op, inputs, params| {
        let refused = some(op, inputs, params)?;
        let casts = op == Primitive::Cast && inputs.iter().flatten().all(|x| SOME.contains(&x.dtype()));
        let inner = bb::ir::Error::Unsupported { op: "constant", dtype: DataType::U8 };
        Some(if casts { Err(bb::Error::from(inner).into()) } else { refused })
    };
    let text = panics(|| check(late));
    assert!(
        text.starts_with(
            "the error of `cast` to u8 names `constant`: check `to` first, and name `cast` and u8"
        ),
        "{text}"
    );
}

/// An operation that ONNX does not define on a declared type.
#[test]
fn an_operation_that_takes_too_much_is_told_the_types_that_it_takes() {
    let lax: Hook = |op, inputs, _| match (op, inputs) {
        (Primitive::Sqrt, [Some(x)]) if x.dtype() == DataType::I64 => Some(Ok(outputs(x))),
        _ => None,
    };
    let hook: Hook = |op, inputs, params| match op {
        Primitive::Sqrt if inputs.iter().flatten().all(|x| x.dtype() == DataType::I64) => {
            inputs.first().copied().flatten().map(|x| Ok(outputs(x)))
        }
        _ => some(op, inputs, params),
    };
    let all = panics(|| bb::conformance::topics::element_types(&Subject::new(&Tampered(lax))));
    let few = panics(|| bb::conformance::topics::element_types(&Subject::new(&TamperedSome(hook))));
    let expected =
        "`sqrt` takes floats only, and succeeded on i64: return an error that names `sqrt` and i64";
    assert_eq!([all.as_str(), few.as_str()], [expected; 2]);
}

fn outputs(x: &bb_reference::Tensor) -> bb::Outputs<bb_reference::Tensor> {
    [x.clone()].into_iter().collect()
}

#[test]
fn a_panic_of_a_kernel_is_printed_with_its_call() {
    let hook: Hook = |op, _, _| {
        assert!(op != Primitive::Add && op != Primitive::ReduceSum, "overflow");
        None
    };
    let text = panics(|| bb::conformance::cases::add(&Subject::new(&Tampered(hook))));
    assert_eq!(
        text.split_once(" panicked: ").unwrap(),
        (
            "add(f32[2, 3] {5.0, 6.0, 7.0, 8.0, 9.0, 10.0}, f32[2, 3] {1.0, 2.0, 3.0, 4.0, 1.0, 2.0})",
            "overflow"
        )
    );
    let text = panics(|| bb::conformance::topics::rank_zero(&Subject::new(&Tampered(hook))));
    assert!(text.starts_with("add(f32[] {1.0}, f32[] {1.0}) panicked: overflow"), "{text}");
    let hook: Hook = |op, _, _| (op == Primitive::Constant).then(|| panic!("no memory"));
    let text = panics(|| bb::conformance::cases::add(&Subject::new(&Tampered(hook))));
    assert!(text.starts_with("constant(value = f32[2, 3] {5.0, "), "{text}");
    assert!(text.ends_with("}) panicked: no memory"), "{text}");
}

#[test]
fn wrong_counts_and_shapes_of_results_are_said_in_words() {
    let one: Hook = |op, inputs, params| {
        (op == Primitive::Split).then(|| {
            let mut parts = bb::call_primitive(&Reference, op, inputs, params)?;
            parts.truncate(1);
            Ok(parts)
        })
    };
    let text = panics(|| bb::conformance::cases::split(&Subject::new(&Tampered(one))));
    assert!(
        text.starts_with("split(")
            && text.ends_with("; axis = 0, sizes = [2, 1, 3]) returned 1 result, expected 3"),
        "{text}"
    );
    let text = panics(|| bb::conformance::topics::zero_extents(&Subject::new(&Tampered(one))));
    assert!(text.ends_with(" returned 1 result, expected 2"), "{text}");
    let flat: Hook = |op, inputs, params| {
        (op == Primitive::ReduceSum).then(|| {
            let y = bb::call_primitive(&Reference, op, inputs, params)?.remove(0);
            Ok([Reference.reshape(&y, &[y.shape().iter().product()])?].into_iter().collect())
        })
    };
    let text = panics(|| bb::conformance::topics::element_types(&Subject::new(&Tampered(flat))));
    assert!(text.contains("; axes = [0], keepdims = true): another type or shape\n  got      "), "{text}");
    assert!(text.lines().last().unwrap().starts_with("  expected ") && text.ends_with("[1, 2]"), "{text}");
}

mod lying {
    use bb::{Backend, DataType, Outputs, Primitive, TensorData, ir::op::Param};
    use bb_reference::Reference;

    /// A tensor whose shape need not match its elements.
    #[derive(Clone)]
    pub(super) struct Lying(bb_reference::Tensor, Vec<usize>);

    impl bb::Tensor for Lying {
        fn dtype(&self) -> DataType {
            bb::Tensor::dtype(&self.0)
        }

        fn shape(&self) -> &[usize] {
            &self.1
        }
    }

    /// Claims twice the last extent for results of `reduce_mean`. `to_host` fails if `CHECKED`.
    pub(super) struct Liar<const CHECKED: bool>;

    impl<const CHECKED: bool> Liar<CHECKED> {
        fn call(
            &self,
            op: Primitive,
            inputs: &[Option<&Lying>],
            params: &[Param<'_>],
        ) -> Result<Outputs<Lying>, bb_reference::Error> {
            let inputs: Vec<_> = inputs.iter().map(|x| x.map(|x| &x.0)).collect();
            let claim = |y: bb_reference::Tensor| {
                let mut shape = bb::Tensor::shape(&y).to_vec();
                if let (Primitive::ReduceMean, Some(last)) = (op, shape.last_mut()) {
                    *last *= 2;
                }
                Lying(y, shape)
            };
            Ok(bb::call_primitive(&Reference, op, &inputs, params)?.into_iter().map(claim).collect())
        }
    }

    impl<const CHECKED: bool> Backend for Liar<CHECKED> {
        type Tensor = Lying;
        type Error = bb_reference::Error;

        bb::forward_to_call!(Self::call);

        fn to_host(&self, x: &Lying) -> Result<TensorData, bb_reference::Error> {
            let host = Reference.to_host(&x.0)?;
            if !CHECKED {
                return Ok(host);
            }
            let bytes = host.bytes().unwrap().clone();
            Ok(TensorData::adopt(host.dtype(), &x.1, bytes).map_err(bb::Error::from)?)
        }
    }
}

#[test]
fn a_result_with_fewer_elements_than_it_claims_is_counted() {
    let count = "; axes = [], keepdims = true): the result has 1 element, but claims [1, 1, 2] (2)\n";
    let text = panics(|| bb::conformance::cases::reduce_mean(&Subject::new(&lying::Liar::<true>)));
    assert!(text.starts_with("`to_host` of a result of reduce_mean(f32[2, 3, 4] {"), "{text}");
    assert!(text.ends_with("failed: a tensor of f32 with extents [1, 1, 2] needs 8 bytes, got 4"), "{text}");
    let text = panics(|| bb::conformance::cases::reduce_mean(&Subject::new(&lying::Liar::<false>)));
    assert!(text.starts_with("reduce_mean(f32[2, 3, 4] {") && text.contains(count), "{text}");
    assert!(text.contains("\n  claims   f32[1, 1, 2]\n  returns  f32[1, 1, 1] {"), "{text}");
}

#[test]
fn a_call_that_must_be_refused_is_printed_with_the_reason() {
    let lax: Hook = |op, inputs, params| match bb::call_primitive(&Reference, op, inputs, params) {
        Err(_) if matches!(op, Primitive::Gather | Primitive::Greater) => {
            inputs.first().copied().flatten().map(|x| Ok(outputs(x)))
        }
        result => Some(result),
    };
    let text = panics(|| bb::conformance::cases::gather(&Subject::new(&Tampered(lax))));
    assert!(text.starts_with("gather(f32[2, 3] {0.0, 1.0, 2.0, 3.0, 4.0, 5.0}, i32[2] {0, 3}; axis = 1) succeeded; index 3 is out of range for extent 3 and must be an error"), "{text}");
    let text = panics(|| bb::conformance::topics::wrong_arguments(&Subject::new(&Tampered(lax))));
    let call = "greater(f32[2] {1.0, 1.0}, f32[3] {1.0, 1.0, 1.0}) succeeded; ";
    assert_eq!(text, format!("{call}the shapes [2] and [3] do not broadcast and must be an error"));
}

#[test]
fn a_call_that_never_returns_fails_with_its_operands() {
    fn endless() -> Tampered {
        Tampered(|op, _, _| {
            if op == Primitive::Exp {
                std::thread::sleep(Duration::MAX);
            }
            None
        })
    }
    let run = |test| bb::conformance::check_within(Duration::from_secs(1), "exp", endless, test);
    let text = panics(|| run(bb::conformance::cases::exp));
    assert!(text.starts_with("exp(f32[13] {0.0, 1.0, -1.0, "), "{text}");
    assert!(text.ends_with("}) has not returned within 1 seconds; the environment variable BB_CALL_SECONDS sets another limit"), "{text}");
    let text = panics(|| run(bb::conformance::topics::rank_zero));
    assert!(text.starts_with("exp(f32[] {1.0}) has not returned"), "{text}");
    run(bb::conformance::cases::add);
}

/// The test runs its own program again, because the backend ends the process.
#[cfg(unix)]
#[test]
fn a_backend_that_ends_the_process_fails_the_program() {
    const NAME: &str = "suite::a_backend_that_ends_the_process_fails_the_program";
    const AGAIN: &str = "BB_ENDS_THE_PROCESS";
    fn ending() -> Tampered {
        Tampered(|op, _, _| if op == Primitive::Exp { std::process::exit(0) } else { None })
    }
    if std::env::var_os(AGAIN).is_some() {
        bb::conformance::check_case("add", ending, bb::conformance::cases::add);
        bb::conformance::check_case("exp", ending, bb::conformance::cases::exp);
        return;
    }
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    let ended = again.args([NAME, "--exact"]).env(AGAIN, "1").output().unwrap();
    let text = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success(), "{text}");
    assert!(text.contains("the process exits while tests of `bb::conformance!` run ("), "{text}");
}

#[test]
fn a_declared_type_that_an_operation_lacks_points_at_the_declaration() {
    let narrow: Hook =
        |op, inputs, params| refuse_others(&[DataType::F32, DataType::Bool], op, inputs, params);
    let text = panics(|| bb::conformance::cases::add(&Subject::new(&TamperedSome(narrow))));
    assert!(text.contains("\ni64 is declared by `fn types`, so every operation"), "{text}");
}

mod suites_in_one_module {
    use bb_tests::few::Few;

    bb::conformance!(Few::least(), cases = none);
    bb::conformance!(wide, Few::least(), cases = none);

    /// A second suite without a name is one error, about this name.
    #[test]
    fn the_module_of_a_suite_without_a_name_says_so() {
        let suite = std::any::type_name::<unnamed_suite::SuiteBackend<0>>();
        assert!(suite.ends_with("::suites_in_one_module::unnamed_suite::SuiteBackend<0>"), "{suite}");
    }
}

/// The mistake of a backend for whole graphs.
#[derive(Clone, Copy, PartialEq)]
enum Wrongly {
    Empty,
    Renames,
    Drops,
    Reshapes,
}

/// A backend of few types whose `dispatch` and `execute` are wrong.
struct WrongGraphs(Few, Wrongly, bool);

type FewTensor = <Few as Backend>::Tensor;
type Tensors = HashMap<String, FewTensor>;

impl WrongGraphs {
    fn call(
        &self,
        op: Primitive,
        inputs: &[Option<&FewTensor>],
        params: &[bb::ir::op::Param<'_>],
    ) -> Result<bb::Outputs<FewTensor>, bb_reference::Error> {
        bb::call_primitive(&self.0, op, inputs, params)
    }

    fn wrong(&self, results: Tensors) -> Result<Tensors, bb_reference::Error> {
        match self.1 {
            Wrongly::Empty | Wrongly::Drops => Ok(Tensors::new()),
            Wrongly::Renames => Ok(results.into_iter().map(|(name, y)| (format!("{name}0"), y)).collect()),
            Wrongly::Reshapes => {
                results.into_iter().map(|(name, y)| Ok((name, self.0.reshape(&y, &[4])?))).collect()
            }
        }
    }
}

impl Backend for WrongGraphs {
    type Tensor = FewTensor;
    type Error = bb_reference::Error;

    bb::forward_to_call!(Self::call);

    fn to_host(&self, x: &FewTensor) -> Result<TensorData, Self::Error> {
        self.0.to_host(x)
    }

    fn types(&self) -> DataTypes {
        self.0.types()
    }

    fn execute(
        &self,
        graph: &GraphProto,
        inputs: Tensors,
        attrs: BackendAttrs<'_>,
    ) -> Result<Tensors, Self::Error> {
        let results = self.0.execute(graph, inputs, attrs)?;
        if self.2 { Ok(results) } else { self.wrong(results) }
    }

    fn dispatch(
        &self,
        graph: Arc<GraphProto>,
        inputs: Tensors,
        attrs: BackendAttrs<'_>,
        completion: CompletionHandle<Tensors, Self::Error>,
    ) -> ContractResponse<Tensors, Self::Error> {
        let results = self.0.execute(&graph, inputs, attrs).and_then(|results| self.wrong(results));
        match self.1 {
            Wrongly::Drops => completion.later().0,
            _ => ContractResponse::Now(results),
        }
    }
}

#[test]
fn the_suite_sees_wrong_answers_to_whole_graphs() {
    for types in [SOME, DataType::ALL] {
        bb::conformance::topics::graphs(&Subject::new(&Few::of(types)));
        for (wrongly, expected) in [
            (Wrongly::Empty, "returned no output `sum`"),
            (Wrongly::Renames, "got      [\"product0\", \"sum0\"]"),
            (Wrongly::Drops, "failed: "),
            (Wrongly::Reshapes, "the output `sum` differs\n  got      f32[4] {1.5, 1.0, 5.0, 4.0}"),
        ] {
            let check = |only_dispatch| {
                let on = WrongGraphs(Few::of(types), wrongly, only_dispatch);
                panics(|| bb::conformance::topics::graphs(&Subject::new(&on)))
            };
            let text = check(true);
            assert!(
                text.starts_with("`dispatch` of a graph that adds, and ends with mul(f32[2, 2]"),
                "{text}"
            );
            assert!(text.contains(expected), "{text}");
            if wrongly != Wrongly::Drops {
                let text = check(false);
                assert!(text.starts_with("`execute` of a graph") && text.contains(expected), "{text}");
            }
        }
    }
}
