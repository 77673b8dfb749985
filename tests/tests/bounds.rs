//! Tests that limits hold whatever ran before: of values, of runs, of plans and of time.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ir::proto::{GraphProto, NodeProto, ValueInfoProto};
use bb::onnx::OnnxValue;
use bb::{
    Backend, BackendHandle, CancelToken, CompileOptions, DataType, ErasedExecutable, Error, Limits, Module,
    RunOptions, Runtime, TensorData, Value,
};
use bb_tests::counting::{Counted, Counting};
use bb_tests::model::{
    ints, model, node, serialized, typed, untyped, value, with_graph, with_int, with_ints,
};
use bb_tests::{backends, capped};
use std::time::{Duration, Instant};

fn zeros(shape: &[usize]) -> TensorData {
    TensorData::zeros(DataType::F32, shape, usize::MAX).unwrap()
}

fn limited(limits: &[(&str, &str)]) -> CompileOptions {
    let mut all = Limits::default();
    limits.iter().for_each(|(name, bytes)| all.set(name, bytes).unwrap());
    CompileOptions::default().within(&all)
}

/// Compiles a model on a backend by name, and runs it on tensors.
fn outcome(
    name: &str,
    model: &[u8],
    options: &CompileOptions,
    inputs: &[&[TensorData]],
) -> Vec<Result<(), String>> {
    let on = backends::start(name).unwrap();
    let compiled = on.clone().compile(Module::from_bytes(model.to_vec()).unwrap(), options).unwrap();
    let run = |inputs: &&[TensorData]| {
        let inputs: Vec<_> =
            inputs.iter().map(|x| Some(OnnxValue::Tensor(on.constant(x).unwrap()))).collect();
        compiled.run_items(&inputs).map(drop).map_err(|error| chain(&error))
    };
    inputs.iter().map(run).collect()
}

/// Writes an error with its sources.
fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}

#[test]
fn a_value_is_bounded_in_every_run_of_a_plan() {
    // The number of elements of a list's outer sum is the square of the list's length.
    let nodes = vec![
        ints("last", &[1]),
        node("Unsqueeze", &["x", "last"], &["column"]),
        node("Add", &["x", "column"], &["y"]),
    ];
    let model = model(&[("x", &[-1])], nodes, &[("y", &[-1, -1])]);
    for name in backends::NAMES {
        let options = limited(&[("value_bytes", "4000")]);
        let ran = outcome(
            name,
            &model,
            &options,
            &[&[zeros(&[8])], &[zeros(&[900])], &[zeros(&[31])], &[zeros(&[32])]],
        );
        assert!(ran[0].is_ok() && ran[2].is_ok(), "{name}: {ran:?}");
        for (ran, extent) in [(&ran[1], 900), (&ran[3], 32)] {
            let error = ran.as_ref().unwrap_err();
            let wanted = format!("f32 with extents [{extent}, {extent}]");
            assert!(
                error.contains("Add_y") && error.contains(&wanted) && error.contains("value_bytes"),
                "{name}: {error}"
            );
        }
    }
}

/// A large tensor is built from smaller ones; the error has the extents of the model.
#[test]
fn the_error_of_a_filled_tensor_names_the_requested_extents() {
    let nodes = vec![node("ConstantOfShape", &["to"], &["y"])];
    let model = model(&[("to", &[1])], nodes, &[("y", &[-1])]);
    let model = typed(model, &[("to", DataType::I64)]);
    let to = TensorData::new(&[1], &[1i64 << 40]).unwrap();
    for name in backends::NAMES {
        let ran = outcome(name, &model, &limited(&[]), &[std::slice::from_ref(&to)]);
        let error = ran[0].as_ref().unwrap_err();
        let wanted =
            "f32 with extents [1099511627776] is larger than 4294967296 bytes, the limit `value_bytes`";
        assert!(error.contains(wanted), "{name}: {error}");
    }
}

