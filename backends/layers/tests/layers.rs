//! Tests of each layer: the operations that it sees and refuses, and that failures are reported as errors and leave nothing behind.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::{
    BackendHandle, CompileOptions, Error, ErrorKind, InnerBackend, Module, Primitive, TensorData, Value,
};
use bb_cpu::Cpu;
use bb_layers::{Fault, FaultKind, FaultOptions, Limit, Limits, Log, Metrics};
use bb_reference as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// `softmax(x w)` with a constant weight.
fn module() -> Module {
    let trace = bb::export::ModelTrace::new(&[("x", bb::DataType::F32, &[2, 3])], |on, inputs| {
        use bb::Backend as _;
        use bb::ext::Nn as _;
        let weight: Vec<f32> = (0..12).map(|i| i as f32 - 5.0).collect();
        let weight = on.constant(&bb::TensorData::new(&[3, 4], &weight)?)?;
        Ok(vec![on.softmax(&on.matmul(&inputs[0], &weight)?, -1)?])
    });
    let options =
        bb::export::ExportOptions::default().opset(bb::ir::opset::NEWEST).keep(bb::export::Keep::All);
    trace.unwrap().module(&options).unwrap()
}

fn run(on: &BackendHandle, x: &[f32]) -> Result<Vec<f32>, Error> {
    let program = on.compile(module(), &CompileOptions::default())?;
    let x = on.tensor(&[2, 3], x)?;
    let results = program.run(&[Some(&x)])?;
    Ok(on.to_host(&results[0])?.as_slice::<f32>()?.to_vec())
}

const X: [f32; 6] = [0.1, 0.2, 0.3, -1.0, 0.5, 0.25];

fn negated(on: &BackendHandle, x: &Value) -> Result<Value, Error> {
    Ok(on.call(Primitive::Neg.spec(), &[Some(x)], &[])?.remove(0))
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("layers");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

#[test]
fn metrics_count_what_ran() {
    let layer = Metrics::new(Cpu::new());
    let table = layer.table();
    let on = BackendHandle::start("measured", layer);
    let x = on.tensor(&[2, 3], &X).unwrap();
    table.reset();
    let _ = negated(&on, &negated(&on, &x).unwrap()).unwrap();
    let neg = table.snapshot()["neg"];
    // Two operands and two results of six floats.
    assert_eq!((neg.calls, neg.failed, neg.elements, neg.bytes), (2, 0, 12, 4 * 6 * 4));
}

#[test]
fn a_log_has_a_line_for_each_operation() {
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let lines = Lines::default();
    let on = BackendHandle::start("logged", Log::new(Cpu::new(), lines.clone()));
    let x = on.tensor(&[2], &[1f32, 2.0]).unwrap();
    let _ = negated(&on, &x).unwrap();
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("neg(f32[2]) -> f32[2] in "), "{text}");
}

#[test]
fn limits_refuse_and_say_what() {
    let on = BackendHandle::start("limited", Limit::new(Cpu::new(), Limits::default().with_calls(2)));
    let x = on.tensor(&[2], &[1f32, 2.0]).unwrap();
    let y = negated(&on, &x).unwrap();
    let error = negated(&on, &y).unwrap_err();
    assert_eq!(on.error_kind(&error), ErrorKind::Limit);
    assert!(bb_core::error::causes(&error).contains("the limit of 2 operations is reached"), "{error:?}");
    let large = BackendHandle::start("large", Limit::new(Cpu::new(), Limits::default().with_result(8)));
    assert!(large.tensor(&[2], &[1f32, 2.0]).is_ok());
    assert_eq!(large.error_kind(&large.tensor(&[3], &[1f32; 3]).unwrap_err()), ErrorKind::Limit);
    // Finding out which element types a backend supports counts nothing, and no limit makes a type unsupported.
    let tight = Limits::default().with_calls(1).with_result(8);
    let tight = BackendHandle::start("tight", Limit::new(Cpu::new(), tight));
    let report = bb::coverage::Coverage::of(&module(), tight.runtime());
    assert!(report.missing().0.is_empty(), "{report}");
    let small = Limits::default().with_result(0);
    let small = BackendHandle::start("small", Limit::new(Cpu::new(), small));
    assert!(bb::coverage::Coverage::of(&module(), small.runtime()).missing().0.is_empty());
    assert!(tight.tensor(&[2], &[1f32, 2.0]).is_ok());
    let late = Limits::default().with_time(Duration::from_nanos(1));
    let late = BackendHandle::start("late", Limit::new(Cpu::new(), late));
    let x = late.tensor(&[2], &[1f32, 2.0]).unwrap();
    assert_eq!(late.error_kind(&negated(&late, &x).unwrap_err()), ErrorKind::Limit);
}

