//! Tests that plans hold for all extents that do not change the operations, and never for others. For each input, the
//! result of a plan must be bit by bit the same as the result of a new plan.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::onnx::OnnxValue;
use bb::profile::{Activity, Profile};
use bb::{CompileOptions, ErasedExecutable, Module, Runtime, TensorData, Value};
use bb_tests::backends;
use bb_tests::model::{ints, model, node, with_int, with_ints};
use std::collections::HashMap;
use std::sync::Arc;

type Shapes<'a> = &'a [&'a [usize]];

fn parsed(model: &[u8]) -> Module {
    Module::from_bytes(model.to_vec()).unwrap()
}

fn compile(on: &Arc<Runtime>, module: &Module) -> Arc<dyn ErasedExecutable> {
    on.clone().compile(module.clone(), &CompileOptions::default()).unwrap()
}

/// Makes f32 elements between -1 and 1 that differ between runs.
fn tensor(shape: &[usize], run: usize) -> TensorData {
    let element = |i: usize| ((i * 37 + run * 11) % 101) as f32 / 50.0 - 1.0;
    TensorData::new(shape, &(0..shape.iter().product()).map(element).collect::<Vec<f32>>()).unwrap()
}

/// Makes tensors of these shapes.
fn tensors(shapes: &[Vec<usize>], run: usize) -> Vec<TensorData> {
    shapes.iter().map(|shape| tensor(shape, run)).collect()
}

/// Runs a graph with these inputs. Returns the outputs, or `None` if the run fails.
fn run(
    on: &Arc<Runtime>,
    graph: &dyn ErasedExecutable,
    inputs: &[TensorData],
    profile: &mut Profile,
) -> Option<Vec<TensorData>> {
    let inputs: Vec<Option<OnnxValue<Value>>> =
        inputs.iter().map(|x| Some(OnnxValue::Tensor(on.constant(x).unwrap()))).collect();
    let outputs = graph.run_profiled(&inputs, profile).ok()?;
    Some(outputs.iter().map(|x| on.to_host(x.tensor().unwrap()).unwrap()).collect())
}

fn plans(profile: &Profile) -> u64 {
    profile.rows().iter().filter(|row| row.activity == Activity::Planning).map(|row| row.calls).sum()
}

/// Finds the first element that differs between two runs.
fn first_difference(a: &Option<Vec<TensorData>>, b: &Option<Vec<TensorData>>) -> Option<(usize, f32, f32)> {
    let floats = |x: &Option<Vec<TensorData>>| -> Vec<f32> {
        let all = x.iter().flatten().filter_map(|x| x.as_slice::<f32>().ok());
        all.flatten().copied().collect()
    };
    let pairs = floats(a).into_iter().zip(floats(b)).enumerate();
    pairs.map(|(at, (a, b))| (at, a, b)).find(|(_, a, b)| a.to_bits() != b.to_bits())
}

fn close(a: &TensorData, b: &TensorData) -> bool {
    a.dtype() == b.dtype()
        && a.shape() == b.shape()
        && match (a.as_slice::<f32>(), b.as_slice::<f32>()) {
            (Ok(a), Ok(b)) => a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-4 + 1e-3 * b.abs()),
            _ => a.bytes().unwrap() == b.bytes().unwrap(),
        }
}

/// Runs one compiled graph on all of these shapes on every backend. Each run is compared bit by bit with a graph that
/// is compiled only for this run, and also with the reference backend. Returns the number of plans that the interpreter
/// created; the plans of the first run count as one.
fn walked(model: &[u8], runs: &[Vec<Vec<usize>>]) -> u64 {
    let inputs: Vec<Vec<TensorData>> = runs.iter().enumerate().map(|(at, run)| tensors(run, at)).collect();
    walked_on(&backends::NAMES, model, &inputs)
}