#[test]
fn what_the_host_computes_is_bounded() {
    // The number of indices depends on data: one per element other than 0.
    let model = typed(
        model(&[("x", &[-1])], vec![node("NonZero", &["x"], &["y"])], &[("y", &[1, -1])]),
        &[("y", DataType::I64)],
    );
    let ones = |n: usize| TensorData::new(&[n], &vec![1f32; n]).unwrap();
    for name in backends::NAMES {
        let options = limited(&[("value_bytes", "4000")]);
        let ran = outcome(name, &model, &options, &[&[ones(500)], &[ones(501)]]);
        assert!(ran[0].is_ok(), "{name}: {ran:?}");
        let error = ran[1].as_ref().unwrap_err();
        assert!(error.contains("NonZero_y") && error.contains("value_bytes"), "{name}: {error}");
    }
}

#[test]
fn planes_of_very_many_rows_are_pooled() {
    // A layout with 24 bytes for each row of windows would take 1.5 GiB, most of the memory of the test in little memory.
    let pool = with_ints(node("AveragePool", &["x"], &["y"]), "kernel_shape", &[1, 1]);
    let model = model(&[("x", &[-1, 1, -1, 1])], vec![pool], &[("y", &[-1, 1, -1, 1])]);
    for name in backends::NAMES {
        let ran = outcome(name, &model, &CompileOptions::default(), &[&[zeros(&[0, 1, 1 << 26, 1])]]);
        assert_eq!(ran, [Ok(())], "{name}");
    }
}

#[test]
fn what_lives_in_a_run_is_bounded() {
    // Five results of 4 MiB each that are all returned; equal ones would be computed once.
    let names: Vec<String> = (0..5).map(|i| format!("y{i}")).collect();
    let operators = ["Neg", "Abs", "Exp", "Log", "Sqrt"];
    let nodes = names.iter().zip(operators).map(|(y, op)| node(op, &["x"], &[y])).collect();
    let outputs: Vec<(&str, &[i64])> = names.iter().map(|y| (y.as_str(), &[-1][..])).collect();
    let wide = model(&[("x", &[-1])], nodes, &outputs);
    // A chain of the same results. Two of them live at a time.
    let mut chain = vec![node("Exp", &["x"], &["y0"])];
    chain.extend(names.windows(2).map(|pair| node("Exp", &[&pair[0]], &[&pair[1]])));
    let long = model(&[("x", &[-1])], chain, &[("y4", &[-1])]);
    let x = [zeros(&[1 << 20])];
    for name in ["cpu", "reference"] {
        let options = limited(&[("run_bytes", "14MiB")]);
        assert_eq!(outcome(name, &long, &options, &[&x]), [Ok(())], "{name}");
        let error = outcome(name, &wide, &options, &[&x])[0].clone().unwrap_err();
        assert!(error.contains("Exp_y2") && error.contains("run_bytes"), "{name}: {error}");
    }
    let error =
        outcome("whole-graph", &wide, &limited(&[("run_bytes", "14MiB")]), &[&x])[0].clone().unwrap_err();
    assert!(error.contains("run_bytes"), "{error}");
}

/// A loop of any number of iterations over one value that its body changes.
fn repeated(init: &str, body: Vec<NodeProto>, before: Vec<NodeProto>, input: ValueInfoProto) -> Vec<u8> {
    let body = [body, vec![node("Identity", &["go"], &["goes"])]].concat();
    let empty = "";
    let repeat = with_graph(
        node("Loop", &["count", empty, init], &["y"]),
        "body",
        &["i", "go", "v"],
        body,
        &["goes", "w"],
    );
    let graph = GraphProto {
        name: Some("loop".to_owned()),
        node: [before, vec![repeat]].concat(),
        input: vec![value("count", 7, &[]), input],
        output: vec![untyped("y")],
        ..GraphProto::default()
    };
    serialized(graph)
}

