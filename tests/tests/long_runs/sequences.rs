//! Tests that loops over sequences make a fixed number of plans, and take time and memory in proportion to their iterations.

use bb::ir::proto::{GraphProto, NodeProto};
use bb::onnx::OnnxValue;
use bb::profile::{Activity, Profile};
use bb::{CompileOptions, Limits, Module, RunOptions, Runtime, TensorData, Value};
use bb_tests::backends;
use bb_tests::model::{node, serialized, untyped, value, with_graph, with_int};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const BACKENDS: [&str; 3] = ["cpu", "reference", "whole-graph"];

/// A model of these nodes whose only input is a number of iterations.
fn model(nodes: Vec<NodeProto>, outputs: &[&str]) -> Vec<u8> {
    serialized(GraphProto {
        name: Some("loop".to_owned()),
        input: vec![value("n", 7, &[])],
        output: outputs.iter().map(|name| untyped(name)).collect(),
        node: nodes,
        ..GraphProto::default()
    })
}

fn empty() -> NodeProto {
    with_int(node("SequenceEmpty", &[], &["empty"]), "dtype", 7)
}

fn loops(body: Vec<NodeProto>, inputs: &[&str], outputs: &[&str], results: &[&str]) -> NodeProto {
    let holder = node("Loop", &["n", "", "empty"], results);
    with_graph(holder, "body", inputs, body, outputs)
}

/// A loop that appends its iterations to a sequence.
fn appends() -> NodeProto {
    let body = vec![node("Identity", &["c"], &["d"]), node("SequenceInsert", &["s", "i"], &["t"])];
    loops(body, &["i", "c", "s"], &["d", "t"], &["all"])
}

fn stacked(sequence: &str, output: &str) -> NodeProto {
    with_int(with_int(node("ConcatFromSequence", &[sequence], &[output]), "axis", 0), "new_axis", 1)
}

/// The values of a run, how many plans it made, and how often it asked whether it must end.
struct Ran {
    values: Vec<TensorData>,
    plans: u64,
    asked: usize,
}

fn run(
    on: &Arc<Runtime>,
    model: &[u8],
    options: &CompileOptions,
    inputs: &[i64],
) -> Result<Vec<Ran>, bb::Error> {
    let compiled = on.clone().compile(Module::from_bytes(model.to_vec())?, options)?;
    let one = |n: &i64| {
        let x: OnnxValue<Value> = OnnxValue::Tensor(on.constant(&TensorData::scalar(*n))?);
        let (mut profile, asked) = (Profile::new(), Arc::new(AtomicUsize::new(0)));
        let watch = {
            let asked = asked.clone();
            RunOptions::default().with_watch(move || {
                asked.fetch_add(1, Ordering::Relaxed);
                false
            })
        };
        let results = watch.within(|| compiled.run_profiled(&[Some(x)], &mut profile))?;
        let planning = profile.rows().iter().filter(|row| row.activity == Activity::Planning);
        let mut values = Vec::new();
        for result in &results {
            let mut failed = None;
            result.visit(&mut |x| match x.to_host(usize::MAX) {
                Ok(x) => values.push(x),
                Err(error) => failed = Some(error),
            });
            failed.map_or(Ok(()), Err)?;
        }
        Ok(Ran { values, plans: planning.map(|row| row.calls).sum(), asked: asked.load(Ordering::Relaxed) })
    };
    inputs.iter().map(one).collect()
}

/// Runs a model on all backends; each result is a list of `i64`.
fn check(nodes: &[NodeProto], outputs: &[&str], n: i64, expected: &[Vec<i64>]) {
    let model = model(nodes.to_vec(), outputs);
    for backend in BACKENDS {
        let on = backends::start(backend).unwrap();
        let ran =
            run(&on, &model, &CompileOptions::default(), &[n]).unwrap_or_else(|e| panic!("{backend}: {e:?}"));
        let got: Vec<Vec<i64>> =
            ran[0].values.iter().map(|x| x.as_slice::<i64>().unwrap().to_vec()).collect();
        assert_eq!(got, expected, "{backend}");
    }
}

#[test]
fn a_loop_that_appends_makes_one_plan_for_all_lengths() {
    let model = model(vec![empty(), appends(), stacked("all", "y")], &["y"]);
    for backend in BACKENDS {
        let on = backends::start(backend).unwrap();
        // The runs after the first need no plan, and ask as often for each iteration.
        let counts = [2, 300, 600];
        let ran = run(&on, &model, &CompileOptions::default(), &counts).unwrap();
        for (ran, n) in ran.iter().zip(counts) {
            assert_eq!(ran.values[0].as_slice::<i64>().unwrap(), (0..n).collect::<Vec<_>>(), "{backend}");
        }
        assert!(ran[0].plans <= 8, "{backend}: {} plans", ran[0].plans);
        assert_eq!((ran[1].plans, ran[2].plans), (0, 0), "{backend}");
        let ratio = ran[2].asked as f64 / ran[1].asked as f64;
        assert!((1.9..2.1).contains(&ratio), "{backend}: {} and {}", ran[1].asked, ran[2].asked);
    }
}

#[test]
fn many_appends_take_memory_within_the_limit_of_a_run() {
    const MANY: i64 = 1 << 18;
    let model = model(vec![empty(), appends(), node("SequenceLength", &["all"], &["y"])], &["y"]);
    let on = backends::start("cpu").unwrap();
    let ran = run(&on, &model, &CompileOptions::default(), &[MANY / 16]).unwrap();
    assert_eq!(ran[0].values[0].as_slice::<i64>().unwrap(), [MANY / 16]);
    let mut limits = Limits::default();
    limits.set("run_bytes", "1MiB").unwrap();
    let error = run(&on, &model, &CompileOptions::default().within(&limits), &[MANY]).err().unwrap();
    let mut source: Option<&dyn std::error::Error> = Some(&error);
    let mut texts = Vec::new();
    while let Some(error) = source {
        texts.push(error.to_string());
        source = error.source();
    }
    assert!(texts.iter().any(|text| text.contains("run_bytes")), "{texts:?}");
}