/// Like [`walked`], on some backends and with these inputs.
fn walked_on(names: &[&str], model: &[u8], runs: &[Vec<TensorData>]) -> u64 {
    let reference = backends::start("reference").unwrap();
    // All graphs share one module, so that the weights stay at the same addresses. Kernels may sum in an order that
    // depends on the address of a weight.
    let module = parsed(model);
    let mut most = 0;
    for &name in names {
        let on = backends::start(name).unwrap();
        let graph = compile(&on, &module);
        let mut profile = Profile::new();
        // The first run may make several plans: for segments, and for values that must be known.
        let mut first = 0;
        for (at, inputs) in runs.iter().enumerate() {
            let shapes: Vec<&[usize]> = inputs.iter().map(TensorData::shape).collect();
            let got = run(&on, &*graph, inputs, &mut profile);
            if at == 0 {
                first = plans(&profile);
            }
            let anew = run(&on, &*compile(&on, &module), inputs, &mut Profile::new());
            assert_eq!(got, anew, "{name}: run {at} of {shapes:?}: {:?}", first_difference(&got, &anew));
            let expected = run(&reference, &*compile(&reference, &module), inputs, &mut Profile::new());
            match (&got, &expected) {
                (Some(got), Some(expected)) => {
                    assert!(
                        got.len() == expected.len() && got.iter().zip(expected).all(|(a, b)| close(a, b)),
                        "{name}: run {at} of {shapes:?}: {got:?}, expected {expected:?}"
                    );
                }
                (got, expected) => {
                    assert_eq!(got.is_some(), expected.is_some(), "{name}: run {at} of {shapes:?}")
                }
            }
        }
        if name != "whole-graph" {
            let count = 1 + plans(&profile) - first;
            most = most.max(count);
            if count > 1 {
                let conditions = module.plan_conditions(&HashMap::new(), &on.capabilities().families);
                println!("{name}: {count} plans: {}", conditions.unwrap());
            }
        }
    }
    most
}

fn shapes(of: Shapes<'_>) -> Vec<Vec<usize>> {
    of.iter().map(|shape| shape.to_vec()).collect()
}

/// A layer of a decoder whose cache grows. New keys are appended to the cache, and the output is the cache of the next
/// run.
fn decoder() -> Vec<u8> {
    let nodes = vec![
        with_int(node("Concat", &["past", "x"], &["present"]), "axis", 1),
        with_ints(node("Transpose", &["present"], &["keys"]), "perm", &[0, 2, 1]),
        node("MatMul", &["x", "keys"], &["scores"]),
        with_int(node("Softmax", &["scores"], &["weights"]), "axis", -1),
        node("MatMul", &["weights", "present"], &["y"]),
    ];
    model(
        &[("x", &[1, -1, 8]), ("past", &[1, -1, 8])],
        nodes,
        &[("y", &[1, -1, 8]), ("present", &[1, -1, 8])],
    )
}

#[test]
fn a_decoder_whose_cache_grows_has_one_plan() {
    let runs: Vec<_> = (0..20).map(|past| shapes(&[&[1, 1, 8], &[1, past, 8]])).collect();
    assert_eq!(walked(&decoder(), &runs), 1);
}

/// Attention with a mask that is computed from the length of the sequence, as exporters write it.
fn masked() -> Vec<u8> {
    let nodes = vec![
        node("Shape", &["x"], &["shape"]),
        ints("zero", &[0]),
        ints("one", &[1]),
        ints("two", &[2]),
        node("Gather", &["shape", "one"], &["length"]),
        node("Squeeze", &["length", "zero"], &["s"]),
        node("Squeeze", &["zero", "zero"], &["from"]),
        node("Squeeze", &["one", "zero"], &["step"]),
        node("Range", &["from", "s", "step"], &["places"]),
        node("Unsqueeze", &["places", "zero"], &["columns"]),
        node("Unsqueeze", &["places", "one"], &["rows"]),
        node("LessOrEqual", &["columns", "rows"], &["allowed"]),
        with_int(node("Concat", &["length", "length"], &["square"]), "axis", 0),
        node("Expand", &["allowed", "square"], &["mask"]),
        // Splits into heads: [b, s, 8] becomes [b, 2, s, 4].
        node("Slice", &["shape", "zero", "two"], &["leading"]),
        ints("heads", &[2, -1]),
        with_int(node("Concat", &["leading", "heads"], &["split"]), "axis", 0),
        node("Reshape", &["x", "split"], &["apart"]),
        with_ints(node("Transpose", &["apart"], &["q"]), "perm", &[0, 2, 1, 3]),
        with_ints(node("Transpose", &["apart"], &["k"]), "perm", &[0, 2, 3, 1]),
        node("MatMul", &["q", "k"], &["scores"]),
        node("Neg", &["x"], &["negative"]),
        node("ReduceSum", &["negative"], &["sum"]),
        node("Exp", &["sum"], &["positive"]),
        node("Neg", &["positive"], &["low"]),
        node("Where", &["mask", "scores", "low"], &["masked"]),
        with_int(node("Softmax", &["masked"], &["weights"]), "axis", -1),
        node("MatMul", &["weights", "q"], &["heads_out"]),
        with_ints(node("Transpose", &["heads_out"], &["together"]), "perm", &[0, 2, 1, 3]),
        ints("merged", &[0, 0, 8]),
        node("Reshape", &["together", "merged"], &["y"]),
    ];
    model(&[("x", &[-1, -1, 8])], nodes, &[("y", &[-1, -1, 8])])
}