#[test]
fn texts_that_grow_in_a_loop_are_bounded() {
    let model = repeated("s", vec![node("StringConcat", &["v", "v"], &["w"])], vec![], value("s", 8, &["1"]));
    let inputs = [TensorData::scalar(100_000i64), TensorData::strings(&[1], &["grow"]).unwrap()];
    for name in backends::NAMES {
        let options = limited(&[("value_bytes", "1MiB")]);
        let error = outcome(name, &model, &options, &[&inputs])[0].clone().unwrap_err();
        assert!(error.contains("StringConcat_w") && error.contains("value_bytes"), "{name}: {error}");
        let options = limited(&[("run_bytes", "1MiB")]);
        let error = outcome(name, &model, &options, &[&inputs])[0].clone().unwrap_err();
        assert!(error.contains("StringConcat_w") && error.contains("run_bytes"), "{name}: {error}");
    }
}

#[test]
fn sequences_that_grow_in_a_loop_are_bounded() {
    let model = repeated(
        "s",
        vec![node("SequenceInsert", &["v", "x"], &["w"])],
        vec![node("SequenceEmpty", &[], &["s"])],
        value("x", 1, &["n"]),
    );
    let inputs = [TensorData::scalar(100_000i64), zeros(&[1 << 16])];
    for name in ["cpu", "reference", "whole-graph"] {
        let options = limited(&[("run_bytes", "8MiB")]);
        let error = outcome(name, &model, &options, &[&inputs])[0].clone().unwrap_err();
        assert!(error.contains("run_bytes") && error.contains("iteration"), "{name}: {error}");
    }
}

#[test]
fn only_what_a_plan_reads_stays_of_its_constants() {
    // A weight. Seven steps compute from it the value that the plan adds to its input.
    let extents = [64usize, 64];
    let shape = ints("shape", &[64, 64]);
    let mut nodes = vec![shape, node("ConstantOfShape", &["shape"], &["w0"])];
    nodes.push(node("Exp", &["w0"], &["w1"]));
    for i in 1..7 {
        nodes.push(node("MatMul", &[&format!("w{i}"), &format!("w{i}")], &[&format!("w{}", i + 1)]));
    }
    nodes.push(node("Add", &["x", "w7"], &["y"]));
    let model = model(&[("x", &[-1, 64])], nodes, &[("y", &[-1, 64])]);
    let on = Counting::default();
    let counts = on.counts();
    let module = Module::from_bytes(model).unwrap();
    let compiled = Backend::compile(&on, module, &CompileOptions::default()).unwrap();
    let x = on.constant(&zeros(&extents)).unwrap();
    compiled.run(&on, &[Some(&x)]).unwrap();
    // The input and the sum of constants. The operands of the sum are released.
    assert_eq!(counts.alive(), 2);
    let operations = counts.operations();
    let y = on.constant(&zeros(&[1, 64])).unwrap();
    compiled.run(&on, &[Some(&y)]).unwrap();
    assert_eq!(counts.operations(), operations + 2, "the constant and one addition");
}

/// Runs a model with 200 shapes, and returns how many tensors are left. A plan takes 160 KB at least.
fn left_of_masks(options: &CompileOptions) -> usize {
    // The elements of an input decide extents, so that each has a plan; each plan has a mask of its own.
    let nodes = vec![
        node("ConstantOfShape", &["n"], &["mask"]),
        node("Exp", &["mask"], &["exp"]),
        node("Neg", &["exp"], &["neg"]),
        node("Concat", &["neg", "neg"], &["both"]),
        node("Add", &["both", "x"], &["y"]),
    ];
    let concat = with_int(nodes[3].clone(), "axis", 0);
    let nodes = nodes.into_iter().enumerate().map(|(i, n)| if i == 3 { concat.clone() } else { n }).collect();
    let graph = GraphProto {
        name: Some("masks".to_owned()),
        node: nodes,
        input: vec![value("n", 7, &["1"]), value("x", 1, &[])],
        output: vec![value("y", 1, &["m"])],
        ..GraphProto::default()
    };
    let on = Counting::default();
    let counts = on.counts();
    let module = Module::from_bytes(serialized(graph)).unwrap();
    let compiled = Backend::compile(&on, module, options).unwrap();
    let x = on.constant(&TensorData::scalar(1f32)).unwrap();
    for n in 0..200 {
        // 8 to 9.6 KiB of elements before they are doubled.
        let n = on.constant(&TensorData::new(&[1], &[20_000i64 + n]).unwrap()).unwrap();
        compiled.run(&on, &[Some(&n), Some(&x)]).unwrap();
    }
    counts.alive()
}