#[test]
fn faults_arrive_as_errors_of_their_node_and_change_no_later_answer() {
    let expected = run(&BackendHandle::start("plain", Cpu::new()), &X).unwrap();
    for kind in [FaultKind::Error, FaultKind::Panic] {
        // The fault may occur in any operation, while the plan is built or later.
        for number in 1..8 {
            let on = BackendHandle::start("faulty", Fault::new(Cpu::new(), FaultOptions::at(kind, number)));
            let mut failures = 0;
            for _ in 0..3 {
                match run(&on, &X) {
                    Ok(result) => assert_eq!(result, expected),
                    Err(_) => failures += 1,
                }
            }
            assert!(failures <= 1, "{kind:?} at {number}: {failures}");
        }
    }
    let product = FaultOptions::at(FaultKind::Error, 1).with_op("matmul");
    let on = BackendHandle::start("faulty", Fault::new(Cpu::new(), product));
    let error = run(&on, &X).unwrap_err();
    let text = bb_core::error::causes(&error);
    assert!(text.contains("MatMul") && text.contains("layer `fault` failed in `matmul`"), "{text}");
}

#[test]
fn a_lost_device_stays_lost() {
    let on = BackendHandle::start("lost", Fault::new(Cpu::new(), FaultOptions::at(FaultKind::Loss, 2)));
    let x = on.tensor(&[2], &[1f32, 2.0]).unwrap();
    assert!(matches!(negated(&on, &x), Err(Error::DeviceLost { .. })));
    assert!(matches!(negated(&on, &x), Err(Error::DeviceLost { .. })));
}

#[test]
fn check_finds_wrong_extents_and_the_first_nan() {
    let wrong = Fault::new(Cpu::new(), FaultOptions::at(FaultKind::Shape, 1).with_op("neg"));
    let on = BackendHandle::start("checked", bb_layers::Check::new(wrong, true));
    let x = on.tensor(&[2], &[1f32, 2.0]).unwrap();
    let text = bb_core::error::causes(&negated(&on, &x).unwrap_err());
    assert!(text.contains("result 0: expected f32[2], got f32[1, 2]"), "{text}");
    let negative = on.tensor(&[3], &[1f32, -1.0, 4.0]).unwrap();
    let text = bb_core::error::causes(&on.call(Primitive::Sqrt.spec(), &[Some(&negative)], &[]).unwrap_err());
    assert!(text.contains("NaN at element 1"), "{text}");
    let nan = on.tensor(&[1], &[f32::NAN]).unwrap();
    assert!(on.call(Primitive::Sqrt.spec(), &[Some(&nan)], &[]).is_ok());
}

/// Reads booleans back as 0 and 255, like a backend whose kernels write these bytes.
#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Truthy<B> {
    inner: B,
}

#[bb::layer]
impl<B: InnerBackend> bb::Layer for Truthy<B> {
    fn to_host(&self, x: &B::Tensor) -> Result<TensorData, B::Error> {
        let host = self.inner.to_host(x)?;
        if host.dtype() != bb::DataType::Bool {
            return Ok(host);
        }
        let truths: Vec<u8> =
            host.unaligned_bytes().map_err(Error::from)?.iter().map(|x| x.wrapping_neg()).collect();
        Ok(TensorData::adopt(host.dtype(), host.shape(), truths.into()).map_err(Error::from)?)
    }
}