#[test]
fn items_are_inserted_and_erased_at_positions() {
    let zero = || bb_tests::model::ints("zero", &[0]);
    // The first item is the newest.
    let body =
        vec![zero(), node("Identity", &["c"], &["d"]), node("SequenceInsert", &["s", "i", "zero"], &["t"])];
    let first = loops(body, &["i", "c", "s"], &["d", "t"], &["all"]);
    let n = 300;
    check(&[empty(), first, stacked("all", "y")], &["y"], n, &[(0..n).rev().collect()]);
    // Two are appended, and the first is erased.
    let body = vec![
        zero(),
        node("Identity", &["c"], &["d"]),
        node("SequenceInsert", &["s", "i"], &["t"]),
        node("SequenceInsert", &["t", "i"], &["u"]),
        node("SequenceErase", &["u", "zero"], &["v"]),
    ];
    let both = loops(body, &["i", "c", "s"], &["d", "v"], &["all"]);
    let twice: Vec<i64> = (0..n).flat_map(|i| [i, i]).skip(n as usize).collect();
    check(&[empty(), both, stacked("all", "y")], &["y"], n, &[twice]);
}

#[test]
fn a_sequence_that_something_else_holds_stays_as_it_is() {
    // Each iteration appends to the sequence from before the loop, which all of them capture; the state is the last one.
    let append = with_int(node("Constant", &[], &["seven"]), "value_int", 7);
    let body = vec![
        node("Identity", &["c"], &["d"]),
        node("SequenceInsert", &["all", "i"], &["t"]),
        node("SequenceLength", &["t"], &["count"]),
        node("SequenceLength", &["s"], &["before"]),
    ];
    let again = {
        let holder = node("Loop", &["n", "", "empty"], &["last", "counts", "befores"]);
        with_graph(holder, "body", &["i", "c", "s"], body, &["d", "t", "count", "before"])
    };
    let nodes = [empty(), appends(), append, again, stacked("all", "y"), stacked("last", "z")];
    let n = 300;
    let last: Vec<i64> = (0..n).chain([n - 1]).collect();
    let befores: Vec<i64> = [0].into_iter().chain(vec![n + 1; n as usize - 1]).collect();
    let expected = [(0..n).collect(), last, vec![n + 1; n as usize], befores];
    check(&nodes, &["y", "z", "counts", "befores"], n, &expected);
}

#[test]
fn what_follows_a_loop_looks_into_its_sequence() {
    let nodes = [
        empty(),
        appends(),
        with_int(node("Constant", &[], &["last"]), "value_int", -1),
        node("SequenceAt", &["all", "last"], &["a"]),
        node("Identity", &["all"], &["same"]),
        node("Optional", &["same"], &["maybe"]),
        node("OptionalHasElement", &["maybe"], &["has"]),
        node("OptionalGetElement", &["maybe"], &["got"]),
        node("SequenceLength", &["got"], &["b"]),
        with_int(node("Cast", &["has"], &["c"]), "to", 7),
        with_graph(
            node("SequenceMap", &["got"], &["mapped"]),
            "body",
            &["x"],
            vec![node("Add", &["x", "x"], &["xx"])],
            &["xx"],
        ),
        stacked("mapped", "e"),
    ];
    let n = 300;
    check(
        &nodes,
        &["a", "b", "c", "e"],
        n,
        &[vec![n - 1], vec![n], vec![1], (0..n).map(|i| 2 * i).collect()],
    );
}

#[test]
fn a_sequence_is_a_result_as_it_is() {
    let n = 300;
    check(&[empty(), appends()], &["all"], n, &(0..n).map(|i| vec![i]).collect::<Vec<_>>());
}

#[test]
fn positions_that_do_not_exist_are_refused() {
    let nodes = vec![empty(), appends(), node("SequenceAt", &["all", "n"], &["y"])];
    let on = backends::start("cpu").unwrap();
    let error = run(&on, &model(nodes, &["y"]), &CompileOptions::default(), &[300]).err().unwrap();
    let error = format!("{error:?}");
    assert!(error.contains("is 300, expected one of 300"), "{error}");
}

/// A tensor that is taken apart into many and put together again makes no plan as long as they are many.
#[test]
fn many_parts_make_short_plans() {
    let nodes = vec![
        with_int(node("Constant", &[], &["zero"]), "value_int", 0),
        with_int(node("Constant", &[], &["one"]), "value_int", 1),
        node("Range", &["zero", "n", "one"], &["x"]),
        node("SplitToSequence", &["x"], &["parts"]),
        with_int(node("ConcatFromSequence", &["parts"], &["y"]), "axis", 0),
    ];
    let model = model(nodes, &["y"]);
    for backend in BACKENDS {
        let on = backends::start(backend).unwrap();
        let ran = run(&on, &model, &CompileOptions::default(), &[2000, 4000]).unwrap();
        for (ran, n) in ran.iter().zip([2000, 4000]) {
            assert_eq!(ran.values[0].as_slice::<i64>().unwrap(), (0..n).collect::<Vec<_>>(), "{backend}");
            assert!(ran.plans <= 8, "{backend}: {} plans", ran.plans);
        }
    }
}