#[test]
fn attention_with_a_mask_made_of_extents_has_one_plan() {
    let runs: Vec<_> = (0..20).map(|i| shapes(&[&[1 + i % 3, 2 + i, 8]])).collect();
    assert_eq!(walked(&masked(), &runs), 1);
    // Some operators compare extents with 0 and 1, so these may have plans of their own.
    let runs: Vec<_> = [2, 1, 0, 3, 1, 0].map(|s| shapes(&[&[1, s, 8]])).to_vec();
    assert!(walked(&masked(), &runs) <= 3);
}

/// Convolution, pooling and resizing of an image of any size, followed by the flattening of a classifier.
fn pictures() -> Vec<u8> {
    let conv = with_ints(node("Conv", &["x", "w"], &["c"]), "pads", &[1, 1, 1, 1]);
    let pool = with_ints(node("MaxPool", &["c"], &["p"]), "kernel_shape", &[2, 2]);
    let average = with_ints(node("AveragePool", &["p"], &["a"]), "kernel_shape", &[3, 3]);
    let nodes = vec![
        with_ints(conv, "strides", &[2, 2]),
        with_ints(pool, "strides", &[2, 1]),
        with_ints(average, "pads", &[0, 0, 0, 0]),
        // Doubles the size, with sizes that are computed from the extents.
        node("Shape", &["a"], &["of_a"]),
        ints("twice", &[1, 1, 2, 2]),
        node("Mul", &["of_a", "twice"], &["larger"]),
        node("Resize", &["a", "", "", "larger"], &["upsampled"]),
        node("GlobalAveragePool", &["upsampled"], &["g"]),
        node("Flatten", &["g"], &["y"]),
        with_int(node("Flatten", &["upsampled"], &["z"]), "axis", 2),
    ];
    model(&[("x", &[-1, 2, -1, -1]), ("w", &[3, 2, 3, 3])], nodes, &[("y", &[-1, -1]), ("z", &[-1, -1])])
}

#[test]
fn a_convolution_of_pictures_of_any_size_has_one_plan() {
    let runs: Vec<_> = (0..20).map(|i| shapes(&[&[1 + i % 2, 2, 16 + i, 40 - i], &[3, 2, 3, 3]])).collect();
    assert_eq!(walked(&pictures(), &runs), 1);
}

/// Reshapes with 0 and -1, to extents that other operators computed, and back.
fn reshapes() -> Vec<u8> {
    let nodes = vec![
        ints("open", &[0, -1]),
        node("Reshape", &["x", "open"], &["flat"]),
        node("Shape", &["flat"], &["of_flat"]),
        ints("at", &[1]),
        node("Gather", &["of_flat", "at"], &["columns"]),
        ints("four", &[4]),
        node("Div", &["columns", "four"], &["quarter"]),
        ints("minus", &[-1]),
        with_int(node("Concat", &["minus", "quarter", "four"], &["to"]), "axis", 0),
        node("Reshape", &["flat", "to"], &["blocks"]),
        node("Shape", &["x"], &["of_x"]),
        node("Reshape", &["blocks", "of_x"], &["back"]),
        node("Size", &["x"], &["size"]),
        with_int(node("Cast", &["size"], &["count"]), "to", 1),
        node("Div", &["back", "count"], &["y"]),
    ];
    model(&[("x", &[-1, -1, 4])], nodes, &[("y", &[-1, -1, 4])])
}