#[test]
fn check_finds_a_truth_value_that_is_neither_0_nor_1_inside_a_graph() {
    let trace = bb::export::ModelTrace::new(&[("x", bb::DataType::F32, &[3])], |on, inputs| {
        use bb::Backend as _;
        let negative = on.less(&inputs[0], &on.neg(&inputs[0])?)?;
        Ok(vec![on.r#where(&negative, &inputs[0], &inputs[0])?])
    });
    let module = trace.unwrap().module(&bb::export::ExportOptions::default()).unwrap();
    let run = |values| {
        let checked = bb_layers::Check::new(Truthy { inner: bb_reference::Reference }, values);
        let on = BackendHandle::start("checked", checked);
        let program = on.compile(module.clone(), &CompileOptions::default())?;
        program.run(&[Some(&on.tensor(&[3], &[1f32, -1.0, 2.0])?)])
    };
    let text = bb_core::error::causes(&run(true).unwrap_err());
    let expected = "layer `check` failed in `less`: result 0 of bool is 255 at element 1, expected 0 or 1";
    assert!(text.contains(expected), "{text}");
    assert!(run(false).is_ok());
}

/// The options of a name are compared by their values, and an option that is not set has its default.
#[test]
fn names_that_write_a_default_or_another_order_open_the_same_instance() {
    let owner = |name: &str| bb::backend(name).unwrap().owner();
    assert_eq!(owner("check(values=true)+reference"), owner("check+reference"));
    assert_ne!(owner("check(values=false)+reference"), owner("check+reference"));
    assert_eq!(owner("limit(calls=05, seconds=2)+cpu"), owner("limit( seconds=2.0, calls=5 ) + cpu"));
    let one = std::num::NonZeroUsize::MIN;
    let options = bb::OpenOptions::default().with_threads(one);
    let given = bb::backend_with("check+cpu", &options).unwrap();
    assert_eq!(given.owner(), owner("check(values=true)+cpu(threads=1)"));
    let combined = "first_of(check(values=true)+reference, cpu)";
    assert_eq!(owner(combined), owner("first_of( check+reference,cpu )"));
}

/// Loses the infinities of constants.
#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Losing<B> {
    inner: B,
}

#[bb::layer]
impl<B: InnerBackend> bb::Layer for Losing<B> {
    fn constant(&self, value: &TensorData) -> Result<B::Tensor, B::Error> {
        let x = self.inner.constant(value)?;
        let zero = self.inner.sub(&x, &x)?;
        self.inner.add(&x, &zero)
    }
}

#[test]
fn check_compares_the_tensor_of_a_constant_with_the_constant() {
    let checked =
        |values| BackendHandle::start("checked", bb_layers::Check::new(Losing { inner: Cpu::new() }, values));
    assert!(checked(true).tensor(&[2], &[1f32, 2.0]).is_ok());
    let text = bb_core::error::causes(&checked(true).tensor(&[2], &[1f32, f32::NEG_INFINITY]).unwrap_err());
    assert!(
        text.contains("layer `check` failed in `constant`: element 1 is nan, where the constant has -inf"),
        "{text}"
    );
    assert!(checked(false).tensor(&[2], &[1f32, f32::NEG_INFINITY]).is_ok());
    let whole = BackendHandle::start("whole", bb_layers::Check::new(Cpu::new(), true));
    assert!(whole.tensor(&[3], &[f32::NAN, f32::INFINITY, 1e-45]).is_ok());
}

/// The reference backend lowers `tanh(x)` to primitives, which take the logarithm of 0. Only the model itself takes the square root of a
/// negative number.
#[test]
fn check_does_not_judge_what_a_body_computes_inside() {
    let on = bb::backend("check+reference").unwrap();
    let model = |root: bool| {
        let trace = bb::export::ModelTrace::new(&[("x", bb::DataType::F32, &[2, 3])], |on, inputs| {
            use bb::Backend as _;
            use bb::ext::Scalar as _;
            Ok(vec![if root { on.sqrt(&inputs[0])? } else { on.tanh(&inputs[0])? }])
        });
        let options =
            bb::export::ExportOptions::default().opset(bb::ir::opset::NEWEST).keep(bb::export::Keep::All);
        trace.unwrap().module(&options).unwrap()
    };
    let x = [0.0, 1.0, -2.0, 0.0, 100.0, -100.0];
    let program = on.compile(model(false), &CompileOptions::default()).unwrap();
    let results = program.run(&[Some(&on.tensor(&[2, 3], &x).unwrap())]).unwrap();
    let y = on.to_host(&results[0]).unwrap();
    for (y, x) in y.as_slice::<f32>().unwrap().iter().zip(x) {
        assert!((y - f32::tanh(x)).abs() < 1e-6, "{y} for {x}");
    }
    let program = on.compile(model(true), &CompileOptions::default()).unwrap();
    let error = program.run(&[Some(&on.tensor(&[2, 3], &x).unwrap())]).unwrap_err();
    assert!(bb_core::error::causes(&error).contains("NaN at element 2"), "{error}");
}

#[test]
fn names_put_layers_on_backends() {
    let on = bb::backend("metrics+limit(calls=1000, memory=1G)+cpu(threads=1)").unwrap();
    assert!(bb::supports_device("metrics+cpu") && !bb::supports_device("metric+cpu"));
    let expected = run(&BackendHandle::start("plain", Cpu::new()), &X).unwrap();
    assert_eq!(run(&on, &X).unwrap(), expected);
    let again = bb::backend("metrics+limit(calls=1000, memory=1G)+cpu(threads=1)").unwrap();
    assert_eq!(again.owner(), on.owner());
    let counted: u64 =
        bb_layers::all_metrics().iter().flat_map(|table| table.snapshot()).map(|(_, row)| row.calls).sum();
    assert!(counted > 0);
    let error = bb::backend("metric+cpu").unwrap_err();
    assert!(
        matches!(&error, Error::UnknownLayer { nearest: Some(name), .. } if name == "metrics"),
        "{error}"
    );
    assert!(matches!(bb::backend("metrics+gpx"), Err(Error::UnknownBackend { .. })));
    let known = "there are `memory`, `calls`, `seconds`, `result`";
    for (name, expected) in [
        ("limit(call=3)+cpu", format!("layer `limit` has no option `call` (did you mean `calls`?); {known}")),
        // The layer has no elements to narrow, so it refuses this option.
        ("limit(narrow_floats)+cpu", format!("layer `limit` has no option `narrow_floats`; {known}")),
        (
            "limit(calls=many)+cpu",
            "the option `calls` is `many`; expected a whole number, at least 0".to_owned(),
        ),
    ] {
        let error = bb::backend(name).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(bb_core::error::causes(&error), expected);
        assert_eq!(error.kind(), ErrorKind::Configuration);
    }
    assert!(matches!(bb::backend("fault(rate=2)+cpu"), Err(Error::LayerUnavailable { layer: "fault", .. })));
    // `reference` has no memory service.
    for (name, expected) in [
        (
            "limit(memory=1K)+reference",
            "layer `limit` cannot be opened: the option `memory` cannot be `1024`: the backend has no memory service, which would apply the \
             limit",
        ),
        (
            "limit(seconds=-1)+cpu",
            "layer `limit` cannot be opened: the option `seconds` is `-1`; expected a number of seconds, at least 0",
        ),
    ] {
        let error = bb::backend(name).unwrap_err();
        assert_eq!(bb_core::error::causes(&error), expected);
        assert_eq!(error.kind(), ErrorKind::Configuration);
    }
    let error = bb::backend("fault(rate=1, op=mat_mul)+cpu").unwrap_err();
    assert!(
        bb_core::error::causes(&error).contains("did you mean `matmul`?"),
        "{}",
        bb_core::error::causes(&error)
    );
    let wrong = bb::backend("fault(kind=errors, at=1)+cpu").unwrap_err();
    assert_eq!(wrong.kind(), bb::ErrorKind::Configuration);
}

#[test]
fn a_fault_that_strikes_no_operation_is_refused() {
    for name in ["fault+cpu", "fault(kind=panic)+cpu", "fault(rate=0, at=0)+cpu"] {
        let error = bb::backend(name).unwrap_err();
        assert_eq!(
            bb_core::error::causes(&error),
            "layer `fault` cannot be opened: the option `rate` is `0`; expected a number above 0, as in `fault(rate=0.1)`, or the \
             number of an operation in `at`, as in `fault(at=3)`: without both, `fault` disturbs no operation"
        );
        assert_eq!(error.kind(), bb::ErrorKind::Configuration);
    }
    for name in ["fault(rate=0.1)+cpu", "fault(at=3)+cpu"] {
        assert!(bb::backend(name).is_ok(), "{name}");
    }
}

#[test]
fn a_fault_of_one_operation_and_of_a_share_is_refused() {
    let error = bb::backend("fault(at=1, rate=0.5)+cpu").unwrap_err();
    assert_eq!(
        bb_core::error::causes(&error),
        "layer `fault` cannot be opened: the option `at` is `1`; expected one of `at` and `rate`, not both: `fault(at=3)` for one \
         operation, `fault(rate=0.1)` for a share of all"
    );
    assert_eq!(error.kind(), ErrorKind::Configuration);
}

#[test]
fn a_file_that_cannot_be_opened_is_a_wrong_option() {
    let file = scratch("a-file");
    std::fs::write(&file, b"no recording").unwrap();
    let (no_folder, no_recording) = (file.join("x").display().to_string(), file.display().to_string());
    for (name, option, path) in [
        (format!("replay(from={no_folder})"), "from", &no_folder),
        (format!("replay(from={no_recording})"), "from", &no_recording),
        (format!("record(to={no_folder})+cpu"), "to", &no_folder),
        (format!("log(to={no_folder})+cpu"), "to", &no_folder),
    ] {
        let error = bb::backend(&name).unwrap_err();
        let text = bb_core::error::causes(&error);
        assert!(
            text.contains(&format!("cannot be opened: the option `{option}` cannot be `{path}`: ")),
            "{text}"
        );
        assert_eq!(error.kind(), ErrorKind::Configuration, "{text}");
    }
}

#[test]
fn a_recording_replays_and_says_which_call_differs() {
    let path = scratch("model.recording");
    let name = format!("record(to={})+cpu", path.display());
    let expected = {
        let on = bb::backend(&name).unwrap();
        run(&on, &X).unwrap()
    };
    let replay = || BackendHandle::start("replayed", bb_layers::Replay::open(&path).unwrap());
    assert_eq!(run(&replay(), &X).unwrap(), expected);
    let other = [9.0, 0.2, 0.3, -1.0, 0.5, 0.25];
    let text = bb_core::error::causes(&run(&replay(), &other).unwrap_err());
    assert!(text.contains("differs: expected"), "{text}");
    let by_name = bb::backend(&format!("replay(from={})", path.display())).unwrap();
    assert_eq!(run(&by_name, &X).unwrap(), expected);
}

#[test]
fn a_hostile_recording_is_an_error() {
    let path = scratch("hostile.recording");
    let on = bb::backend(&format!("record(to={})+cpu", path.display())).unwrap();
    run(&on, &X).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let damaged = scratch("damaged.recording");
    for cut in 0..whole.len() {
        std::fs::write(&damaged, &whole[..cut]).unwrap();
        // A file that ends after a whole entry is a valid, shorter recording.
        let _no_panic = bb_layers::Replay::open(&damaged);
    }
    for at in 0..whole.len().min(2000) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        std::fs::write(&damaged, &bytes).unwrap();
        let _no_panic = bb_layers::Replay::open(&damaged);
    }
    assert!(bb_layers::Replay::open(&scratch("missing.recording")).is_err());
    std::fs::write(&damaged, b"bbrecor\x01\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0\0\0").unwrap();
    assert!(bb_layers::Replay::open(&damaged).is_err());
}

