//! Traces that a program rewrites, and what compiles of them.

use bb::export::ModelTrace;
use bb::ext::{Create, Nn};
use bb::{Backend, BackendHandle, CompileOptions, DataType, Error, Module, Runtime};
use bb_tests::backends;
use bb_tests::model::{ints, model, node};
use std::collections::HashMap;

fn each() -> impl Iterator<Item = BackendHandle> {
    backends::NAMES.into_iter().map(|name| BackendHandle::new(backends::start(name).unwrap()))
}

fn names(trace: &ModelTrace) -> Vec<&'static str> {
    trace.operations().map(|op| op.method).collect()
}

/// `softmax(-x) + 1`
fn trace() -> ModelTrace {
    ModelTrace::new(&[("x", DataType::F32, &[2])], |on, inputs| {
        let y = on.softmax(&on.neg(&inputs[0])?, -1)?;
        Ok(vec![on.add(&y, &on.scalar_like(&y, 1.0)?)?])
    })
    .unwrap()
}

fn run(on: &BackendHandle, trace: &ModelTrace, x: [f32; 2]) -> Vec<f32> {
    let program = on.compile_trace(trace, &CompileOptions::default()).unwrap();
    let x = on.tensor(&[2], &x).unwrap();
    program.run(&[Some(&x)]).unwrap()[0].to_host(64).unwrap().as_slice::<f32>().unwrap().to_vec()
}

fn near(found: &[f32], expected: [f64; 2]) -> bool {
    found.len() == 2 && found.iter().zip(expected).all(|(a, b)| (f64::from(*a) - b).abs() < 1e-6)
}

#[test]
fn a_rewritten_trace_runs_on_every_backend() {
    let [a, b] = [0.5f64, -1.0].map(|x| (-x).exp());
    let before = [a / (a + b) + 1.0, b / (a + b) + 1.0];
    // Without the negation, the later results differ.
    let [c, d] = [0.5f64, -1.0].map(f64::exp);
    let after = [c / (c + d) + 1.0, d / (c + d) + 1.0];
    let rewritten = trace()
        .rewrite(|_, step| match (step.op.method, step.inputs) {
            ("neg", [Some(x)]) => Ok(Some(vec![(*x).clone()])),
            _ => Ok(None),
        })
        .unwrap();
    assert!(names(&trace()).contains(&"neg") && !names(&rewritten).contains(&"neg"));
    assert!(names(&rewritten).contains(&"softmax"), "the operation of the family is still one step");
    for on in each() {
        assert!(near(&run(&on, &trace(), [0.5, -1.0]), before));
        assert!(near(&run(&on, &rewritten, [0.5, -1.0]), after));
    }
}

#[test]
fn what_nothing_reads_any_more_is_left_out() {
    let short = trace()
        .rewrite(|on, step| match step.op.method {
            "add" => Ok(Some(vec![on.full(&[2], 7.0, DataType::F32)?])),
            _ => Ok(None),
        })
        .unwrap();
    assert!(
        names(&short).iter().all(|name| !["neg", "softmax", "add"].contains(name)),
        "{:?}",
        names(&short)
    );
    for on in each() {
        assert_eq!(run(&on, &short, [1.0, 2.0]), [7.0, 7.0]);
    }
}

#[test]
fn other_results_than_the_step_had_are_refused() {
    let with = |dtype: DataType, shape: &'static [usize], count: usize| {
        trace()
            .rewrite(move |on, step| match step.op.method {
                "neg" => Ok(Some(vec![on.zeros(shape, dtype)?; count])),
                _ => Ok(None),
            })
            .map(drop)
    };
    with(DataType::F32, &[2], 1).unwrap();
    assert!(matches!(with(DataType::F32, &[2], 2), Err(Error::Results { expected: 1, got: 2, .. })));
    assert!(matches!(
        with(DataType::F64, &[2], 1),
        Err(Error::Ir(bb::ir::Error::DataType { expected: DataType::F32, got: DataType::F64 }))
    ));
    assert!(matches!(with(DataType::F32, &[3], 1), Err(Error::Ir(bb::ir::Error::Shapes { op: "neg", .. }))));
    let own = trace().rewrite(|_, _| Err(Error::Abandoned.into()));
    assert!(own.is_err());
}

/// A model's trace keeps its open extents and its weights.
#[test]
fn the_trace_of_a_model_is_rewritten_and_compiled() {
    let nodes =
        vec![ints("one", &[1]), node("Neg", &["x"], &["m"]), node("Unsqueeze", &["m", "one"], &["y"])];
    let module = Module::from_bytes(model(&[("x", &[-1])], nodes, &[("y", &[-1, 1])])).unwrap();
    let trace = ModelTrace::of_module(&module, &HashMap::new()).unwrap();
    let rewritten = trace
        .rewrite(|on, step| match (step.op.method, step.inputs) {
            ("neg", [Some(x)]) => Ok(Some(vec![on.abs(x)?])),
            _ => Ok(None),
        })
        .unwrap();
    let on = BackendHandle::new(Runtime::new(bb_cpu::Cpu::new()));
    let program = on.compile_trace(&rewritten, &CompileOptions::default()).unwrap();
    for count in [1, 3] {
        let x = on.tensor(&[count], &vec![-2f32; count]).unwrap();
        let y = program.run(&[Some(&x)]).unwrap().remove(0);
        assert_eq!(y.shape(), [count, 1]);
        assert_eq!(y.to_host(64).unwrap().as_slice::<f32>().unwrap(), vec![2f32; count]);
    }
}