#[test]
fn reshapes_to_computed_extents_have_one_plan() {
    let runs: Vec<_> = (0..20).map(|i| shapes(&[&[1 + i % 4, 1 + i, 4]])).collect();
    assert_eq!(walked(&reshapes(), &runs), 1);
    let runs: Vec<_> = [[2, 3], [0, 3], [2, 0], [1, 1], [0, 0]].map(|[a, b]| shapes(&[&[a, b, 4]])).to_vec();
    walked(&reshapes(), &runs);
}

#[test]
fn extents_that_are_equal_by_accident_may_differ_later() {
    // The operands of the addition broadcast; another value is reshaped to the extents of the sum.
    let nodes = vec![
        node("Add", &["a", "b"], &["sum"]),
        node("Shape", &["sum"], &["shape"]),
        node("Expand", &["c", "shape"], &["wide"]),
        node("Reshape", &["wide", "shape"], &["same"]),
        node("Mul", &["same", "sum"], &["y"]),
    ];
    let bytes = model(&[("a", &[-1]), ("b", &[-1]), ("c", &[-1])], nodes, &[("y", &[-1])]);
    let extents = [0, 1, 2, 8, 9];
    let mut all = vec![shapes(&[&[8], &[8], &[8]]), shapes(&[&[1], &[1], &[1]])];
    for a in extents {
        for b in extents {
            for c in extents {
                all.push(shapes(&[&[a], &[b], &[c]]));
            }
        }
    }
    // Many of these runs are errors, and must stay errors, in this order and in reverse order.
    walked(&bytes, &all);
    all.reverse();
    walked(&bytes, &all);
}

#[test]
fn a_plan_holds_only_for_the_extents_that_a_body_branched_on() {
    // Squeezing removes the extents that are 1, so they determine the rank.
    let nodes =
        vec![node("Squeeze", &["x"], &["s"]), node("Size", &["s"], &["n"]), node("Neg", &["s"], &["y"])];
    let bytes = model(&[("x", &[-1, -1])], nodes, &[("y", &[])]);
    let runs: Vec<_> =
        [[1, 5], [1, 6], [5, 1], [1, 1], [4, 4], [0, 1], [3, 7]].map(|s| shapes(&[&s])).to_vec();
    // Both extents are 1, only the first, only the second, or neither.
    assert_eq!(walked(&bytes.clone(), &runs), 4);
    // Slices that go beyond the end of the operand.
    let nodes = vec![
        ints("from", &[2]),
        ints("to", &[6]),
        ints("last", &[-3]),
        ints("end", &[i64::MAX]),
        node("Slice", &["x", "from", "to"], &["middle"]),
        node("Slice", &["x", "last", "end"], &["tail"]),
        with_int(node("Concat", &["middle", "tail"], &["joined"]), "axis", 0),
        node("Shape", &["joined"], &["shape"]),
        node("Reshape", &["joined", "shape"], &["y"]),
    ];
    let bytes = model(&[("x", &[-1])], nodes, &[("y", &[-1])]);
    let runs: Vec<_> = (0..20).chain((0..20).rev()).map(|n| shapes(&[&[n]])).collect();
    walked(&bytes, &runs);
}

#[test]
fn threads_with_other_extents_share_plans() {
    let on = backends::start("cpu").unwrap();
    let module = parsed(&masked());
    let graph = compile(&on, &module);
    std::thread::scope(|scope| {
        for thread in 0..64 {
            let (on, graph, module) = (on.clone(), graph.clone(), module.clone());
            scope.spawn(move || {
                for at in 0..6 {
                    let of = tensors(&[vec![1 + thread % 3, 2 + (thread * 7 + at * 5) % 13, 8]], at);
                    let got = run(&on, &*graph, &of, &mut Profile::new());
                    let fresh = run(&on, &*compile(&on, &module), &of, &mut Profile::new());
                    assert_eq!(got.unwrap(), fresh.unwrap(), "{of:?}");
                }
            });
        }
    });
    let mut profile = Profile::new();
    run(&on, &*graph, &tensors(&[vec![2, 30, 8]], 0), &mut profile).unwrap();
    assert_eq!(plans(&profile), 0);
}

/// Reads a model that is in the repository, or in the folder that the variable `BB_MODELS` names.
fn of_file(name: &str) -> Option<Vec<u8>> {
    let own = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data/models");
    let folders = [Some(own), std::env::var_os("BB_MODELS").map(Into::into)];
    folders.into_iter().flatten().find_map(|folder| std::fs::read(folder.join(name).join("model.onnx")).ok())
}