#[test]
fn a_recording_of_another_version_is_refused() {
    let path = scratch("version.recording");
    let on = bb::backend(&format!("record(to={})+cpu", path.display())).unwrap();
    run(&on, &X).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let version = env!("CARGO_PKG_VERSION").as_bytes();
    let at = bytes.windows(version.len()).position(|window| window == version).unwrap();
    bytes[at] = b'9';
    std::fs::write(&path, &bytes).unwrap();
    let error = bb_layers::Replay::open(&path).unwrap_err();
    assert!(matches!(error, bb_layers::ReplayError::Version { .. }), "{error}");
}

#[test]
fn a_mock_answers_as_its_script_says() {
    let y = bb::TensorData::new(&[1], &[7f32]).unwrap();
    let mock = bb_layers::Mock::new()
        .expect(Primitive::Neg.spec())
        .with(|operands, _| operands[0].unwrap().as_slice::<f32>().unwrap() == [1.0])
        .times(2)
        .returns([y])
        .expect(Primitive::Exp.spec())
        .fails("out of paper");
    let script = mock.script();
    let on = mock.start("mock");
    let [one, two] = [1f32, 2.0].map(|x| on.tensor(&[1], &[x]).unwrap());
    let say = |error: Error| bb_core::error::causes(&error);
    assert!(say(negated(&on, &two).unwrap_err()).contains("the operands or parameters of `neg`"));
    assert!(say(one.exp().unwrap_err()).contains("expected a call of `neg`, got `exp`"));
    // The script still expects the calls that were refused.
    for left in [3, 2] {
        assert_eq!(script.left(), left);
        assert_eq!(on.to_host(&negated(&on, &one).unwrap()).unwrap().as_slice::<f32>().unwrap(), [7.0]);
    }
    assert!(say(one.exp().unwrap_err()).contains("out of paper"));
    assert!(say(one.exp().unwrap_err()).contains("the script has ended"));
}