#[test]
fn plans_for_many_shapes_take_bounded_memory() {
    // The inputs, and the masks of all plans that fit.
    let left = left_of_masks(&limited(&[("plan_bytes", "1MiB")]));
    assert!(left <= 2 + 8, "{left}");
    // Without a limit that they reach, all plans that a segment keeps are left.
    let left = left_of_masks(&CompileOptions::default());
    assert!(left > 32, "{left}");
    // The limit of the process applies regardless of the graph's limit. It may drop plans of other tests, which then create them again.
    bb::limit_process_plans(1 << 20);
    let left = left_of_masks(&CompileOptions::default());
    bb::limit_process_plans(1 << 30);
    assert!(left <= 2 + 8, "{left}");
}

#[test]
fn threads_that_miss_one_plan_wait_for_the_one_that_makes_it() {
    let on = Counting::default();
    let counts = on.counts();
    let module = Module::from_bytes(once()).unwrap();
    let compiled = Backend::compile(&on, module, &CompileOptions::default()).unwrap();
    let x: Counted = on.constant(&zeros(&[64, 64])).unwrap();
    let before = counts.operations();
    std::thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| compiled.run(&on, &[Some(&x)]).unwrap());
        }
    });
    let made = counts.operations() - before - 32;
    let again = counts.operations();
    let other =
        Backend::compile(&on, Module::from_bytes(once()).unwrap(), &CompileOptions::default()).unwrap();
    other.run(&on, &[Some(&x)]).unwrap();
    assert_eq!(made, counts.operations() - again - 1, "what one thread does to make the plan");
}

/// A model that adds a constant, which is computed when its plan is made.
fn once() -> Vec<u8> {
    let nodes = vec![
        ints("shape", &[64, 64]),
        node("ConstantOfShape", &["shape"], &["w"]),
        node("Exp", &["w"], &["e"]),
        node("Add", &["x", "e"], &["y"]),
    ];
    model(&[("x", &[64, 64])], nodes, &[("y", &[64, 64])])
}

/// Calls `check` on each backend with a loop that never ends by itself, compiled, and its inputs.
fn endless(check: impl Fn(&str, &Runtime, &dyn ErasedExecutable, &[Option<OnnxValue<Value>>])) {
    let model = repeated("x", vec![node("Cos", &["v"], &["w"])], vec![], value("x", 1, &["n"]));
    let inputs = [TensorData::scalar(i64::MAX), zeros(&[16])];
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        let module = Module::from_bytes(model.clone()).unwrap();
        let compiled = on.clone().compile(module, &limited(&[("iterations", "9000000000000")])).unwrap();
        let inputs: Vec<_> =
            inputs.iter().map(|x| Some(OnnxValue::Tensor(on.constant(x).unwrap()))).collect();
        check(name, &on, &*compiled, &inputs);
    }
}

#[test]
fn a_run_ends_at_its_deadline() {
    endless(|name, _, compiled, inputs| {
        let begun = Instant::now();
        let options = RunOptions::default().with_deadline(begun + Duration::from_millis(100));
        let error = chain(&options.within(|| compiled.run_items(inputs)).unwrap_err());
        assert!(error.ends_with(&Error::DeadlineExceeded.to_string()), "{name}: {error}");
        assert!(begun.elapsed() >= Duration::from_millis(100));
    });
}