fn integers(shape: &[usize], below: i64, run: usize) -> TensorData {
    let element = |i: usize| (i as i64 * 7 + run as i64 * 3) % below;
    TensorData::new(shape, &(0..shape.iter().product()).map(element).collect::<Vec<i64>>()).unwrap()
}

/// The inputs of a step of a small decoder: `new` tokens after `past` others.
fn llama(batch: usize, new: usize, past: usize, run: usize) -> Vec<TensorData> {
    let positions: Vec<i64> = (0..batch).flat_map(|_| (past..past + new).map(|p| p as i64)).collect();
    let allowed = |i: usize| i % (past + new) <= past + i / (past + new) % new;
    let mask: Vec<bool> = (0..batch * new * (past + new)).map(allowed).collect();
    let mut inputs = vec![
        integers(&[batch, new], 256, run),
        TensorData::new(&[batch, new], &positions).unwrap(),
        TensorData::bools(&[batch, 1, new, past + new], &mask).unwrap(),
    ];
    inputs.extend((0..4).map(|cache| tensor(&[batch, 2, past, 16], run + cache)));
    inputs
}

#[test]
fn small_decoders_have_one_plan_while_their_caches_grow() {
    for name in ["tiny_llama_fused_op23", "tiny_llama_primitives_op17"] {
        let model = of_file(name).unwrap();
        let steps: Vec<_> = (0..20).map(|past| llama(1, 1, past, past)).collect();
        assert_eq!(walked_on(&["cpu", "reference"], &model, &steps), 1, "{name}");
        let others: Vec<_> = [(1, 4, 0), (2, 1, 4), (2, 3, 5), (1, 1, 1), (3, 2, 0)]
            .iter()
            .enumerate()
            .map(|(at, &(batch, new, past))| llama(batch, new, past, at))
            .collect();
        walked_on(&["cpu"], &model, &others);
    }
}

#[test]
fn models_with_dynamic_axes_have_one_plan() {
    let lengths = || (0..20usize).map(|i| 3 + 2 * i);
    let of = |name: &str, inputs: &dyn Fn(usize, usize) -> Vec<TensorData>| {
        let Some(model) = of_file(name) else { return };
        let runs: Vec<_> = lengths().enumerate().map(|(at, length)| inputs(at, length)).collect();
        assert_eq!(walked_on(&["cpu"], &model, &runs), 1, "{name}");
    };
    of("attacut_sc", &|at, length| vec![integers(&[1, 2, length], 50, at)]);
    of("magika", &|at, length| {
        let bytes = integers(&[length % 5 + 1, 2048], 257, at);
        let bytes: Vec<i32> = bytes.as_slice::<i64>().unwrap().iter().map(|&b| b as i32).collect();
        vec![TensorData::new(&[length % 5 + 1, 2048], &bytes).unwrap()]
    });
    of("minilm_l6_int8", &|at, length| {
        let shape = [1 + at % 2, length];
        let ones = TensorData::new(&shape, &vec![1i64; shape[0] * shape[1]]).unwrap();
        let zeros = TensorData::new(&shape, &vec![0i64; shape[0] * shape[1]]).unwrap();
        vec![integers(&shape, 1000, at), ones, zeros]
    });
    of("ppocr_v4_rec", &|at, length| vec![tensor(&[1 + at % 2, 3, 48, 32 + 8 * length], at)]);
    let rate = || TensorData::new(&[], &[16000i64]).unwrap();
    of("silero_vad_op16", &|at, length| {
        let batch = length % 7 + 1;
        vec![tensor(&[batch, 576], at), tensor(&[2, batch, 128], at), rate()]
    });
    of("silero_vad_ifless_op18", &|at, length| {
        let batch = length % 7 + 1;
        vec![tensor(&[batch, 576], at), rate(), tensor(&[2, batch, 128], at)]
    });
    of("silero_vad_v4_legacy", &|at, length| {
        let batch = length % 7 + 1;
        vec![tensor(&[batch, 1536], at), rate(), tensor(&[2, batch, 64], at), tensor(&[2, batch, 64], at)]
    });
}