#[test]
fn a_run_can_be_cancelled() {
    endless(|name, on, compiled, inputs| {
        let token = CancelToken::new();
        let error = std::thread::scope(|scope| {
            let options = RunOptions::default().with_cancel(&token);
            let run = scope.spawn(move || options.within(|| compiled.run_items(inputs)));
            std::thread::sleep(Duration::from_millis(20));
            token.cancel();
            chain(&run.join().unwrap().unwrap_err())
        });
        assert!(error.ends_with(&Error::Cancelled.to_string()), "{name}: {error}");
        // A cancelled graph can run again.
        let few = on.constant(&TensorData::scalar(2i64)).unwrap();
        assert!(compiled.run_items(&[Some(OnnxValue::Tensor(few)), inputs[1].clone()]).is_ok(), "{name}");
    });
}

/// The header of a BMP picture without its pixels; only the header's extents determine the size.
fn bitmap(width: u32, height: u32) -> Vec<u8> {
    let mut file = b"BM".to_vec();
    for word in [54u32, 0, 54, 40, width, height] {
        file.extend(word.to_le_bytes());
    }
    file.extend([1, 0, 24, 0]);
    file.extend([0; 24]);
    file
}

#[test]
fn a_picture_is_bounded_before_it_is_decoded() {
    let model = model(&[("x", &[-1])], vec![node("ImageDecoder", &["x"], &["y"])], &[("y", &[-1, -1, 3])]);
    let model = typed(model, &[("x", DataType::U8), ("y", DataType::U8)]);
    let file = bitmap(8000, 8000);
    let file = TensorData::new(&[file.len()], &file).unwrap();
    for name in backends::NAMES {
        let error =
            outcome(name, &model, &limited(&[("value_bytes", "1MiB")]), &[std::slice::from_ref(&file)]);
        let error = error[0].clone().unwrap_err();
        assert!(
            error.contains("u8 with extents [8000, 8000, 3]") && error.contains("value_bytes"),
            "{name}: {error}"
        );
    }
}

#[test]
#[cfg(target_os = "linux")]
fn all_of_this_holds_in_little_memory() {
    const AGAIN: &str = "BB_BOUNDS_AGAIN";
    if std::env::var_os(AGAIN).is_none() {
        let out =
            capped::run(&["--test-threads=1"], &[(AGAIN, "1")]).unwrap_or_else(|report| panic!("{report}"));
        assert!(out.contains("test a_run_can_be_cancelled ... ok"), "{out}");
    }
}

#[test]
fn options_are_an_argument_of_every_run() {
    let token = CancelToken::new();
    token.cancel();
    let options = RunOptions::default().with_cancel(&token);
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        let x = on.constant(&zeros(&[64, 64])).unwrap();
        let ended = |outputs: Result<Vec<Value>, Error>| {
            let error = chain(&outputs.unwrap_err());
            assert!(error.ends_with(&Error::Cancelled.to_string()), "{name}: {error}");
        };
        let compiled =
            on.clone().compile(Module::from_bytes(once()).unwrap(), &CompileOptions::default()).unwrap();
        ended(compiled.run_with(&[Some(&x)], &options));
        assert!(compiled.run_with(&[Some(&x)], &RunOptions::default()).is_ok(), "{name}");

        let deployment =
            bb::Deployment::builder().model("m", once()).backend(BackendHandle::new(on)).ready().unwrap();
        ended(deployment.run_with(&[Some(&x)], &options));
        let inputs = [Some(&x)];
        let polled = std::pin::pin!(options.within_async(deployment.run_async(&inputs)));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match polled.poll(&mut context) {
            std::task::Poll::Ready(outputs) => ended(outputs),
            std::task::Poll::Pending => panic!("{name}: cancelled, and pending"),
        }
        assert!(deployment.run(&[Some(&x)]).is_ok(), "{name}");
    }
}
